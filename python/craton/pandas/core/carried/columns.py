"""Columns of dtypes without a physical form, which a plan carries by the positions of their values in an array in memory.

The array stays where it is, and the plan has one integer for each row. The result takes the values at the positions that remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_list_like

from craton.pandas.core.array_conversion import Array, to_array, to_objects
from craton.pandas.core.dtypes import OBJECT, is_carried
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View
from craton.plan.expr import Call, Column, Literal

__all__ = [
    "can_carry",
    "can_carry_labels",
    "carried_value",
    "index_of",
    "objects_of",
    "positions_in",
    "with_plain_columns",
    "with_positions",
    "with_values_of_positions",
]

#: The position of a value that a join did not find.
_NOWHERE = 2**32 - 1


def can_carry(array: Any) -> bool:
    """Whether a plan carries an array."""
    return is_carried(array.dtype) and len(array) < _NOWHERE


def can_carry_labels(array: Any) -> bool:
    """Whether a plan carries an array as row labels: labels that are tuples or sets have another meaning in keys."""
    if not can_carry(array):
        return False
    objects = array.tolist() if array.dtype == OBJECT else []
    return not any(map(is_list_like, dict(zip(map(type, objects), objects, strict=True)).values()))


def positions_in(array: Any) -> pl.Series:
    """The positions of all values of an array."""
    return pl.Series(np.arange(len(array), dtype=np.uint32))


def carried_value(column: Column, array: Any) -> Value:
    """The values of an array, to which nothing may write, at the positions in a column."""
    return Value(ObjectColumn(column, array), array.dtype)


def with_plain_columns(view: View) -> View:
    """The same view with plain columns in place of object columns; only for materialising this view."""
    if not any(isinstance(value.expr, ObjectColumn) for value in view.values):
        return view
    return view.with_values([replace(value, expr=value.read) for value in view.values])


def objects_of(expr: ObjectColumn, column: pl.Series) -> np.ndarray[Any, Any]:
    """The Python objects that a column of the kernel stands for."""
    if expr.source is None:
        return to_objects(column, expr.nan)
    return np.asarray(pd.Series(to_array(column, expr.source), copy=False).astype(OBJECT))


def with_positions(view: View) -> View:
    """The view with positions in place of the values in memory."""
    if not any(_objects(value) is not None for value in (*view.index.values, *view.values)):
        return view

    def plain(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(value if _objects(value) is None else _position(value) for value in values)

    return replace(view, values=plain(view.values), index=replace(view.index, values=plain(view.index.values)))


def with_values_of_positions(view: View, found: tuple[list[Array], pd.Index]) -> tuple[list[Array], pd.Index]:
    """The arrays and the row labels of a view, given those of :func:`with_positions`."""
    arrays = [
        array if (objects := _objects(value)) is None else _taken(objects, array)
        for value, array in zip(view.values, found[0], strict=True)
    ]
    index, spec = found[1], view.index
    if spec.values and (objects := _objects(spec.values[0])) is not None:
        index = index_of(_taken(objects, index.to_numpy()), spec)
    return arrays, index


def index_of(array: Array, spec: IndexSpec) -> pd.Index:
    """The Index of an array. pandas infers a dtype for Python objects, unless they have been labels before."""
    carried = array.dtype == OBJECT and isinstance(spec.values[0].expr, ObjectColumn)
    return pd.Index(array, name=spec.names[0], dtype=OBJECT if carried else None, copy=False)


def _position(value: Value) -> Value:
    """The positions of a column's values; :data:`_NOWHERE` if missing."""
    expr = Call("fill_null", (value.read, Literal(_NOWHERE, pl.UInt32())), pl.UInt32())
    return Value(expr, np.dtype("uint32"), nulls=False)


def _taken(objects: Any, positions: Any) -> Any:
    """The values at some positions; NaN at :data:`_NOWHERE`, where only Python objects are missing."""
    if isinstance(objects, pd.api.extensions.ExtensionArray):
        return objects.take(positions.astype(np.intp))
    missing = positions == _NOWHERE
    if not missing.any():
        return objects[positions]
    found = np.full(len(positions), np.nan, dtype=object)
    found[~missing] = objects[positions[~missing]]
    return found


def _objects(value: Value) -> Any:
    """The array in memory whose values a column has; None for other columns."""
    return value.expr.objects if isinstance(value.expr, ObjectColumn) else None
