"""Methods of Series on all rows: sort, reset_index, duplicates."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.execute import resolved_keys
from craton.pandas.core.lazy import lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import native
from craton.pandas.core.view import View, as_frame
from craton.pandas.reshape.relational import squeezed
from craton.pandas.reshape.relational_calls import (
    check_bools,
    check_row_axis,
    in_place,
    return_or_replace,
    sort_by_index,
)
from craton.refusals import Refusal


def _extreme(series: Any, n: Any, keep: Any, largest: bool) -> Any:
    """``nlargest`` or ``nsmallest`` of a Series."""
    from craton.pandas.reshape.sorting import extreme_rows

    held = view(series)
    if series.name != series.name:  # whether pandas keeps a name that is NaN depends on the rows
        raise Unsupported(Refusal.LABELS_OBJECTS_OR_MISSING)
    return lazy(type(series), extreme_rows(held, held.values, n, keep, largest), series)


class SeriesRelational:
    """Methods of Series."""

    @native(pd.Series)
    def sort_values(
        self: Any,
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
        from craton.pandas.reshape.sorting import check_options, directions, sorted_rows

        if axis not in (0, "index"):
            raise Unsupported(Refusal.PARAMETER, f"axis={axis!r}")
        check_options(kind, na_position)
        check_bools(ignore_index=ignore_index)

        def sort(function: Any) -> Any:
            held = resolved_keys(view(self))
            keys, ups = list(held.values), directions(ascending, 1)
            if function is not None:
                held, keys = mapped_keys(held, keys, [self.name], function, held.index)
            return sorted_rows(held, keys, ups, na_position, ignore_index, kind)

        def in_pandas(function: Any) -> Any:
            options = {"ascending": ascending, "kind": kind, "na_position": na_position, "ignore_index": ignore_index}
            return pd.Series.sort_values(self, inplace=inplace, key=function, **options)

        result = with_key_function(sort, "Series.sort_values", key, in_pandas)
        if not isinstance(result, View):
            return result
        return return_or_replace(self, result, in_place(self, inplace, "sort_values"))

    @native(pd.Series)
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

    @native(pd.Series)
    def argsort(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.values.whole_results import computed_by_pandas

        return computed_by_pandas(self, lambda column: pd.Series.argsort(column, *args, **kwargs))

    @native(pd.Series)
    def nlargest(self: Any, n: Any = 5, keep: Any = "first") -> Any:
        return _extreme(self, n, keep, largest=True)

    @native(pd.Series)
    def nsmallest(self: Any, n: Any = 5, keep: Any = "first") -> Any:
        return _extreme(self, n, keep, largest=False)

    @native(pd.Series)
    def squeeze(self: Any, axis: Any = None) -> Any:
        return squeezed(self, axis)

    @native(pd.Series)
    def rename_axis(self: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.indexing.row_labels import renamed_axes

        inplace = kwargs.pop("inplace", no_default)
        if "copy" in kwargs:
            raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
        held = view(self)
        return return_or_replace(
            self,
            renamed_axes(held, stand_ins.column(OBJECT), *args, **kwargs),
            in_place(self, inplace, "rename_axis"),
        )

    @native(pd.Series)
    def droplevel(self: Any, level: Any, axis: Any = 0) -> Any:
        from craton.pandas.indexing.row_labels import rearranged

        refuse_unique_labels_flag(self)
        return lazy(type(self), rearranged(view(self), "droplevel", check_row_axis(axis, level)), self)

    @native(pd.Series)
    def swaplevel(self: Any, i: Any = -2, j: Any = -1, copy: Any = no_default) -> Any:
        from craton.pandas.indexing.row_labels import rearranged

        if copy is not no_default:
            raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
        return lazy(type(self), rearranged(view(self), "swaplevel", i, j), self)

    @native(pd.Series)
    def reorder_levels(self: Any, order: Any) -> Any:
        from craton.pandas.indexing.row_labels import rearranged

        return lazy(type(self), rearranged(view(self), "reorder_levels", order), self)

    @native(pd.Series)
    def drop_duplicates(self: Any, *, keep: Any = "first", inplace: Any = no_default, ignore_index: Any = False) -> Any:
        from craton.pandas.reshape.duplicates import distinct_rows

        check_bools(ignore_index=ignore_index)
        held = resolved_keys(view(self))
        held = distinct_rows(held, held.values, keep, ignore_index)
        return return_or_replace(self, held, in_place(self, inplace, "drop_duplicates"))

    @native(pd.Series)
    def duplicated(self: Any, keep: Any = "first") -> Any:
        from craton.pandas.reshape.duplicates import duplicated_rows

        held = resolved_keys(view(self))
        return lazy(type(self), held.series(duplicated_rows(held, held.values, keep), self.name), self)

    @native(pd.Series)
    def reset_index(
        self: Any,
        level: Any = None,
        *,
        drop: Any = False,
        name: Any = no_default,
        inplace: Any = no_default,
        allow_duplicates: Any = False,
    ) -> Any:
        from craton.pandas.indexing.row_labels import drop_levels, index_to_columns

        refuse_unique_labels_flag(self)
        check_bools(drop=drop, allow_duplicates=allow_duplicates)
        held = view(self)
        if drop:
            held = drop_levels(held, level)
            return return_or_replace(self, held, in_place(self, inplace, "reset_index"))
        if inplace is not no_default:
            raise Unsupported(Refusal.IN_PLACE_CLASS)

        label = (0 if self.name is None else self.name) if name is no_default else name
        frame = as_frame(held, label)
        return lazy(frame_class(), index_to_columns(frame, level, None, allow_duplicates), self)
