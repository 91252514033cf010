"""Merges by categorical keys of different categories: pandas compares the texts, and the result has these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl

from craton.pandas.core.dtypes import STR, family
from craton.pandas.core.execute import has_rows
from craton.pandas.core.view import Value, View
from craton.pandas.reshape.merges.merge_keys import KeyRef, MergeKeys
from craton.plan.expr import Call, Values
from craton.plan.operators import JoinHow
from craton.records import dataclass


@dataclass(frozen=True, slots=True)
class TextKeys:
    """Both sides of a merge, with equal categories for those keys that are texts in the result.

    Parameters
    ----------
    positions
        The columns of the left side, and of the result, that are such keys.
    """

    left: View
    right: View
    positions: tuple[int, ...]

    def as_texts(self, merged: View) -> View:
        """The result of the merge, with the texts of the keys."""
        values = list(merged.values)
        for position in self.positions:
            values[position] = _texts(values[position])
        return merged.with_values(values) if self.positions else merged


def text_keys(left: View, right: View, keys: MergeKeys, how: JoinHow, sort: bool) -> TextKeys:
    """Give categorical keys of different categories the same ones.

    If one side has no rows, pandas leaves the keys as they are, and so does this function. It also leaves the keys of right joins,
    because their dtype depends on whether any row matches. If rows are sorted by the keys, these are texts before the merge, because
    categories have another order.
    """
    if how == "right":
        return TextKeys(left, right, ())
    positions = []
    in_order = sort or how == "outer"
    for one, other, shared in zip(keys.left, keys.right, keys.shared, strict=True):
        if not shared or one.level or other.level or not _differ(one.value(left), other.value(right)):
            continue
        if has_rows(left) != has_rows(right):
            continue
        if in_order:
            left, right = (_with(side, ref, _texts(ref.value(side))) for side, ref in ((left, one), (right, other)))
            continue
        known = _categories(one.value(left))
        union = known.append(_categories(other.value(right)).difference(known, sort=False))
        left = _with(left, one, replace(one.value(left), dtype=pd.CategoricalDtype(union)))
        right = _with(right, other, _recoded(other.value(right), union))
        positions.append(one.position)
    return TextKeys(left, right, tuple(positions))


def _differ(left: Value, right: Value) -> bool:
    """Whether two keys are categories of texts, and their dtypes are not equal."""
    if family(left.dtype) != "category" or family(right.dtype) != "category" or left.dtype == right.dtype:
        return False
    return bool(_categories(left).dtype == STR and _categories(right).dtype == STR)


def _categories(value: Value) -> pd.Index:
    return value.dtype.categories  # type: ignore[union-attr, no-any-return]


def _with(side: View, ref: KeyRef, value: Value) -> View:
    values = list(side.values)
    values[ref.position] = value
    return side.with_values(values)


def _recoded(value: Value, categories: pd.Index) -> Value:
    """A categorical column with other categories, which contain its own."""
    return _mapped(
        value,
        pl.Series(categories.get_indexer(_categories(value)), dtype=pl.Int32),
        pd.CategoricalDtype(categories),
    )


def _texts(value: Value) -> Value:
    """The texts of a categorical column."""
    return _mapped(value, pl.Series(_categories(value).to_list(), dtype=pl.String), STR)


def _mapped(value: Value, results: pl.Series, dtype: Any) -> Value:
    codes = Values.of(pl.Series(range(len(results)), dtype=pl.Int32))
    expr = Call("map_values", (value.clean.expr, codes, Values.of(results)), results.dtype)
    return Value(expr, dtype, nulls=value.clean.nulls)
