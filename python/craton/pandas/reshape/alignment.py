"""Methods of DataFrame and Series that align rows and columns by label: reindex, align, combine_first, update, compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.counterparts import as_pandas
from craton.pandas.core.dtypes import same_dtype
from craton.pandas.core.lazy import consolidated, lazy, refuse_unique_labels_flag, replace_state, view
from craton.pandas.core.native import native
from craton.pandas.core.view import name_index
from craton.pandas.reshape.relational_calls import check_operands
from craton.refusals import Refusal

_ROWS, _COLUMNS = (0, "index", "rows"), (1, "columns")


def _how(method: Any, limit: Any, tolerance: Any) -> dict[str, Any]:
    """The parameters of ``reindex`` that are given."""
    given = {"method": method, "limit": limit, "tolerance": tolerance}
    return {name: value for name, value in given.items() if value is not None}


def _refuse(copy: Any, level: Any) -> None:
    if copy is not no_default:
        raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
    if level is not None:
        raise Unsupported(Refusal.PARAMETER, "level")


def _by_frequency(obj: Any, freq: Any, method: Any, how: Any, normalize: Any, fill_value: Any, framed: bool) -> Any:
    from craton.pandas.reshape.reindexing import rows_by_frequency

    refuse_unique_labels_flag(obj)
    chosen = {"freq": freq, "method": method, "how": how, "normalize": normalize}
    return lazy(type(obj), rows_by_frequency(view(obj), fill_value, framed, **chosen), obj)


def _in_one_block(name: str) -> Callable[..., Any]:
    """Pandas' own ``reindex`` or ``reindex_like``, on a frame that is consolidated as in pandas.

    Missing rows or columns change the dtype of all columns if these are one block. A materialised frame has one block per column.
    """
    theirs = getattr(pd.DataFrame, name)
    return lambda obj, *args, **kwargs: theirs(consolidated(obj, False), *args, **kwargs)


def _with_objects_of_pandas(base: Any) -> Callable[..., Any]:
    """Pandas' own ``compare``, which refuses an object of another class than its own, such as one of pandas."""
    theirs = base.compare

    def compare(obj: Any, *args: Any, **kwargs: Any) -> Any:
        other = args[0] if args else kwargs.get("other")
        return theirs(as_pandas(obj) if type(other) is base else obj, *args, **kwargs)

    compare.__doc__ = theirs.__doc__
    return compare


class FrameAlignment:
    """Methods of DataFrame."""

    @native(pd.DataFrame, fallback=_in_one_block("reindex"))
    def reindex(
        self: Any,
        labels: Any = None,
        *,
        index: Any = None,
        columns: Any = None,
        axis: Any = None,
        method: Any = None,
        copy: Any = no_default,
        level: Any = None,
        fill_value: Any = no_default,
        limit: Any = None,
        tolerance: Any = None,
    ) -> Any:
        from craton.pandas.reshape.reindexing import reindexed

        _refuse(copy, level)
        refuse_unique_labels_flag(self)
        if labels is not None:
            if index is not None or columns is not None or axis not in (None, *_ROWS, *_COLUMNS):
                raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
            index, columns = (None, labels) if axis in _COLUMNS else (labels, None)
        elif axis is not None or (index is None and columns is None):
            raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
        return lazy(type(self), reindexed(view(self), index, columns, fill_value, _how(method, limit, tolerance)), self)

    @native(pd.DataFrame, fallback=_in_one_block("reindex_like"))
    def reindex_like(
        self: Any, other: Any, method: Any = None, copy: Any = no_default, limit: Any = None, tolerance: Any = None
    ) -> Any:
        from craton.pandas.reshape.reindexing import reindexed

        _refuse(copy, None)
        refuse_unique_labels_flag(self)
        how = _how(method, limit, tolerance)
        if how or not isinstance(other, pd.DataFrame):
            raise Unsupported(Refusal.PARAMETERS, "method, limit and tolerance")
        return lazy(type(self), reindexed(view(self), other.index, other.columns, no_default, {}), self)

    @native(pd.DataFrame)
    def asfreq(
        self: Any, freq: Any, method: Any = None, how: Any = None, normalize: Any = False, fill_value: Any = None
    ) -> Any:
        return _by_frequency(self, freq, method, how, normalize, fill_value, True)

    @native(pd.DataFrame)
    def align(
        self: Any,
        other: Any,
        join: Any = "outer",
        axis: Any = None,
        level: Any = None,
        copy: Any = no_default,
        fill_value: Any = None,
    ) -> Any:
        _refuse(copy, level)
        if not isinstance(other, pd.DataFrame):
            raise Unsupported(Refusal.JOIN_WITH, type(other).__name__)
        axes = (0, 1) if axis is None else (0,) if axis in _ROWS else (1,) if axis in _COLUMNS else None
        return _aligned(self, other, join, axes, fill_value)

    @native(pd.DataFrame)
    def combine_first(self: Any, other: Any) -> Any:
        from craton.pandas.reshape.combining import combined_first

        if not isinstance(other, pd.DataFrame):
            raise Unsupported(Refusal.JOIN_WITH, type(other).__name__)
        check_operands(self, other)
        return lazy(type(self), combined_first(view(self), view(other)), self)

    @native(pd.DataFrame)
    def update(
        self: Any,
        other: Any,
        join: Any = "left",
        overwrite: Any = True,
        filter_func: Any = None,
        errors: Any = "ignore",
    ) -> None:
        from craton.pandas.reshape.combining import updated

        if join != "left" or filter_func is not None or errors != "ignore" or not isinstance(overwrite, bool):
            raise Unsupported(Refusal.PARAMETERS, "join, overwrite, filter_func and errors")
        if not isinstance(other, pd.DataFrame):
            raise Unsupported(Refusal.JOIN_WITH, type(other).__name__)
        replace_state(self, updated(view(self), view(other), overwrite))

    @native(pd.DataFrame, theirs=_with_objects_of_pandas(pd.DataFrame), like=pd.DataFrame.compare)
    def compare(
        self: Any,
        other: Any,
        align_axis: Any = 1,
        keep_shape: Any = False,
        keep_equal: Any = False,
        result_names: Any = ("self", "other"),
    ) -> Any:
        from craton.pandas.reshape.comparing import compared

        return compared(self, other, align_axis, keep_shape, keep_equal, result_names)


class SeriesAlignment:
    """Methods of Series."""

    @native(pd.Series)
    def reindex(
        self: Any,
        index: Any = None,
        *,
        axis: Any = None,
        method: Any = None,
        copy: Any = no_default,
        level: Any = None,
        fill_value: Any = no_default,
        limit: Any = None,
        tolerance: Any = None,
    ) -> Any:
        from craton.pandas.reshape.reindexing import reindexed_rows

        _refuse(copy, level)
        refuse_unique_labels_flag(self)
        if index is None or axis is not None:
            raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
        fill = no_default if fill_value is None else fill_value
        found = reindexed_rows(view(self), index, fill, False, **_how(method, limit, tolerance))[0]
        return lazy(type(self), found, self)

    @native(pd.Series)
    def reindex_like(
        self: Any, other: Any, method: Any = None, copy: Any = no_default, limit: Any = None, tolerance: Any = None
    ) -> Any:
        from craton.pandas.reshape.reindexing import reindexed_rows

        _refuse(copy, None)
        refuse_unique_labels_flag(self)
        if _how(method, limit, tolerance) or not isinstance(other, (pd.Series, pd.DataFrame)):
            raise Unsupported(Refusal.PARAMETERS, "method, limit and tolerance")
        return lazy(type(self), reindexed_rows(view(self), other.index, no_default, False)[0], self)

    @native(pd.Series)
    def asfreq(
        self: Any, freq: Any, method: Any = None, how: Any = None, normalize: Any = False, fill_value: Any = None
    ) -> Any:
        return _by_frequency(self, freq, method, how, normalize, fill_value, False)

    @native(pd.Series)
    def align(
        self: Any,
        other: Any,
        join: Any = "outer",
        axis: Any = None,
        level: Any = None,
        copy: Any = no_default,
        fill_value: Any = None,
    ) -> Any:
        _refuse(copy, level)
        if not isinstance(other, pd.Series) or axis not in (None, *_ROWS):
            raise Unsupported(Refusal.JOIN_WITH, type(other).__name__)
        return _aligned(self, other, join, (0,), fill_value)

    @native(pd.Series)
    def update(self: Any, other: Any) -> None:
        from craton.pandas.reshape.combining import updated_series

        if not isinstance(other, pd.Series) or not same_dtype(other.dtype, self.dtype):
            raise Unsupported(Refusal.FILLING_BY_SERIES)
        replace_state(self, updated_series(view(self), view(other)))

    @native(pd.Series, theirs=_with_objects_of_pandas(pd.Series), like=pd.Series.compare)
    def compare(
        self: Any,
        other: Any,
        align_axis: Any = 1,
        keep_shape: Any = False,
        keep_equal: Any = False,
        result_names: Any = ("self", "other"),
    ) -> Any:
        from craton.pandas.reshape.comparing import compared

        return compared(self, other, align_axis, keep_shape, keep_equal, result_names)

    @native(pd.Series)
    def combine_first(self: Any, other: Any) -> Any:
        from craton.pandas.reshape.combining import combined_series
        from craton.pandas.values.filling import filled_with

        if not isinstance(other, pd.Series) or not same_dtype(other.dtype, self.dtype):
            raise Unsupported(Refusal.FILLING_BY_SERIES)
        try:
            held, fillers = aligned(view(self), view(other))
        except Unsupported:
            result = combined_series(view(self), view(other))
        else:
            result = held.with_values([filled_with(held.values[0], fillers.values[0])])
        return lazy(type(self), replace(result, labels=name_index(self.name)), self)


def _aligned(one: Any, other: Any, join: Any, axes: Any, fill: Any) -> Any:
    """``align`` of two frames or of two series."""
    from craton.pandas.reshape.reindexing import aligned_pair

    if axes is None or join not in ("outer", "inner", "left", "right"):
        raise Unsupported(Refusal.PARAMETERS, "axis and join")
    check_operands(one, other)
    framed = isinstance(one, pd.DataFrame), isinstance(other, pd.DataFrame)
    left, right = aligned_pair(view(one), view(other), join, axes, fill, framed)
    return lazy(type(one), left, one), lazy(type(other), right, other)
