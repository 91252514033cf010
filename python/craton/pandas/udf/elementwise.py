"""``map``, ``Series.apply`` and ``transform`` with a Python function that is called for each element.

After all calls, pandas' own method runs with a function that returns their results in order.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from craton.errors import Unsupported
from craton.pandas.core.axes import current_view
from craton.pandas.core.counterparts import as_pandas, plannable
from craton.pandas.core.native import named_as
from craton.pandas.core.routing import plain_pandas
from craton.pandas.udf.calls import bound_function, require_python_function, run_job
from craton.pandas.udf.known_functions import mapped_by_known
from craton.pandas.udf.named import apply_series_by_name
from craton.pandas.udf.rows import apply_frame
from craton.refusals import Refusal
from craton.remote import parallel_calls
from craton.remote.functions import UserFunction, from_table, to_table
from craton.remote.values import Values, pack, unpack

_FEW_ROWS = 1_000
"""The length up to which pandas' own loop makes the calls of a function, until they have taken ``SAMPLE_SECONDS``."""

__all__ = ["apply_series", "map_frame", "map_series", "transform_frame", "transform_series"]


def map_series(self: Any, func: Any = None, na_action: Any = None, engine: Any = None, **kwargs: Any) -> Any:
    """``series.map(func)`` for a function.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or pandas does not call it for each element in order.
    """
    known = mapped_by_known(self, func, na_action) if engine is None and not kwargs else None
    if known is not None:
        return self._constructor(known, index=self.index, copy=False).__finalize__(self, method="map")
    require_python_function(self, func)
    if engine is not None or na_action not in (None, "ignore"):
        raise Unsupported(Refusal.PARAMETER, "engine")
    series = _as_read_by_loop(self)
    _refuse_unordered_calls(series)
    function = UserFunction(functools.partial(func, **kwargs) if kwargs else func)
    with plain_pandas():
        values = _map_values_by_job(series, function, na_action, "Series.map")
        return series._constructor(values, index=series.index, copy=False).__finalize__(self, method="map")


def apply_series(self: Any, func: Any, args: Any = (), *, by_row: Any = "compat", **kwargs: Any) -> Any:
    """``series.apply(func)`` for a function.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or is called with the whole column.
    """
    if isinstance(func, str) and by_row == "compat" and args == () and plannable(type(self)):
        if not _has_rows(self):
            raise Unsupported(Refusal.NO_ROWS)
        return apply_series_by_name(self, func, **kwargs)
    if by_row == "compat" and args == () and not kwargs:
        if isinstance(func, np.ufunc) and plannable(type(self)) and _has_rows(self):
            with np.errstate(all="ignore"):
                return func(self)
        known = mapped_by_known(self, func, None)
        if known is not None:
            return self._constructor(known, index=self.index).__finalize__(self, method="apply")
    require_python_function(self, func)
    if by_row != "compat" or type(args) is not tuple:
        raise Unsupported(Refusal.FUNCTION_ON_COLUMN)
    _refuse_unordered_calls(self)
    function = UserFunction(func, args, kwargs)
    with plain_pandas():
        if len(self) <= _FEW_ROWS:
            return pd.Series.apply(self, _CallsOfFewRows(self._values, function, "Series.apply"))
        read = _as_read_by_loop(self)
        mapper = _replay(_results(read._values, function, "Series.apply"))
        return pd.Series.apply(self, mapper)


def _has_rows(series: Any) -> bool:
    planned = current_view(series.__dict__)
    rows = len(series) if planned is None or planned.rows is None else planned.rows
    return rows > 0


def map_frame(self: Any, func: Any, na_action: Any = None, **kwargs: Any) -> Any:
    """``df.map(func)`` for a function.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or the frame is empty.
    """
    require_python_function(self, func)
    if na_action not in (None, "ignore") or self.empty:
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    frame = as_pandas(self)
    function = UserFunction(functools.partial(func, **kwargs))

    def infer(column: Any) -> Any:
        if not _is_called_for_each_element(column.dtype):
            return column._map_values(function.call, na_action=na_action)
        return _map_values_by_job(column, function, na_action, "DataFrame.map")

    with plain_pandas():
        return pd.DataFrame.apply(frame, infer).__finalize__(self, "map")


def transform_frame(self: Any, func: Any, axis: Any = 0, *args: Any, **kwargs: Any) -> Any:
    """``df.transform(func)`` for a function.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or `axis` is 1.
    """
    require_python_function(self, func)
    if axis not in (0, "index"):
        raise Unsupported(Refusal.FUNCTION_OF_ROWS)
    return _run_transform(self, pd.DataFrame.transform, apply_frame, func, args, kwargs)


def transform_series(self: Any, func: Any, axis: Any = 0, *args: Any, **kwargs: Any) -> Any:
    """``series.transform(func)`` for a function.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or `axis` is not an axis of a Series.
    """
    require_python_function(self, func)
    if axis not in (0, "index"):
        raise Unsupported(Refusal.PARAMETER, "axis")
    _refuse_unordered_calls(self)
    return _run_transform(self, pd.Series.transform, apply_series, func, args, kwargs)


def _run_transform(
    self: Any, theirs: Any, apply: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    obj = as_pandas(self)

    def own(function: Any, *more: Any, **others: Any) -> Any:
        try:
            return apply(obj, function, *more, **others)
        except Unsupported:
            return type(obj).apply(obj, function, *more, **others)

    obj.__dict__["apply"] = own  # pandas calls it first
    with plain_pandas():
        return theirs(obj, func, 0, *args, **kwargs)


def _refuse_unordered_calls(series: Any) -> None:
    if not len(series) or not _is_called_for_each_element(series.dtype):
        raise Unsupported(Refusal.CELLS_TOGETHER)


def _as_read_by_loop(series: Any) -> Any:
    """The column from which pandas' loop reads values: a column of objects itself, or the values of another one before the calls.

    So if the function writes to the column during the calls, its later calls get the new values only if it is a column of objects.
    """
    return series if series.dtype == object else as_pandas(series)


def _is_called_for_each_element(dtype: Any) -> bool:
    """Whether pandas calls a function for each element; for categorical and sparse columns it calls it once for equal elements."""
    return not isinstance(dtype, (pd.CategoricalDtype, pd.SparseDtype))


def _replay(results: list[Any]) -> Callable[[Any], Any]:
    """A function that ignores its argument and returns the results in order."""
    return functools.partial(next, iter(results))


def _map_values_by_job(series: Any, function: UserFunction, na_action: Any, label: str) -> Any:
    """As ``series._map_values``, with the calls run as a job."""
    job = _ElementwiseJob(series._values, function, na_action == "ignore")
    results = run_job(job, label)
    array = results.array()
    if array is not None and na_action is None and isinstance(series._values, np.ndarray):
        return array
    return series._map_values(_replay(job.results_of_calls(results.to_list())), na_action=na_action)


def _results(values: Any, function: UserFunction, label: str) -> list[Any]:
    return run_job(_ElementwiseJob(values, function, False), label).to_list()


class _CallsOfFewRows:
    """The function that pandas' loop calls for each element of a short column.

    It calls the user's function. If the calls take long, the remaining ones are made as a job, whose results it returns in order.
    """

    __slots__ = ("_call", "_done", "_ends", "_function", "_label", "_rest", "_values")

    def __init__(self, values: Any, function: UserFunction, label: str) -> None:
        self._values = values.astype(object, copy=False)  # as pandas' loop takes them
        self._function, self._label = function, label
        self._call, self._done = bound_function(function), 0
        self._rest: Iterator[Any] | None = None
        self._ends = time.perf_counter() + parallel_calls.SAMPLE_SECONDS

    def __call__(self, element: Any) -> Any:
        if self._rest is None:
            if time.perf_counter() < self._ends:
                self._done += 1
                return self._call(element)
            self._rest = iter(_results(self._values[self._done :], self._function, self._label))
        return next(self._rest)


@dataclass(frozen=True)
class _ElementwiseBody:
    """The calls for elements of a column."""

    ignoring: bool

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> None:
        with plain_pandas():
            _collect(from_table(rows), bound_function(function), self.ignoring, results)

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)


def _collect(values: Any, call: Callable[[Any], Any], ignoring: bool, results: list[Any]) -> None:
    elements = values.astype(object, copy=False)
    if not ignoring:
        append = results.append
        for element in elements:
            append(call(element))
        return
    for element, missing in zip(elements, pd.isna(elements), strict=True):
        results.append(element if missing else call(element))


class _ElementwiseJob:
    """A job that calls the function for each element of a column."""

    weights = None
    planned = False

    def __init__(self, values: Any, function: UserFunction, ignoring: bool) -> None:
        self._values, self.function, self._ignoring = values, function, ignoring
        self.body = _ElementwiseBody(ignoring)

    def __len__(self) -> int:
        return len(self._values)

    def here(self, start: int, stop: int, results: list[Any]) -> None:
        _collect(self._values[start:stop], bound_function(self.function), self._ignoring, results)

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table(self._values[start:stop])

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)

    def results_of_calls(self, results: list[Any]) -> list[Any]:
        """The results of the elements for which the function is called."""
        if not self._ignoring:
            return results
        return list(compress(results, ~pd.isna(self._values.astype(object))))


for _theirs, _ours in (
    (pd.DataFrame.map, map_frame),
    (pd.DataFrame.transform, transform_frame),
    (pd.Series.apply, apply_series),
    (pd.Series.map, map_series),
    (pd.Series.transform, transform_series),
):
    named_as(_theirs, _ours)
