"""Assignment to columns and rows: ``df[c] = value``, and ``loc`` and ``iloc`` with values.

Plans never change. An assignment gives the frame another view, and objects that were derived from the frame before keep
theirs; this is pandas' copy-on-write.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_bool, is_integer, is_iterator, is_list_like, is_scalar
from pandas.core.common import is_bool_indexer
from pandas.core.frame import _reindex_for_setitem

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned, attached, same_labels
from craton.pandas.core.array_conversion import can_carry, carried_value, from_array, positions_in
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import BOOL, kind_of, same_dtype
from craton.pandas.core.execute import count_rows
from craton.pandas.core.lazy import view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.indexing.rows import (
    at_positions,
    is_full_slice,
    is_mask,
    label_predicate,
    masked,
    positions_of,
    row_labels,
)
from craton.pandas.values.constants import constant_of as constant_of
from craton.pandas.values.constants import literal_of
from craton.plan.expr import Call, Expr, has_window, may_raise
from craton.plan.operators import Filter
from craton.refusals import Refusal


def constant(scalar: Any) -> Value:
    """A scalar as a constant column, with the dtype that pandas infers for it.

    Raises
    ------
    Unsupported
        If plans cannot represent the dtype.
    """
    frame = pd.DataFrame(index=range(1))
    stand_ins.probe(frame.__setitem__, "x", scalar)
    return constant_of(frame["x"]._values, frame.dtypes.iloc[0])


def column_for(held: View, value: Any) -> tuple[View, Value]:
    """A column for a value that the user assigns, and the view over whose base the column is.

    Parameters
    ----------
    held
        The view to which the value is assigned; the returned view has the same rows.
    value
        A Series, which is aligned by its row labels, a scalar, or a list-like with one item per row.

    Raises
    ------
    Unsupported
        If a plan can't contain the value; pandas then performs the assignment.
    ValueError and others
        As pandas raises them, for values that don't fit.
    """
    if is_scalar(value):
        return held, constant(value)
    if isinstance(value, pd.DataFrame) or is_iterator(value) or isinstance(value, (dict, set)):
        raise Unsupported(Refusal.COLUMN_FROM, type(value).__name__)
    if isinstance(value, pd.Series):
        try:
            held, other = aligned(held, view(value))
            return held, other.values[0]
        except Unsupported:
            if not count_rows(held):
                raise
            labels = row_labels(held)
            with plain_pandas():
                array = _reindex_for_setitem(value, labels)[0] if len(labels) else None
            if array is None:
                raise
            return attach_column(held, array)
    rows = count_rows(held)
    if not rows:
        raise Unsupported(Refusal.NO_ROWS)
    frame = pd.DataFrame(index=range(rows))
    with plain_pandas():
        frame["x"] = value
    return attach_column(held, frame["x"]._values)


def attach_column(held: View, array: Any) -> tuple[View, Value]:
    """A view with a copy of an array attached to its rows, and the array's column."""
    if can_carry(array):
        held, (position,) = attached(held, [positions_in(array)])
        return held, carried_value(position, array.copy())  # type: ignore[arg-type]
    series, nulls, nans = from_array("x", array)
    held, (column,) = attached(held, [series])
    return held, Value(column, array.dtype, nulls, nans)


def with_column(held: View, label: Hashable, value: Value) -> View:
    """The view with a column replaced, or added at the end if no column has the label."""
    found = held.positions(label)
    if len(found) > 1:
        raise Unsupported(Refusal.COLUMNS_OF_ONE_LABEL, repr(label))
    if found:
        values = list(held.values)
        values[found[0]] = value
        return held.with_values(values)
    return held.with_values((*held.values, value), _extended(held.labels, label))


def _extended(labels: pd.Index, label: Hashable) -> pd.Index:
    """Column labels with one more, with the dtype that pandas infers for them."""
    if not isinstance(labels, pd.MultiIndex):
        return labels.insert(len(labels), label)  # as the frame's insertion does
    frame = stand_ins.without_rows(labels)
    frame[label] = 0
    return frame.columns


def assigned(held: View, label: Any, value: Any) -> View:
    """``df[label] = value`` for one column.

    Raises
    ------
    Unsupported
        If a plan can't represent the assignment; pandas then performs it.
    """
    if isinstance(held.labels, pd.MultiIndex) or not (is_scalar(label) or isinstance(label, tuple)):
        raise Unsupported(Refusal.COLUMN_SET_LABEL)
    if not held.values and held.index.kind == "default":
        raise Unsupported(Refusal.NO_COLUMNS)
    if getattr(value, "ndim", 1) > 1 or len(held.positions(label)) > 1:
        raise Unsupported(Refusal.COLUMNS_SET)
    held, column = column_for(held, value)
    return with_column(held, label, column)


# -- loc and iloc ----------------------------------------------------------------------------------------------------


def set_by_label(obj: Any, rows: Any, columns: Any, value: Any) -> View:
    """``obj.loc[rows, columns] = value``.

    Raises
    ------
    Unsupported
        If a plan can't represent the assignment, or it adds rows or raises; pandas then performs it.
    """
    held = view(obj)
    predicate: Expr | None = None
    if is_mask(rows):
        held, predicate = masked(held, rows)
    elif not is_full_slice(rows):
        if is_scalar(rows) or isinstance(rows, tuple) or held.index.kind == "multi":
            raise Unsupported(Refusal.ONE_ROW_SET)
        predicate = label_predicate(held, rows)
    if isinstance(obj, pd.Series):
        return set_where(obj, held, [0], predicate, value)
    _refuse_key_of_only_column(held, columns, is_scalar(columns))
    try:
        chosen = stand_ins.positions(held.labels).loc[:, columns]
    except KeyError:
        if not is_scalar(columns):
            raise Unsupported(Refusal.NEW_COLUMNS) from None
        return _new_column(held, predicate, columns, value)
    _refuse_key_of_another_dtype(held.labels, columns)
    return set_where(obj, held, _distinct_positions(chosen), predicate, value)


def _refuse_key_of_another_dtype(labels: pd.Index, columns: Any) -> None:
    """Refuse a list of labels whose union with the column labels has another dtype, which pandas gives the column labels then."""
    if not is_list_like(columns) or isinstance(labels, pd.MultiIndex) or is_bool_indexer(columns):
        return
    union = stand_ins.probe(labels.union, columns, sort=False)
    if union.dtype != labels.dtype:
        raise Unsupported(Refusal.SET_LABELS_DTYPE)


def set_by_position(obj: Any, rows: Any, columns: Any, value: Any) -> View:
    """``obj.iloc[rows, columns] = value``.

    Raises
    ------
    Unsupported
        If a plan can't represent the assignment; pandas then performs it.
    """
    held = view(obj)
    predicate: Expr | None = None
    if isinstance(value, pd.Series):
        raise Unsupported(Refusal.SET_BY_POSITION)
    if is_mask(rows) and not isinstance(rows, pd.Series):
        if np.any(pd.isna(rows)):
            raise Unsupported(Refusal.MASK_MISSING)
        held, predicate = masked(held, rows)
    elif not is_full_slice(rows):
        if not isinstance(rows, (slice, list, np.ndarray)):
            raise Unsupported(Refusal.ONE_ROW_SET)
        predicate = at_positions(positions_of(held, rows))
    if isinstance(obj, pd.Series):
        return set_where(obj, held, [0], predicate, value)
    _refuse_key_of_only_column(held, columns, is_integer(columns) and columns == 0)
    chosen = stand_ins.probe(stand_ins.positions(held.labels).iloc.__getitem__, (slice(None), columns))
    return set_where(obj, held, _distinct_positions(chosen), predicate, value)


def _distinct_positions(chosen: Any) -> list[int]:
    """The positions of chosen columns, from a stand-in that has them as values. Refuses repeated ones: pandas may add columns."""
    positions = chosen.iloc[0].tolist() if isinstance(chosen, pd.DataFrame) else [int(chosen.iloc[0])]
    if len(set(positions)) < len(positions):
        raise Unsupported(Refusal.SET_COLUMNS_REPEAT)
    return positions


def _refuse_key_of_only_column(held: View, columns: Any, plain: bool) -> None:
    """Refuse a key of columns that pandas passes to a one-dimensional array, which supports few kinds of keys.

    pandas does so if the only column has an extension dtype. It raises NotImplementedError for the position -1, for example.

    Raises
    ------
    Unsupported
        Unless ``columns`` is ``:``, or ``plain`` is true: it is the label of the column, or its position from the start.
    """
    if len(held.values) != 1 or plain or is_full_slice(columns):
        return
    if isinstance(held.values[0].dtype, pd.api.extensions.ExtensionDtype):
        raise Unsupported(Refusal.SET_ONLY_COLUMN)


def set_where(obj: Any, held: View, positions: list[int], predicate: Expr | None, value: Any) -> View:
    """The view with a value set in some columns, in the rows where a predicate over the base is true (all rows if ``None``)."""
    if not positions:
        raise Unsupported(Refusal.SET_NO_COLUMNS)  # pandas may raise for the rows or for the value
    values = list(held.values)
    if isinstance(value, pd.Series):
        held, predicate, new = _series_where(held, predicate, value)
        for i in positions:
            old = held.values[i]
            if not same_dtype(new.dtype, old.dtype) or not new.definite or not old.definite:
                raise Unsupported(Refusal.SET_DTYPE)
            values = list(held.values) if i == positions[0] else values
            values[i] = _where(predicate, new, held.values[i])
        return held.with_values(values)
    if not is_scalar(value):
        raise Unsupported(Refusal.SET_TYPE, type(value).__name__)
    for i in positions:
        if not values[i].definite:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
        values[i] = _scalar_where(held, predicate, value, values[i], isinstance(obj, pd.Series))
    return held.with_values(values)


def _scalar_where(held: View, predicate: Expr | None, scalar: Any, old: Value, single: bool) -> Value:
    """A column with a scalar set in some rows. The same assignment to a stand-in gives the dtype."""
    before = stand_ins.column(old.dtype, 2)
    after: Any = before.copy() if single else before.to_frame("c")
    target = after if single else after.loc
    key: Any = slice(None) if predicate is None else [True, False]
    stand_ins.probe(target.__setitem__, key if single else (key, "c"), scalar)
    column = after if single else after["c"]
    if column.dtype != old.dtype:
        if column.dtype != np.dtype("float64") or kind_of(old.dtype) not in "iu" or predicate is None:
            raise Unsupported(Refusal.SET_DTYPE_CHANGES, f"{old.dtype} becomes {column.dtype}")
        if not any_row(held, predicate):
            raise Unsupported(Refusal.SET_NO_ROWS)  # whether the dtype changes depends on the kind of the row key
        old = Value(Call("cast", (old.expr,), pl.Float64()), column.dtype, old.nulls)
    return _where(predicate, constant_of(column._values[:1], old.dtype), old)


def _where(predicate: Expr | None, new: Value, old: Value) -> Value:
    if predicate is None:
        return new
    if new.physical != old.physical:
        raise Unsupported(Refusal.SET_PHYSICAL)
    expr = Call("when", (predicate, new.expr, old.expr), old.physical)
    return Value(expr, old.dtype, new.nulls or old.nulls, new.nans or old.nans)


def _series_where(held: View, predicate: Expr | None, value: pd.Series) -> tuple[View, Expr | None, Value]:
    """The values of a Series that has the row labels of the view, or of exactly the rows that are set.

    Returns
    -------
    tuple
        The view, the predicate, and the values, all over the base of the returned view.
    """
    if held.index.kind not in ("default", "range"):
        raise Unsupported(Refusal.SET_LABELS_REPEAT)
    if held.rows == 0:
        raise Unsupported(Refusal.NO_ROWS)
    other, count = view(value), len(held.values)
    predicates = () if predicate is None else (Value(predicate, BOOL),)
    try:
        carried, other = aligned(replace(held, values=(*held.values, *predicates)), other)
        if predicate is not None:
            predicate = carried.values[count].expr
        return replace(carried, values=carried.values[:count]), predicate, other.values[0]
    except Unsupported:
        if predicate is None or not isinstance(other.base, Filter):
            raise
    chosen = held.filtered(predicate)
    if chosen.base != other.base or not same_labels(chosen.index, other.index):
        raise Unsupported(Refusal.SET_ROWS_DIFFER)
    if has_window(other.values[0].expr) or may_raise(other.values[0].expr):  # the plan would compute it for all rows
        raise Unsupported(Refusal.SET_CHOSEN_ROWS)
    assert isinstance(chosen.base, Filter)
    # Windows are computed below the filter, so its input may have other columns than the base of the view.
    every = replace(chosen, base=chosen.base.input, rows=held.rows)
    return every, chosen.base.predicate, other.values[0]


def _new_column(held: View, predicate: Expr | None, label: Hashable, value: Any) -> View:
    """A new column that is set in some rows and missing in the others."""
    if (
        is_bool(label) or label in held.labels
    ):  # the lookup of a boolean label fails in pandas, but the assignment finds the column
        raise Unsupported(Refusal.COLUMN_SET_LABEL)
    if not count_rows(held):
        raise Unsupported(Refusal.NO_ROWS)
    if predicate is None:
        return assigned(held, label, value)
    if not is_scalar(value):
        raise Unsupported(Refusal.NEW_COLUMN_FOR_ROWS)
    frame = pd.DataFrame({0: [0, 0]})
    stand_ins.probe(frame.loc.__setitem__, ([True, False], "x"), value)
    series, _, nans = from_array("x", frame["x"]._values)
    if nans:
        series = series.fill_nan(None)
    kind = series.dtype
    expr = Call("when", (predicate, literal_of(series[:1]), literal_of(series[1:])), kind)
    return with_column(held, label, Value(expr, frame["x"].dtype, nulls=True))
