"""Sorts rows: ``sort_values``, ``sort_index``, ``nlargest`` and ``nsmallest``.

Sorts by several keys are stable, descending ones too. In sorts by one key, rows with equal keys are in the order in which NumPy's
algorithm ``kind`` leaves the values that pandas has; of texts, pandas' sort is stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.dtypes.cast import coerce_indexer_dtype
from pandas.core.dtypes.dtypes import BaseMaskedDtype

from craton.errors import Unsupported
from craton.pandas.core.data_checks import any_missing, has_negative_zero
from craton.pandas.core.dtypes import distinguishes_signed_zeros, family, kind_of
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.indexing.row_labels import level_numbers
from craton.pandas.values.lists.text_objects import as_strings, holds_text
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal, WindowCall
from craton.plan.operators import Filter, NumpySort, Operator, Slice, Sort, SortKey
from craton.refusals import Refusal

KINDS = ("quicksort", "mergesort", "heapsort", "stable")


def directions(ascending: Any, count: int) -> list[bool]:
    """The argument ``ascending`` as one boolean per key.

    Raises
    ------
    Unsupported
        If it is neither a boolean nor a list of as many booleans as there are keys.
    """
    if isinstance(ascending, (bool, int)):
        return [bool(ascending)] * count
    listed = isinstance(ascending, (list, tuple)) and all(isinstance(item, (bool, int)) for item in ascending)
    if listed and len(ascending) == count:
        return [bool(item) for item in ascending]
    raise Unsupported(Refusal.SORT_DIRECTIONS, f"{ascending!r} for {count} keys")


def refuse_integer_direction(ascending: Any, keys: Sequence[Value]) -> None:
    """Refuse an integer as the direction of a single key that pandas' own arrays sort: they take it for NumPy's ``axis``."""
    one = ascending[0] if isinstance(ascending, (list, tuple)) and len(ascending) == 1 else ascending
    dtype = keys[0].dtype
    plain = family(dtype) in ("str", "arrow") or (family(dtype) == "numpy" and kind_of(dtype) in "biufO")
    if len(keys) == 1 and type(one) is int and not plain:
        raise Unsupported(Refusal.SORT_DIRECTIONS, f"{ascending!r} for a key of {dtype}")


def check_options(kind: Any, na_position: Any) -> None:
    """Refuse options that a plan does not support, or for which pandas raises an error."""
    if kind is not None and kind not in KINDS:
        raise Unsupported(Refusal.PARAMETER, f"kind={kind!r}")
    if na_position not in ("first", "last"):
        raise Unsupported(Refusal.PARAMETER, f"na_position={na_position!r}")


def comparable_keys(keys: Sequence[Value]) -> list[Value]:
    """The sort keys of a frame; strings as objects are sorted as strings."""
    return [as_strings(key) if holds_text(key) else key for key in keys]


def sorted_rows(
    held: View,
    keys: Sequence[Value],
    ascending: Sequence[bool],
    na_position: str | Sequence[str] = "last",
    ignore_index: bool = False,
    kind: str | None = "stable",
    checked: bool = False,
) -> View:
    """Sort the rows by keys, which are values over the same base.

    Parameters
    ----------
    ascending
        For each key, whether its smallest values come first.
    na_position
        The position of missing values, ``first`` or ``last``, for all keys or for each key.
    kind
        The algorithm of a sort by one key, one of :data:`KINDS`; None for ``quicksort``.
    checked
        Whether rows that are in order are not sorted, which would change the order of equal keys.
    """
    if any(family(key.dtype) == "object" for key in keys):
        raise Unsupported(Refusal.SORT_OBJECTS)
    if held.index.freq is not None and not ignore_index:
        raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)
    held = replace(held, index=IndexSpec()) if ignore_index else held.numbered()
    exprs: list[Expr] = [key.clean.expr for key in keys]
    positions = [na_position] * len(exprs) if isinstance(na_position, str) else na_position
    ties = None
    if len(keys) == 1:
        ties = _ties(keys[0], kind or "quicksort", checked)
        exprs[0], ascending = _nan_beside_missing(keys[0], exprs[0], ascending, positions[0])
    elif any(has_negative_zero(held, key) for key in keys):
        raise Unsupported(Refusal.SORT_ARROW_FLOAT_ZEROS)

    def rule(base: Operator, by: Sequence[Expr]) -> Operator:
        keys = zip(by, ascending, positions, strict=True)
        return Sort(base, tuple(SortKey(expr, not up, position == "last") for expr, up, position in keys), ties)

    return held.with_rows_from(rule, exprs, rows=held.rows)


def _ties(key: Value, algorithm: str, checked: bool) -> NumpySort | None:
    """How NumPy sorts a key, as pandas calls it; None if the sort is stable."""
    if algorithm not in ("quicksort", "heapsort"):
        return None
    dtype, plain = key.dtype, isinstance(key.dtype, np.dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        name = f"datetime64[{dtype.unit}]"
    elif isinstance(dtype, pd.CategoricalDtype):
        name = coerce_indexer_dtype(np.empty(0, np.int64), dtype.categories).dtype.name
    elif isinstance(dtype, BaseMaskedDtype):
        name = dtype.numpy_dtype.name
    elif plain and dtype.kind in "biufmM":
        name = dtype.name
    elif (
        isinstance(dtype, pd.StringDtype) and dtype.storage == "python"
    ):  # Arrow's sort of texts is stable, NumPy's of objects is not
        name = "object"
    else:
        return None
    return NumpySort(algorithm, name, plain, checked)


def _nan_beside_missing(
    key: Value, expr: Expr, ascending: Sequence[bool], position: str
) -> tuple[Expr, Sequence[bool]]:
    """The key and the direction of a sort by one key. With these, NaN of Arrow floats is next to the missing values, as in pandas.

    The kernel sorts NaN as the greatest number. If NaN must come before the smallest number, the negated key is sorted in the
    opposite direction; negation leaves NaN unchanged.
    """
    if not distinguishes_signed_zeros(key.dtype) or ascending[0] == (position == "last"):
        return expr, ascending
    return Call("neg", (expr,), key.physical), [not ascending[0]]


def missing_as_infinity(key: Value, ascending: bool) -> Value:
    """Replace the missing values of a sort key by the infinity that is sorted first.

    With several keys and ``na_position="first"``, pandas does not distinguish the two.
    """
    if family(key.dtype) != "numpy" or not key.physical.is_float():
        return key
    key = key.clean
    first = Literal(float("-inf" if ascending else "inf"), key.physical)
    return replace(key, expr=Call("fill_null", (key.expr, first), key.physical), nulls=False) if key.nulls else key


def sorted_by_index(
    held: View,
    level: Any,
    ascending: Any,
    na_position: str,
    sort_remaining: bool,
    ignore_index: bool,
    kind: str | None,
) -> View:
    """Sort the rows by their labels, level by level (``sort_index``)."""
    if held.index.kind == "default" and level is None and ascending is True:
        return (
            replace(held, index=IndexSpec()) if ignore_index else held
        )  # as in pandas, a copy that shares the columns
    held = held.numbered()
    levels = list(range(len(held.index.values)))
    if level is not None:
        chosen = level_numbers(held.index, level)
        if isinstance(ascending, (list, tuple)):
            ups = directions(ascending, len(chosen))
            levels = chosen
        else:
            levels = chosen + ([i for i in levels if i not in chosen] if sort_remaining else [])
            ups = directions(ascending, len(levels))
    else:
        if isinstance(ascending, (list, tuple)) and len(levels) == 1:
            raise Unsupported(Refusal.SORT_DIRECTIONS_OF_LEVEL)
        ups = directions(ascending, len(levels))
    keys = [held.index.values[i] for i in levels]
    refuse_integer_direction(ascending, keys)
    if held.index.kind == "multi":
        _check_levels(held.index)
    elif family(keys[0].dtype) == "category":
        _check_category(held, keys[0])
    greatest = [held.index.has_missing_label(i) for i in levels]
    positions = [("last" if up else "first") if label else na_position for up, label in zip(ups, greatest, strict=True)]
    kind = kind if level is None else None  # with a level, pandas ignores it
    result = sorted_rows(held, keys, ups, positions, kind=kind, checked=True)
    return replace(result, index=IndexSpec()) if ignore_index else result


def _check_category(held: View, labels: Value) -> None:
    """Refuse categorical labels with a missing label.

    pandas does not sort rows whose codes are sorted already, and the code of a missing label is -1, the smallest.
    """
    if any_missing(held, labels):
        raise Unsupported(Refusal.SORT_MISSING_CATEGORY)


def _check_levels(index: IndexSpec) -> None:
    """Refuse levels that pandas sorts only if the rows are not sorted already."""
    categories = any(family(value.dtype) == "category" for value in index.values)
    if categories and any(map(index.has_missing_label, range(len(index.values)))):
        raise Unsupported(Refusal.SORT_CATEGORY_LEVELS)
    if any(distinguishes_signed_zeros(value.dtype) for value in index.values):
        raise Unsupported(Refusal.SORT_ARROW_FLOAT_LEVELS)
    if not levels_are_sorted(index):
        raise Unsupported(Refusal.SORT_LEVELS)


def levels_are_sorted(index: IndexSpec) -> bool:
    """Whether all levels of a MultiIndex are sorted, as they are if pandas computes them from rows."""
    return all(source.ordered for source in index.sources) and all(map(_is_sorted, index.levels))


def _is_sorted(level: pd.Index) -> bool:
    """Whether labels are sorted, with a missing label last."""
    present = level[:-1] if len(level) and pd.isna(level[-1]) else level
    return bool(present.is_monotonic_increasing)


def extreme_rows(held: View, keys: Sequence[Value], n: Any, keep: Any, largest: bool) -> View:
    """``nlargest`` and ``nsmallest``.

    Parameters
    ----------
    keys
        The columns by which rows are compared.
    n
        The number of rows.
    keep
        Which of equal rows are kept: ``first``, ``last``, or ``all``, which may keep more than ``n`` rows.
    largest
        Whether the largest rows are selected, or the smallest.
    """
    if (
        isinstance(n, bool)
        or not isinstance(n, int)
        or not 0 < n < 2**31
        or keep not in ("first", "last", "all")
        or not keys
    ):
        raise Unsupported(Refusal.PARAMETERS, "n and keep")
    for key in keys:
        if key.dtype.kind not in "biufmM" or family(key.dtype) in ("str", "category", "arrow") or not key.definite:
            raise Unsupported(Refusal.LARGEST_DTYPE, key.dtype)
    if len(keys) > 1 and (keep != "first" or any(key.clean.nulls for key in keys)):
        raise Unsupported(Refusal.LARGEST_MISSING)
    held = held.with_levels() if held.index.kind == "multi" else held
    if keep == "first":
        ordered = sorted_rows(held, keys, [not largest] * len(keys))
        return ordered.with_rows_from(lambda base, _: Slice(base, 0, n))
    (key,) = keys
    held, (column,) = held.numbered().projected_with([key.clean.expr])
    missing = Call("is_null", (column,), pl.Boolean())
    if keep == "all":
        rank = WindowCall("rank_min", (column,), pl.Int64(), (), (("descending", largest),))
        after = Call("add", (WindowCall("count", (column,), pl.Int64()), Literal(1, pl.Int64())), pl.Int64())
        chosen = Call("le", (Call("coalesce", (rank, after), pl.Int64()), Literal(n, pl.Int64())), pl.Boolean())
        held, (column, chosen_column) = held.projected_with([column, chosen])
        return held.with_rows_from(lambda base, _: Sort(Filter(base, chosen_column), (SortKey(column, largest),)))
    # With keep="last", equal rows are reversed. Missing values keep their order, and so do all rows if there are at most n.
    row = Call("cast", (build.row_number(),), pl.Int64())
    few = Call("le", (WindowCall("len", (), pl.Int64()), Literal(n, pl.Int64())), pl.Boolean())
    forward = Call("or", (missing, few), pl.Boolean())
    tie = Call("when", (forward, row, Call("neg", (row,), pl.Int64())), pl.Int64())
    held, (column, tie_column) = held.projected_with([column, tie])
    by_both = (SortKey(column, largest), SortKey(tie_column))
    return held.with_rows_from(lambda base, _: Slice(Sort(base, by_both), 0, n))
