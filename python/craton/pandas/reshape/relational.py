"""Methods of DataFrame on whole tables: merge, join, sort, set_index and reset_index, duplicates, melt."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import no_default
from pandas.api.types import is_hashable, is_list_like
from pandas.errors import Pandas4Warning

from craton.callers import warn
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.dtypes import OBJECT, is_carried
from craton.pandas.core.execute import resolved, resolved_keys
from craton.pandas.core.lazy import lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import by_arguments, native
from craton.pandas.core.routing import all_stay, plain_pandas
from craton.pandas.core.view import IndexSpec, Value, View, as_frame
from craton.pandas.reshape.relational_calls import (
    check_bools,
    check_operands,
    check_row_axis,
    in_place,
    return_or_replace,
    sort_by_index,
)
from craton.pandas.reshape.small_tables import reshaped
from craton.refusals import Refusal


def sort_key(held: View, label: Any) -> Value:
    """The column or index level with the given label."""
    if isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    found = held.positions(label)
    levels = held.index.levels_named(label)
    if len(found) + len(levels) != 1:
        raise Unsupported(Refusal.NO_COLUMN, repr(label))
    return held.values[found[0]] if found else held.index.values[levels[0]]


class FrameRelational:
    """Methods of DataFrame."""

    @native(pd.DataFrame, "merge", route=by_arguments(all_stay))
    def merge(
        self: Any,
        right: Any,
        how: Any = "inner",
        on: Any = None,
        left_on: Any = None,
        right_on: Any = None,
        left_index: Any = False,
        right_index: Any = False,
        sort: Any = False,
        suffixes: Any = ("_x", "_y"),
        copy: Any = no_default,
        indicator: Any = False,
        validate: Any = None,
    ) -> Any:
        if copy is not no_default:
            raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
        keys = (on, left_on, right_on, left_index, right_index)
        return merged(self, right, how, *keys, sort, suffixes, indicator, validate)

    @native(pd.DataFrame, "join", route=by_arguments(all_stay))
    def join(
        self: Any,
        other: Any,
        on: Any = None,
        how: Any = "left",
        lsuffix: Any = no_default,
        rsuffix: Any = no_default,
        sort: Any = False,
        validate: Any = None,
        *,
        suffixes: Any = no_default,
    ) -> Any:
        old = [suffix for suffix in (lsuffix, rsuffix) if suffix is not no_default]
        if old and suffixes is not no_default:
            raise Unsupported(Refusal.MERGE_SUFFIXES)
        if isinstance(other, (list, tuple)):
            return self._join_several(other, on, how, sort, validate, old or suffixes is not no_default)
        pair: Any = ("", "") if suffixes is no_default else suffixes
        if old:
            pair = tuple("" if suffix is no_default else suffix for suffix in (lsuffix, rsuffix))
        keys = (on, None, None, False, False) if how == "cross" else (None, on, None, on is None, True)
        result = merged(self, other, how, *keys, sort, pair, False, validate)
        if old:
            warn(
                "The 'lsuffix' and 'rsuffix' keywords in DataFrame.join are deprecated and will be removed in a future "
                "version. Use the 'suffixes' keyword instead.",
                Pandas4Warning,
            )
        return result

    def _join_several(self: Any, others: Any, on: Any, how: Any, sort: Any, validate: Any, suffixed: Any) -> Any:
        """Join with the rows of several frames by their row labels."""
        from craton.pandas.reshape.concatenation import joined_rows

        if on is not None or suffixed or how not in ("left", "right", "inner", "outer") or validate is not None:
            raise Unsupported(Refusal.PARAMETERS, "on, how, suffixes and validate")
        check_bools(sort=sort)
        frames = [self, *others]
        check_operands(*frames)
        views = [resolved(view(obj)) for obj in frames]
        if any(is_carried(value.dtype) for value in views[0].index.values):
            raise Unsupported(Refusal.OBJECT_LABELS)  # pandas returns the frames' own arrays if the labels are equal
        labels = views[0].labels.append([held.labels for held in views[1:]])
        if any(isinstance(held.labels, pd.MultiIndex) for held in views) or not labels.is_unique or labels.hasnans:
            raise Unsupported(Refusal.DUPLICATE_LABELS)
        if not all(isinstance(obj, pd.DataFrame) for obj in frames):
            raise Unsupported(Refusal.CONCAT_SERIES_BESIDE_FRAMES)
        return lazy(type(self), joined_rows(views, how, sort))

    @native(pd.DataFrame)
    def sort_values(
        self: Any,
        by: Any,
        *,
        axis: Any = 0,
        ascending: Any = True,
        inplace: Any = no_default,
        kind: Any = "quicksort",
        na_position: Any = "last",
        ignore_index: Any = False,
        key: Any = None,
    ) -> Any:
        from craton.pandas.reshape.sort_keys import mapped_keys, with_key_function
        from craton.pandas.reshape.sorting import (
            check_options,
            comparable_keys,
            directions,
            missing_as_infinity,
            refuse_integer_direction,
            sorted_rows,
        )

        if axis not in (0, "index"):
            raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
        check_options(kind, na_position)
        labels = by if isinstance(by, list) else [by]
        if not labels or not all(map(is_hashable, labels)):
            raise Unsupported(Refusal.SORT_NO_KEYS)
        check_bools(ignore_index=ignore_index)

        def sort(function: Any) -> Any:
            held = view(self)
            if any(held.index.levels_named(label) for label in labels):
                held = held.numbered()
            held = resolved_keys(held, [sort_key(held, label) for label in labels])
            keys = [sort_key(held, label) for label in labels]
            ups = directions(ascending, len(labels))
            if function is not None:
                held, keys = mapped_keys(held, keys, labels, function, IndexSpec())
            keys = comparable_keys(keys)
            refuse_integer_direction(ascending, keys)
            if len(keys) > 1 and na_position == "first":
                keys = [missing_as_infinity(key, up) for key, up in zip(keys, ups, strict=True)]
            return sorted_rows(held, keys, ups, na_position, ignore_index, kind)

        def in_pandas(function: Any) -> Any:
            options = {"ascending": ascending, "kind": kind, "na_position": na_position, "ignore_index": ignore_index}
            return pd.DataFrame.sort_values(self, by, inplace=inplace, key=function, **options)

        result = with_key_function(sort, "DataFrame.sort_values", key, in_pandas)
        if not isinstance(result, View):
            return result
        return return_or_replace(self, result, in_place(self, inplace, "sort_values"))

    @native(pd.DataFrame)
    def sort_index(
        self: Any,
        *,
        axis: Any = 0,
        level: Any = None,
        ascending: Any = True,
        inplace: Any = no_default,
        kind: Any = "quicksort",
        na_position: Any = "last",
        sort_remaining: Any = True,
        ignore_index: Any = False,
        key: Any = None,
    ) -> Any:
        return sort_by_index(
            self, axis, level, ascending, inplace, kind, na_position, sort_remaining, ignore_index, key
        )

    @native(pd.DataFrame)
    def nlargest(self: Any, n: Any, columns: Any, keep: Any = "first") -> Any:
        return extremes(self, n, columns, keep, largest=True)

    @native(pd.DataFrame)
    def nsmallest(self: Any, n: Any, columns: Any, keep: Any = "first") -> Any:
        return extremes(self, n, columns, keep, largest=False)

    @native(pd.DataFrame)
    def squeeze(self: Any, axis: Any = None) -> Any:
        return squeezed(self, axis)

    @native(pd.DataFrame)
    def melt(
        self: Any,
        id_vars: Any = None,
        value_vars: Any = None,
        var_name: Any = None,
        value_name: Any = "value",
        col_level: Any = None,
        ignore_index: Any = True,
    ) -> Any:
        return melted(self, id_vars, value_vars, var_name, value_name, col_level, ignore_index)

    @native(pd.DataFrame)
    def set_index(
        self: Any,
        keys: Any,
        *,
        drop: Any = True,
        append: Any = False,
        inplace: Any = no_default,
        verify_integrity: Any = no_default,
    ) -> Any:
        from craton.pandas.indexing.row_labels import columns_to_index

        if verify_integrity is not no_default:
            raise Unsupported(Refusal.WARNING_OF_PANDAS, "verify_integrity")
        refuse_unique_labels_flag(self)
        check_bools(drop=drop, append=append)
        held = columns_to_index(view(self), keys, drop, append)
        held = resolved_keys(held, held.index.values)
        return return_or_replace(self, held, in_place(self, inplace, "set_index"))

    @native(pd.DataFrame)
    def reset_index(
        self: Any,
        level: Any = None,
        *,
        drop: Any = False,
        inplace: Any = no_default,
        col_level: Any = 0,
        col_fill: Any = "",
        allow_duplicates: Any = False,
        names: Any = None,
    ) -> Any:
        from craton.pandas.indexing.row_labels import drop_levels, index_to_columns

        refuse_unique_labels_flag(self)
        check_bools(drop=drop, allow_duplicates=allow_duplicates)
        held = view(self)
        held = drop_levels(held, level) if drop else index_to_columns(held, level, names, allow_duplicates)
        return return_or_replace(self, held, in_place(self, inplace, "reset_index"))

    @native(pd.DataFrame)
    def rename_axis(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.indexing.row_labels import renamed_axes

        inplace = kwargs.pop("inplace", no_default)
        if "copy" in kwargs:
            raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
        held = view(self)
        return return_or_replace(
            self,
            renamed_axes(held, stand_ins.without_rows(held.labels), *args, **kwargs),
            in_place(self, inplace, "rename_axis"),
        )

    @native(pd.DataFrame)
    def droplevel(self: Any, level: Any, axis: Any = 0) -> Any:
        from craton.pandas.indexing.row_labels import rearranged

        refuse_unique_labels_flag(self)
        return lazy(type(self), rearranged(view(self), "droplevel", check_row_axis(axis, level)), self)

    @native(pd.DataFrame)
    def swaplevel(self: Any, i: Any = -2, j: Any = -1, axis: Any = 0) -> Any:
        from craton.pandas.indexing.row_labels import rearranged

        return lazy(type(self), rearranged(view(self), "swaplevel", check_row_axis(axis, i), j), self)

    @native(pd.DataFrame)
    def reorder_levels(self: Any, order: Any, axis: Any = 0) -> Any:
        from craton.pandas.indexing.row_labels import rearranged

        return lazy(type(self), rearranged(view(self), "reorder_levels", check_row_axis(axis, order)), self)

    @native(pd.DataFrame)
    def drop_duplicates(
        self: Any,
        subset: Any = None,
        *,
        keep: Any = "first",
        inplace: Any = no_default,
        ignore_index: Any = False,
    ) -> Any:
        from craton.pandas.reshape.duplicates import distinct_rows, subset_of

        check_bools(ignore_index=ignore_index)
        held = view(self)
        held = resolved_keys(held, subset_of(held, subset))
        held = distinct_rows(held, subset_of(held, subset), keep, ignore_index)
        return return_or_replace(self, held, in_place(self, inplace, "drop_duplicates"))

    @native(pd.DataFrame)
    def duplicated(self: Any, subset: Any = None, keep: Any = "first") -> Any:

        from craton.pandas.reshape.duplicates import duplicated_rows, subset_of

        held = view(self)
        held = resolved_keys(held, subset_of(held, subset))
        return lazy(series_class(), held.series(duplicated_rows(held, subset_of(held, subset), keep), None), self)

    @native(pd.DataFrame)
    def pivot_table(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.reshape.pivoting import pivot_table

        return pivot_table(self, *args, **kwargs)


def merged(left: Any, right: Any, *args: Any) -> Any:
    """Merge two pandas objects; the arguments are those of :func:`craton.pandas.reshape.merges.merging.merge`, in order."""
    if not isinstance(right, (pd.DataFrame, pd.Series)) or (isinstance(right, pd.Series) and right.name is None):
        raise Unsupported(Refusal.MERGE_WITH, type(right).__name__)
    check_operands(left, right)
    ours, theirs = view(left), view(right)
    if isinstance(right, pd.Series):
        theirs = as_frame(theirs, right.name)
    from craton.pandas.reshape.merges.merging import merge

    try:
        return lazy(type(left), merge(ours, theirs, *args))
    except Unsupported as refusal:
        if refusal.reason.refusal not in _MATCHED_BY_PANDAS:
            raise
    return lazy(type(left), _merged_on_labels(left, right, *args))


#: Refusals of joins on row labels whose order or labels depend on the data.
_MATCHED_BY_PANDAS = (
    Refusal.MERGE_INDEX_MISSING,
    Refusal.MERGE_INNER_EMPTY,
    Refusal.MERGE_INDEX_DTYPES,
    Refusal.MERGE_INDEX_NAMES,
    Refusal.MERGE_DESCENDING,
    Refusal.MERGE_MISSING_LABELS,
    Refusal.MERGE_OUTER_LEVELS,
)


def _merged_on_labels(
    left: Any,
    right: Any,
    how: Any,
    on: Any,
    left_on: Any,
    right_on: Any,
    left_index: Any,
    right_index: Any,
    sort: Any,
    suffixes: Any,
    indicator: Any,
    validate: Any,
) -> View:
    """A merge on row labels whose matches pandas finds."""
    from craton.pandas.reshape.merges.merge_positions import key_labels, merged_by_position, views_of

    if indicator is not False or how not in ("inner", "left", "right", "outer") or not (left_index or right_index):
        raise Unsupported(Refusal.PARAMETERS, "how and indicator")
    ours, theirs = views_of(left, right)
    for held in (ours, theirs):
        held.index.refuse_frequency()
    keys = key_labels(on, left_on), key_labels(on, right_on)

    def call(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
        return one.merge(
            other,
            how=how,
            on=on,
            left_on=left_on,
            right_on=right_on,
            left_index=left_index,
            right_index=right_index,
            sort=sort,
            suffixes=suffixes,
            validate=validate,
        )

    return merged_by_position(ours, theirs, keys, True, call, [*keys[0], *keys[1]])


def extremes(obj: Any, n: Any, columns: Any, keep: Any, largest: bool) -> Any:
    """``nlargest`` or ``nsmallest`` of a frame."""
    from craton.pandas.reshape.sorting import extreme_rows

    held = view(obj)
    labels = list(columns) if is_list_like(columns) and not isinstance(columns, tuple) else [columns]
    if isinstance(held.labels, pd.MultiIndex) or any(not held.positions(label) for label in labels):
        raise Unsupported(Refusal.COLUMN_UNKNOWN)
    if len(labels) > 1:  # then pandas also sorts the rows by these labels
        keys = [sort_key(held, label) for label in labels]
    else:
        keys = [held.values[held.position(label)] for label in labels]
    try:
        return lazy(type(obj), extreme_rows(held, keys, n, keep, largest), obj)
    except Unsupported as refused:
        if refused.refusal is not Refusal.LARGEST_MISSING:
            raise
    from craton.pandas.reductions.needed_columns import computed_frame

    frame = computed_frame(obj, held, keys)
    with plain_pandas():
        rows = getattr(frame, "nlargest" if largest else "nsmallest")(n, list(frame.columns), keep).index
    return obj.take(rows)


def squeezed(obj: Any, axis: Any) -> Any:
    """``squeeze``: the column, row or cell of an object that has a single one along an axis."""
    axes = range(obj.ndim) if axis is None else (obj._get_axis_number(axis),)
    lengths = (len(obj),) if obj.ndim == 1 else (len(obj), len(obj.columns))
    key = tuple(0 if axis in axes and length == 1 else slice(None) for axis, length in enumerate(lengths))
    return obj.iloc[key if len(key) > 1 else key[0]]


def melted(
    obj: Any, id_vars: Any, value_vars: Any, var_name: Any, value_name: Any, col_level: Any, ignore_index: Any
) -> Any:
    """``melt`` of a frame."""
    if not isinstance(obj, pd.DataFrame):
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    labels = obj.columns
    if isinstance(labels, pd.MultiIndex) or labels.dtype == OBJECT:  # a table, such as the result of a pivot
        return reshaped(obj, pd.DataFrame, "melt", id_vars, value_vars, var_name, value_name, col_level, ignore_index)
    if col_level is not None:
        raise Unsupported(Refusal.ARGUMENTS_PANDAS_REFUSES)
    check_bools(ignore_index=ignore_index)
    from craton.pandas.reshape.reshaping import melt

    return lazy(type(obj), melt(view(obj), id_vars, value_vars, var_name, value_name, ignore_index), obj)
