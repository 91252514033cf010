"""Columns of rows that filters select, taken from the arrays in memory.

The kernel copies the selected values, and its result is converted to pandas' arrays with further copies. Instead, a plan computes only
the places of the rows in memory, and the columns that it would only copy are taken from their arrays. If the filters are masks in
memory, as in ``df[df["x"] > 0]``, no plan runs.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craton.config import options
from craton.engine.choice import present_engine
from craton.pandas.core.align import memory_of, original_column
from craton.pandas.core.array_conversion import Array, selected_texts
from craton.pandas.core.unchanged import scan_of_rows
from craton.pandas.core.view import ObjectColumn, Value, View
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, conjuncts, dtype_of
from craton.plan.names import HIDDEN
from craton.plan.operators import Attach, Filter, Operator, Project, RowNumber, Scan
from craton.plan.sources import MemorySource
from craton.records import dataclass

__all__ = ["Selected", "selected"]


@dataclass(frozen=True, slots=True)
class Selected:
    """The columns of a view that only selects rows of data in memory.

    Parameters
    ----------
    view
        The view of the other columns; if there are columns to take, with the places of its rows in memory as the last column.
    arrays
        The arrays from which columns are taken, by the position of the column.
    labels
        The arrays of the row labels, if nothing must be computed; otherwise None.
    places
        The places of the rows, if nothing must be computed; otherwise None.
    """

    view: View
    arrays: dict[int, Array]
    labels: list[Array] | None = None
    places: np.ndarray[Any, Any] | None = None

    def completed(self, computed: list[Array]) -> list[Array]:
        """All arrays of the original view, given those of :attr:`view`."""
        if not self.arrays:
            return computed
        *others, places = computed
        rest, taken = iter(others), _Taken(len(next(iter(self.arrays.values()))), places)
        count = len(self.arrays) + len(others)
        return [taken(self.arrays[i]) if i in self.arrays else next(rest) for i in range(count)]


class _Taken:
    """Takes the values at some places, in ascending order, of arrays with a number of values."""

    def __init__(self, count: int, places: Any) -> None:
        self._places = np.asarray(places, np.intp)
        self._count = count

    @functools.cached_property
    def _mask(self) -> pa.Array:
        mask = np.zeros(self._count, dtype=bool)
        mask[self._places] = True
        return pa.array(mask)

    def __call__(self, array: Any) -> Array:
        if hasattr(array, "_pa_array"):
            return selected_texts(array, self._mask)
        if isinstance(array, np.ndarray):
            return array.take(self._places)
        return array._from_backing_data(array._ndarray.take(self._places))  # type: ignore[no-any-return]


def selected(view: View) -> Selected:
    """The columns that a view takes from data in memory, if it only selects rows by filters, so that their order is that in memory."""
    below = view.base
    while isinstance(below, (Project, Attach, RowNumber)):
        below = below.input
    arrays: dict[int, Array] = {}
    if isinstance(below, Filter):
        for place, value in enumerate(view.values):
            array = _taken_array(view.base, value)
            if array is not None:
                arrays[place] = array
    numbered = _with_row_numbers(view.base) if arrays else None
    if numbered is None:
        return Selected(view, {})
    kept = [i for i in range(len(view.values)) if i not in arrays]
    places = Value(Column(numbered[1], pl.UInt32()), np.dtype("uint32"), nulls=False)
    labels = pd.Index([*view.labels.take(kept), None], dtype=object, tupleize_cols=False)
    rest = replace(view, base=numbered[0], values=(*(view.values[i] for i in kept), places), labels=labels)
    found = _without_a_plan(view) if not kept else None
    return Selected(rest, arrays, *(found or ()))


def _without_a_plan(view: View) -> tuple[list[Array], np.ndarray[Any, Any]] | None:
    """The arrays of the row labels, and the places of the rows in memory, if all filters are masks in memory."""
    if not options.small_rows or view.index.sources or present_engine() is not None:
        return None
    levels = [
        _ROWS if _is_row_number(view.base, value) else _taken_array(view.base, value) for value in view.index.values
    ]
    masks = _masks(view.base)
    if masks is None or any(level is None for level in levels):
        return None
    every = masks[0]
    for mask in masks[1:]:
        every = every & mask
    places = np.flatnonzero(every)
    taken = _Taken(len(every), places)
    return [places if level is _ROWS else taken(level) for level in levels], places


#: Stands for the array of the numbers of all rows.
_ROWS: Any = object()


def _masks(op: Operator) -> list[np.ndarray[Any, Any]] | None:
    """The masks in memory by which an operator selects rows; None if it computes one of them."""
    masks: list[np.ndarray[Any, Any]] = []
    while isinstance(op, (Project, Attach, RowNumber, Filter)):
        if isinstance(op, Filter):
            for part in conjuncts(op.predicate):
                mask = _mask(op.input, part)
                if mask is None:
                    return None
                masks.append(mask)
        op = op.input
    return masks if scan_of_rows(op) is not None else None


def _mask(op: Operator, expr: Expr) -> np.ndarray[Any, Any] | None:
    """The mask of all rows in memory of which an operator selects an expression; None for others."""
    found = _stored(op, expr)
    if isinstance(found, pl.Series):
        found = found.to_numpy() if found.dtype == pl.Boolean() and not found.null_count() else None
    return found if isinstance(found, np.ndarray) and found.dtype == bool else None


def _taken_array(base: Operator, value: Value) -> Array | None:
    """The array in memory from which a column is taken; None for others, and for Python objects and arrays of other libraries."""
    if isinstance(value.expr, ObjectColumn) or not value.definite:
        return None
    array: Any = _stored(base, value.expr)
    if array is None or array is _ROWS or isinstance(array, pl.Series) or array.dtype != value.dtype:
        return None
    if isinstance(array.dtype, pd.StringDtype):
        return array if hasattr(array, "_pa_array") else None  # type: ignore[no-any-return]
    plain = isinstance(array, (pd.Categorical, pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray))
    return array if plain or (isinstance(array, np.ndarray) and array.dtype.kind in "biuf") else None


def _is_row_number(base: Operator, value: Value) -> bool:
    """Whether a column is the place of each row in memory, as 64-bit integers."""
    expr = value.expr
    if not isinstance(expr, Call) or expr.function != "cast" or dtype_of(expr) != pl.Int64() or not value.definite:
        return False
    return value.dtype == np.int64 and _stored(base, expr.args[0]) is _ROWS


def _stored(op: Operator, expr: Expr) -> Any:
    """The array in memory, or the attached column, from whose rows an operator selects an expression; None if it computes it.

    For the numbers of all rows, the result is :data:`_ROWS`.
    """
    while isinstance(expr, Column):
        if isinstance(op, Project):
            expr = dict(op.columns)[expr.name]
        if isinstance(op, RowNumber) and isinstance(expr, Column) and expr.name == op.name:
            return _ROWS if scan_of_rows(op) is not None else None
        found = None
        if isinstance(op, Scan) and isinstance(expr, Column) and op.predicate is None:
            if expr.name == op.row_number:
                return _ROWS
            found = op.source, expr.name
        elif isinstance(op, Attach) and isinstance(expr, Column) and expr.name in op.columns:
            if scan_of_rows(op) is None:
                return None
            found = original_column(op.source, expr.name)
            if found is None:
                return op.source.get_column(expr.name) if isinstance(op.source, MemorySource) else None
        elif isinstance(op, (Filter, RowNumber, Attach, Project)):
            op = op.input
            continue
        memory = None if found is None else memory_of(found[0])
        return None if memory is None or found is None else memory.arrays[found[1]]
    return None


#: The column of the places in memory of the selected rows.
_PLACE = f"{HIDDEN}place in memory"


def _with_row_numbers(op: Operator) -> tuple[Operator, str] | None:
    """An operator with the number that each row has in the scan, and the name of this column; None if it has other rows."""
    if isinstance(op, Scan):
        return (RowNumber(op, _PLACE), _PLACE) if op.predicate is None else None
    if isinstance(op, RowNumber) and isinstance(scan_of_rows(op), Scan):
        return op, op.name
    if not isinstance(op, (Filter, RowNumber, Attach, Project)):
        return None
    below = _with_row_numbers(op.input)
    if below is None:
        return None
    made, name = below
    if not isinstance(op, Project):
        return replace(op, input=made), name
    return build.project(made, (*op.columns, (_PLACE, Column(name, pl.UInt32())))), _PLACE
