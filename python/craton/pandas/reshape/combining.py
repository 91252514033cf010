"""``combine_first`` and ``update``: values of one object where another has none, by label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.axes import labels_of
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import FLOAT64, INT64, OBJECT, DtypeObj, same_dtype
from craton.pandas.core.execute import has_rows, resolved
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.pandas.values.gathering import Rows, aligned_positions, beside, column_positions
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal

#: The largest integer up to which floats hold all integers: pandas converts integers to floats and back where rows are added.
_EXACT = 2**53


def combined_first(left: View, right: View) -> View:
    """``combine_first`` of two frames."""
    left, right = resolved(left), resolved(right)
    if not left.values or not right.values or not has_rows(left) or not has_rows(right):
        raise Unsupported(Refusal.NO_ROWS_DTYPES_KEPT)
    ours, theirs = column_positions(left), column_positions(right)
    columns = ours.columns.union(theirs.columns, sort=False)
    at = [pd.Index(frame.columns).get_indexer(columns).tolist() for frame in (ours, theirs)]
    (one, labels), (other, _) = aligned_positions(left, right, "outer", (True, True), None)
    joined, (mine, filler), _ = beside([(left, one), (right, other)], labels)
    values = [_combined(left, right, mine, filler, i, j) for i, j in zip(*at, strict=True)]
    return joined.with_values(values, columns)


def _combined(left: View, right: View, mine: Rows, filler: Rows, i: int, j: int) -> Value:
    """One column of ``combine_first``: the i-th of the left and the j-th of the right frame; -1 if a frame lacks it."""
    if any(isinstance(rows.values[n].expr, ObjectColumn) for rows, n in ((mine, i), (filler, j)) if n >= 0):
        raise Unsupported(Refusal.OBJECTS)
    if j < 0:
        return mine.filled(i)
    if i < 0:
        own = right.values[j].clean
        if own.dtype != FLOAT64 and own.nulls:
            present = Call("not", (Call("is_null", (own.expr,), pl.Boolean()),), pl.Boolean())
            if not any_row(right, present):
                raise Unsupported(Refusal.DTYPE_OF_DATA)  # pandas then keeps the missing floats of the left frame
        return filler.filled(j)
    ours, theirs = left.values[i], right.values[j]
    if not same_dtype(ours.dtype, theirs.dtype):
        raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{theirs.dtype} in a column of {ours.dtype}")
    _refuse_rounding(left, ours, mine.missing, filler.missing)
    _refuse_rounding(right, theirs, mine.missing, filler.missing)
    first, second = mine.values[i].clean, filler.values[j].clean
    if mine.missing is None and not first.nulls:
        return first
    expr = Call("coalesce", (first.expr, second.expr), first.physical)
    return Value(expr, ours.dtype, nulls=not _has_no_missing(ours.dtype))


def _refuse_rounding(held: View, value: Value, *missing: Expr | None) -> None:
    """Refuse integers that pandas rounds, because it converts them to floats and back where rows are added."""
    if not isinstance(value.dtype, np.dtype) or value.dtype.kind not in "iu" or all(one is None for one in missing):
        return
    if value.dtype.itemsize < 8:
        return
    large: Expr = Call("gt", (value.expr, Literal(_EXACT, value.physical)), pl.Boolean())
    if value.dtype == INT64:
        small = Call("lt", (value.expr, Literal(-_EXACT, value.physical)), pl.Boolean())
        large = Call("or", (large, small), pl.Boolean())
    if any_row(held, large):
        raise Unsupported(Refusal.LARGE_INTEGER)


def combined_series(left: View, right: View) -> View:
    """``combine_first`` of two series of one dtype, whose labels differ."""
    left, right = resolved(left), resolved(right)
    ours, theirs = labels_of(left), labels_of(right)
    if isinstance(ours, pd.MultiIndex) or ours.dtype != theirs.dtype or ours.dtype == OBJECT:
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    _refuse_frequencies(ours, theirs)
    if ours.equals(theirs):
        index, positions = ours, [np.arange(len(ours))] * 2
    else:
        if (
            not (ours.is_unique and theirs.is_unique)
            or ours.hasnans
            or theirs.hasnans
            or not len(ours)
            or not len(theirs)
        ):
            raise Unsupported(Refusal.ROW_LABELS_DIFFER)
        index = ours.union(theirs)
        positions = [labels.get_indexer(index) for labels in (ours, theirs)]
    if isinstance(left.values[0].expr, ObjectColumn):
        raise Unsupported(Refusal.OBJECTS)
    joined, (mine, filler), _ = beside([(left, positions[0]), (right, positions[1])], index)
    first, second = mine.values[0].clean, filler.values[0].clean
    expr = Call("coalesce", (first.expr, second.expr), first.physical)
    dtype = left.values[0].dtype
    return joined.with_values([Value(expr, dtype, nulls=not _has_no_missing(dtype))], left.labels)


def _has_no_missing(dtype: DtypeObj) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biu"


def _refuse_frequencies(*indexes: pd.Index) -> None:
    if any(getattr(index, "freq", None) is not None for index in indexes):
        raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)


def updated(left: View, right: View, overwrite: bool) -> View:
    """``update`` of a frame by another of the same dtypes.

    Parameters
    ----------
    overwrite
        Whether values that are not missing are replaced too.
    """
    left, right = resolved(left), resolved(right)
    ours, theirs = labels_of(left), labels_of(right)
    if isinstance(ours, pd.MultiIndex) or ours.dtype != theirs.dtype or ours.dtype == OBJECT:
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    if not (ours.is_unique and theirs.is_unique) or ours.hasnans or theirs.hasnans:
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    positions = theirs.get_indexer(ours)
    if (positions < 0).all():
        return left
    columns = column_positions(left).columns
    at = column_positions(right).columns.get_indexer(columns)
    shared = [int(j) for j in at if j >= 0]
    for i, j in enumerate(at):
        if j >= 0 and not same_dtype(left.values[i].dtype, right.values[j].dtype):
            raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{right.values[j].dtype} in a column of {left.values[i].dtype}")
        if j >= 0 and isinstance(left.values[i].expr, ObjectColumn):
            raise Unsupported(Refusal.OBJECTS)
    if not shared:
        return left
    joined, (mine, other), _ = beside([(left, np.arange(len(ours))), (right.take(shared), positions)], None)
    values = list(mine.values)
    for i, j in enumerate(at):
        if j < 0:
            continue
        old, new = values[i], other.values[shared.index(int(j))]
        first, second = (new, old) if overwrite else (old, new)
        if not overwrite and not (old.nulls or old.nans):
            continue
        expr = Call("coalesce", (first.clean.expr, second.clean.expr), old.physical)
        values[i] = Value(expr, old.dtype, nulls=not _has_no_missing(old.dtype))
    return joined.with_values(values, left.labels)


def updated_series(left: View, right: View) -> View:
    """``update`` of a series by another of the same dtype."""
    left, right = resolved(left), resolved(right)
    if isinstance(left.values[0].expr, ObjectColumn):
        raise Unsupported(Refusal.OBJECTS)
    ours, theirs = labels_of(left), labels_of(right)
    if ours.dtype != theirs.dtype or not theirs.is_unique or ours.nlevels > 1:
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    positions = np.arange(len(ours)) if ours.equals(theirs) else theirs.get_indexer(ours)
    dtype = left.values[0].dtype
    if _has_no_missing(dtype) and (positions < 0).any():
        raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"missing values in a column of {dtype}")
    joined, (mine, other), _ = beside([(left, np.arange(len(ours))), (right, positions)], None)
    old, new = mine.values[0].clean, other.values[0].clean
    expr = Call("coalesce", (new.expr, old.expr), old.physical)
    return joined.with_values([Value(expr, dtype, nulls=not _has_no_missing(dtype))], left.labels)


__all__ = ["combined_first", "combined_series", "updated", "updated_series"]
