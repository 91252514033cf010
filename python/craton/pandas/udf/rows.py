"""``DataFrame.apply`` with a Python function: over rows, over columns, or over arrays (``raw=True``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.core.apply import frame_apply

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_pandas
from craton.pandas.core.native import named_as
from craton.pandas.core.routing import plain_pandas, stays_in_pandas
from craton.pandas.udf.calls import bound_function, require_python_function, run_job
from craton.pandas.udf.results import Stacked, pack_objects, stacked
from craton.refusals import Refusal
from craton.remote.functions import UserFunction, from_table, to_table
from craton.remote.parallel_calls import Results
from craton.remote.values import Values, pack, unpack

#: The number of rows that are converted to a matrix together when calls run in this process; pandas converts all rows together.
_BLOCK = 4096


def apply_frame(
    self: Any,
    func: Any,
    axis: Any = 0,
    raw: bool = False,
    result_type: Any = None,
    args: Any = (),
    by_row: Any = "compat",
    engine: Any = None,
    engine_kwargs: Any = None,
    **kwargs: Any,
) -> Any:
    """``df.apply(func, …)`` for a function.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or the arguments make pandas call it in another way than for each row or column.
    """
    require_python_function(self, func)
    if engine not in (None, "python") or result_type == "broadcast" or type(args) is not tuple:
        raise Unsupported(Refusal.PARAMETERS, "engine, engine_kwargs, broadcast and result_type")
    if not all(self.shape):
        raise Unsupported(Refusal.NO_ROWS)
    number = self._get_axis_number(axis)
    if number == 0 and not raw and result_type is None and by_row == "compat" and not stays_in_pandas(self):
        return _apply_to_columns(self, func, args, kwargs)
    frame = as_pandas(self)
    with plain_pandas():
        operation: Any = frame_apply(
            frame, func, axis, raw, result_type, by_row, "python", engine_kwargs, args=args, kwargs=kwargs
        )
        function = UserFunction(func, args, kwargs)
        if raw:
            job = _Raw(operation.values, number, function)
            operation.apply_raw = lambda engine=None, engine_kwargs=None: _apply_raw(
                operation, run_job(job, "DataFrame.apply")
            )
        else:
            rows = _Rows(frame, function) if number == 1 else _Columns(frame, function)

            def loop() -> Any:
                return _wrap_results(operation, run_job(rows, "DataFrame.apply"), number)

            operation.apply_standard = loop
        return operation.apply().__finalize__(self, method="apply")


named_as(pd.DataFrame.apply, apply_frame)


def _wrap_results(operation: Any, results: Results, axis: int) -> Any:
    """The result that pandas makes of the results of the calls. Numbers, and Series of one shape, need no object for each result."""
    array = results.array()
    if array is not None:
        return operation.wrap_results(array, operation.result_index)
    if axis == 1 and results.pieces:
        table = _table(results, operation)
        if table is not None:
            return table
    return operation.wrap_results(dict(enumerate(results.to_list())), operation.result_index)


def _table(results: Results, operation: Any) -> Any:
    """The frame of results that are all Series with the same labels and dtype; None if they are not."""
    parts: list[Stacked] = []
    for chunk in results.chunks:
        part = chunk.others if isinstance(chunk.others, Stacked) else stacked(chunk.to_list())
        if part is None or (parts and not part.like(parts[0])):
            return None
        parts.append(part)
    values = np.concatenate([part.values for part in parts])
    made = pd.DataFrame(values, index=operation.result_index, columns=parts[0].labels, copy=False)
    return made.infer_objects()


# -- rows -------------------------------------------------------------------------------------------------------------


def _series_of(frame: Any) -> Iterator[Any]:
    """The rows of a frame as Series, as pandas' loop makes them."""
    operation: Any = frame_apply(frame, _series_of, 1, args=(), kwargs={})
    return operation.series_generator  # type: ignore[no-any-return]


def _collect(rows: Iterator[Any], call: Any, results: list[Any]) -> None:
    for row in rows:
        result = call(row)
        # pandas reuses one Series for all rows and replaces its data, so a result that may be a view of it is copied.
        results.append(result.copy(deep=False) if isinstance(result, pd.Series) else result)


@dataclass(frozen=True)
class _RowsBody:
    """The calls for rows of a frame."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> None:
        frame = from_table(rows)
        with plain_pandas():
            _collect(_series_of(frame), bound_function(function), results)

    def pack(self, results: list[Any]) -> pa.Table:
        return pack_objects(results)


class _Rows:
    """A job that calls the function for each row of a frame."""

    weights = None
    planned = False
    body = _RowsBody()

    def __init__(self, frame: Any, function: UserFunction) -> None:
        self._frame, self.function = frame, function
        self._call = bound_function(function)
        self._at = self._end = 0
        self._series: Iterator[Any] = iter(())

    def __len__(self) -> int:
        return len(self._frame)

    def here(self, start: int, stop: int, results: list[Any]) -> None:
        if start != self._at:
            self._at = self._end = start
        while start < stop:
            if self._at == self._end:
                self._end = min(start + _BLOCK, len(self))
                part = self._frame if self._end - start == len(self) else self._frame.iloc[start : self._end]
                self._series = _series_of(part)
            count = min(stop, self._end) - start
            _collect(islice(self._series, count), self._call, results)
            start += count
            self._at = start

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table(self._frame.iloc[start:stop])

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)


# -- columns ----------------------------------------------------------------------------------------------------------


def _apply_to_columns(self: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with each column of a planned frame, so that what it does with the column is planned, too."""
    results = {}
    for i in range(self.shape[1]):
        result = func(self.iloc[:, i], *args, **kwargs)
        results[i] = result.copy(deep=False) if isinstance(result, pd.Series) else result
    operation: Any = frame_apply(self, func, 0, args=args, kwargs=kwargs)
    wrap = operation.wrap_results
    if isinstance(results[0], pd.Series):
        wrap = operation.wrap_results_for_axis  # wrap_results would read the values to see that a Series is a sequence
    return wrap(results, self.columns).__finalize__(self, method="apply")


@dataclass(frozen=True)
class _ColumnsBody:
    """The calls for columns of a frame."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> None:
        frame = from_table(rows)
        with plain_pandas():
            _collect((frame._ixs(i, axis=1) for i in range(len(frame.columns))), bound_function(function), results)

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)


class _Columns:
    """A job that calls the function for each column of a frame."""

    weights = None
    planned = False
    body = _ColumnsBody()

    def __init__(self, frame: Any, function: UserFunction) -> None:
        self._frame, self.function = frame, function

    def __len__(self) -> int:
        return len(self._frame.columns)

    def here(self, start: int, stop: int, results: list[Any]) -> None:
        columns = (self._frame._ixs(i, axis=1) for i in range(start, stop))
        _collect(columns, bound_function(self.function), results)

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table(self._frame.iloc[:, start:stop])

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)


# -- raw --------------------------------------------------------------------------------------------------------------


def _apply_raw(operation: Any, results: Results) -> Any:
    """The result that pandas makes of the results: its loop runs with a function that returns them in order."""
    after = iter(results.to_list())
    operation.func, operation.args, operation.kwargs = lambda _: next(after), (), {}
    return type(operation).apply_raw(operation)


@dataclass(frozen=True)
class _RawBody:
    """The calls for rows of a matrix, which is transposed if the function is called for columns."""

    writeable: bool

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> None:
        values = from_table(rows, copy=self.writeable)
        call = bound_function(function)
        with plain_pandas():
            for one in values:
                results.append(call(one))

    def pack(self, results: list[Any]) -> pa.Table:
        return pack(results)


class _Raw:
    """A job that calls the function for each row or column of a matrix."""

    weights = None
    planned = False

    def __init__(self, values: np.ndarray[Any, Any], axis: int, function: UserFunction) -> None:
        self._values = values if axis == 1 else values.T
        self.function = function
        self.body = _RawBody(bool(values.flags.writeable))

    def __len__(self) -> int:
        return len(self._values)

    def here(self, start: int, stop: int, results: list[Any]) -> None:
        call = bound_function(self.function)
        for at in range(start, stop):
            results.append(call(self._values[at]))

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table(self._values[start:stop])

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)
