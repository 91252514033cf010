"""``explode``: a row for each item of a column of lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.lazy import lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import native
from craton.pandas.core.view import IndexSpec, Value, View
from craton.plan.expr import Call, Literal
from craton.plan.operators import Explode
from craton.refusals import Refusal

__all__ = ["FrameExploding", "SeriesExploding", "explode"]


def explode(held: View, position: int, ignore_index: bool) -> View:
    """The view with a row for each item of the lists in the column at a position.

    Raises
    ------
    Unsupported
        If no list has an item, so that pandas' result has dtype object; or if the labels have a frequency.
    """
    from craton.pandas.values.lists.columns import expression_of_lists

    value = held.values[position]
    lists = expression_of_lists(value)
    count = Call("list_len", (lists,), pl.Int64())
    if not any_row(held, Call("gt", (count, Literal(0, pl.Int64())), pl.Boolean())):
        raise Unsupported(Refusal.LISTS_WITHOUT_ITEMS)
    dtype = stand_ins.cached(("explode",), lambda: pd.Series([["a"], []]).explode().dtype)
    if ignore_index:
        held = replace(held, index=IndexSpec())
    else:
        held = held.numbered()
        held.index.refuse_frequency()
        held = held.before_selection()
    others = [one for number, one in enumerate(held.values) if number != position]
    labels = held.labels
    held, (column,) = held.with_values(others, labels.delete(position)).projected_with([lists])
    base = Explode(held.base, column.name)  # type: ignore[attr-defined]
    values = list(held.values)
    values.insert(position, Value(base.column(column.name), dtype))  # type: ignore[attr-defined]
    return View(base, tuple(values), labels, held.index)


class FrameExploding:
    """Methods of DataFrame."""

    @native(pd.DataFrame)
    def explode(self: Any, column: Any, ignore_index: Any = False) -> Any:
        if not isinstance(ignore_index, bool):
            raise Unsupported(Refusal.PARAMETER, "ignore_index")
        if type(column) is list and len(column) == 1:
            (column,) = column
        held = view(self)
        if isinstance(held.labels, pd.MultiIndex) or not held.labels.is_unique or not isinstance(column, (str, int)):
            raise Unsupported(Refusal.DUPLICATE_LABELS)
        refuse_unique_labels_flag(self)
        return lazy(type(self), explode(held, held.position(column), ignore_index), self)


class SeriesExploding:
    """Methods of Series."""

    @native(pd.Series)
    def explode(self: Any, ignore_index: Any = False) -> Any:
        if not isinstance(ignore_index, bool):
            raise Unsupported(Refusal.PARAMETER, "ignore_index")
        refuse_unique_labels_flag(self)
        found = explode(view(self), 0, ignore_index)
        if found.index.kind == "range":  # repeated labels are no RangeIndex, even if all of them are repeated once
            found = replace(found, index=replace(found.index, kind="labels"))
        return lazy(type(self), found)
