"""The text and HTML of a lazy object, made from its first rows, its last rows and the number of rows.

pandas truncates long objects. So pandas prints a small frame of the first and last rows, which it truncates at the same places,
and the number of rows in the last line is then corrected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from craton.engine import best_computed_once
from craton.errors import Unsupported
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.dtypes import family, is_carried
from craton.pandas.core.execute import block_manager, count_rows, materialise_all, resolved, series_manager
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.indexing.rows import sliced
from craton.pandas.reductions.reductions import arguments, prefetch
from craton.refusals import Refusal


def first_and_last_rows(obj: Any) -> tuple[Any, int]:
    """A plain pandas object of the first and last rows, more than are printed, and the number of all rows.

    Raises
    ------
    Unsupported
        If pandas prints all rows, or a summary (``display.large_repr``). If all rows are few, or take no longer than the
        first ones and fit into memory.
    """
    most = pd.get_option("display.max_rows")
    if most is None or pd.get_option("display.large_repr") == "info":
        raise Unsupported(Refusal.ALL_ROWS)
    most = max(most, 100)
    held = view(obj)
    if not _has_lists(obj) and best_computed_once(held.base, 2 * most):
        raise Unsupported(Refusal.ALL_ROWS)
    rows = count_rows(held)
    if rows <= 2 * most:
        raise Unsupported(Refusal.ALL_ROWS)
    held = replace(held, rows=rows)
    ends = [sliced(held, None, most), sliced(held, rows - most, None)]
    if _has_lists(obj):
        from craton.pandas.values.lists.columns import with_own_lists

        ends = list(map(with_own_lists, ends))
    first, last = materialise_all(ends)
    parts = [_plain(obj, held, arrays, index) for arrays, index in (first, last)]
    few = pd.concat(parts)
    # concat drops a name that is NaN: NaN does not equal itself, so the names of the parts seem to differ.
    few.index = few.index.set_names(list(first[1].names))
    if isinstance(few, pd.DataFrame):
        few.columns = held.labels
    else:
        few._name = held.labels[0]
    return few, rows


def _has_lists(obj: Any) -> bool:
    """Whether a lazy object has a column of objects that are made of text."""
    held = obj.__dict__.get("_view")
    return held is not None and any(isinstance(one.expr, ObjectColumn) and one.expr.text for one in held.values)


def _in_pandas(obj: Any, method: Any) -> Any:
    """The result of a method of pandas on the evaluated object; the calls that it makes are not planned."""
    if _has_lists(obj):
        from craton.pandas.values.lists.columns import with_own_lists

        obj = lazy(type(obj), with_own_lists(view(obj)), obj)
    _ = obj._mgr
    with plain_pandas():
        return method(obj)


def _plain(obj: Any, held: View, arrays: list[Any], index: pd.Index) -> Any:
    if isinstance(obj, pd.Series):
        manager = series_manager(arrays[0], index)
        series = pd.Series._from_mgr(manager, manager.axes)
        series._name = held.labels[0]
        return series
    manager = block_manager(arrays, index, pd.RangeIndex(len(arrays)))
    return pd.DataFrame._from_mgr(manager, manager.axes)


def _replace_last(text: str, before: str, after: str) -> str:
    """The text with the last occurrence of ``before`` replaced."""
    place = text.rfind(before)
    return text if place < 0 else text[:place] + after + text[place + len(before) :]


def memory_usage_of(held: View, value: Value) -> int:
    """The bytes that a column takes in pandas."""
    rows = count_rows(held)
    if not value.definite:
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    if isinstance(value.dtype, (np.dtype, pd.DatetimeTZDtype)):
        return rows * value.dtype.itemsize
    if family(value.dtype) == "masked" and not isinstance(value.dtype, pd.StringDtype):
        return rows * (value.dtype.itemsize + 1)
    raise Unsupported(Refusal.MEMORY_OF_DTYPE, value.dtype)


class FramePrinting:
    """Methods of DataFrame."""

    def __repr__(self: Any) -> str:
        if not is_lazy(self):
            return _in_pandas(self, pd.DataFrame.__repr__)
        try:
            few, rows = first_and_last_rows(self)
        except Unsupported:
            return _in_pandas(self, pd.DataFrame.__repr__)
        return _replace_last(repr(few), f"[{len(few)} rows x", f"[{rows} rows x")

    def _repr_html_(self: Any) -> str | None:
        if not is_lazy(self):
            return _in_pandas(self, pd.DataFrame._repr_html_)
        try:
            few, rows = first_and_last_rows(self)
        except Unsupported:
            return _in_pandas(self, pd.DataFrame._repr_html_)
        text = few._repr_html_()
        return None if text is None else _replace_last(text, f"<p>{len(few)} rows", f"<p>{rows} rows")

    @native(pd.DataFrame)
    def memory_usage(self: Any, index: Any = True, deep: Any = False) -> Any:
        held = view(self)
        if deep or index not in (True, False):
            raise Unsupported(Refusal.MEMORY_OF_OBJECTS)
        sizes = [memory_usage_of(held, value) for value in held.values]

        result = series_class()(sizes, index=self.columns, dtype="int64")
        if index:
            labels = series_class()(_memory_of_labels(held), index=["Index"], dtype="int64")
            with plain_pandas():
                result = labels._append_internal(result)
        return result

    @native(pd.DataFrame)
    def info(self: Any, *args: Any, **kwargs: Any) -> None:
        named = arguments(pd.DataFrame, "info", args, kwargs)
        held = resolved(view(self))
        if named.get("memory_usage") == "deep":
            raise Unsupported(Refusal.MEMORY_OF_OBJECTS)
        prefetch(held, [("count", value, {}) for value in held.values])
        with plain_pandas():
            pd.DataFrame.info(self, **named)


class SeriesPrinting:
    """Methods of Series."""

    def __repr__(self: Any) -> str:
        if not is_lazy(self):
            return _in_pandas(self, pd.Series.__repr__)
        try:
            few, rows = first_and_last_rows(self)
        except Unsupported:
            return _in_pandas(self, pd.Series.__repr__)
        return _replace_last(repr(few), f"Length: {len(few)}", f"Length: {rows}")

    @native(pd.Series)
    def memory_usage(self: Any, index: Any = True, deep: Any = False) -> Any:
        held = view(self)
        if deep or index not in (True, False):
            raise Unsupported(Refusal.MEMORY_OF_OBJECTS)
        return memory_usage_of(held, held.values[0]) + (_memory_of_labels(held) if index else 0)


def _memory_of_labels(held: View) -> int:
    if held.index.kind == "default":
        return int(pd.RangeIndex(count_rows(held)).memory_usage())
    if held.index.kind == "labels" and not is_carried(held.index.values[0].dtype):
        return memory_usage_of(held, held.index.values[0])
    raise Unsupported(Refusal.MEMORY_OF_LABELS)
