"""Takes the columns of a view over joined tables in memory from the arrays in memory, without conversions to the kernel and back."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pandas.core.algorithms import take_nd

from craton import _native, events
from craton.config import options
from craton.engine.choice import present_engine
from craton.lower.ordering import NO_ROW, Rows, gathered
from craton.pandas.core.array_conversion import Array, to_array
from craton.pandas.core.dtypes import can_hold_missing, same_dtype, with_missing
from craton.pandas.core.joined.positions import Locator
from craton.pandas.core.joined.tables import Joined, NotJoined, Table, joined_tables
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View
from craton.plan.expr import Call, Column, Expr, dtype_of, roots
from craton.plan.operators import Join, Operator, Project
from craton.records import dataclass

__all__ = ["Taken", "taken"]


@dataclass(frozen=True, slots=True)
class Taken:
    """The columns of a view.

    Parameters
    ----------
    labels, columns
        The arrays of the row labels and of the columns.
    rows
        The number of rows.
    index
        The row labels, if they need not be made of arrays.
    """

    labels: list[Array]
    columns: list[Array]
    rows: int
    index: pd.Index | None = None


def taken(view: View) -> Taken | None:
    """The columns of a view over joined tables in memory; None for other views, and where a plan is faster.

    ``small_rows = 0`` sends every join through a plan.
    """
    if not options.small_rows or view.index.sources or view.index.freq is not None or present_engine() is not None:
        return None
    started = time.perf_counter()
    try:
        base, tables = joined_tables(view.base)
        found = _Taking(base, tables).view(view)
    except NotJoined:
        return None
    if events.active:
        events.emit("run", seconds=time.perf_counter() - started, rows=found.rows, operators=len(tables) + 1)
    return found


class _Positions:
    """The rows of one table: as they are, and as pandas takes them."""

    def __init__(self, rows: Rows, height: int) -> None:
        self.rows = rows
        self._height = height
        self.missing = bool((rows == NO_ROW).any())

    @functools.cached_property
    def absent(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether the table lacks each row."""
        return self.rows == NO_ROW

    @functools.cached_property
    def bounded(self) -> Rows:
        """The positions, with the number of the table's rows for rows that it lacks."""
        return np.minimum(self.rows, np.uint32(self._height)) if self.missing else self.rows

    @functools.cached_property
    def signed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The positions, with -1 for rows that the table lacks."""
        signed = self.rows.astype(np.int64)
        if self.missing:
            signed[self.absent] = -1
        return signed


class _Taking:
    """Takes columns of one joined plan."""

    def __init__(self, base: Joined, tables: list[Table]) -> None:
        self._base, self._tables = base, tables
        self._locator = Locator(tables)
        self._positions: dict[int, _Positions] = {}
        self._is_promoted: dict[tuple[Operator, str], bool] = {}

    def view(self, view: View) -> Taken:
        """The columns of a view, which are checked before a join is computed."""
        every = (*view.index.values, *view.values)
        exprs = [self._base.expression(value.read) for value in every]
        for value, expr in zip(every, exprs, strict=True):
            self._check(value, expr)
        if view.index.kind == "default" and _reads_only_left(self._base, exprs):
            raise NotJoined
        sources = {value.source: _found(self._base, value.source[0]) for value in every if value.source is not None}
        self._locator.compute(
            _needed(self._base, [*exprs, *(at.expression(at.op.column(source[1])) for source, at in sources.items())]),
            [view],
        )
        self._is_promoted = {source: self._has_missing(at, source[1]) for source, at in sources.items()}
        height = self._locator.rows(self._base).height
        count = len(view.index.values)
        index = self._index(view.index, exprs[:count], height)
        labels = [] if index is not None else list(map(self._label, view.index.values, exprs))
        return Taken(labels, list(map(self._array, view.values, exprs[count:])), height, index)

    def _check(self, value: Value, expr: Expr) -> None:
        """Check that a column is one that can be taken, or computed by the kernel."""
        name = _plain(expr)
        if name is None:
            if isinstance(value.expr, ObjectColumn):
                raise NotJoined
            return
        table = self._table(name)
        if table.memory is None:
            if isinstance(value.expr, ObjectColumn) or (table.is_numbers and value.dtype != np.dtype("int64")):
                raise NotJoined
            return
        array = table.memory.arrays[table.columns[name]]  # type: ignore[index]
        if isinstance(value.expr, ObjectColumn) and value.expr.objects is not array:
            raise NotJoined
        if not same_dtype(array.dtype, value.dtype):
            raise NotJoined

    def _table(self, name: str) -> Table:
        return self._tables[_number(name)]

    def _has_missing(self, joined: Joined, column: str) -> bool:
        """Whether a column of an operator has missing values."""
        located = self._locator.rows(joined)
        expr = joined.expression(joined.op.column(column))
        name = _plain(expr)
        if name is not None:
            source, rows = self._locator.source(_number(name)), located.rows[_number(name)]
            if source is None or not source.has_nulls(self._table(name).columns[name]):  # type: ignore[arg-type]
                return rows is not None and bool((rows == NO_ROW).any())
        return bool(self._locator.evaluated(expr, located).null_count())

    def _at(self, name: str) -> _Positions | None:
        """The positions of the rows of a column's table; None for all rows in order."""
        number = _number(name)
        rows = self._locator.rows(self._base).rows[number]
        if rows is not None and number not in self._positions:
            source = self._locator.source(number)
            self._positions[number] = _Positions(rows, 0 if source is None else source.rows)
        return self._positions.get(number)

    def _label(self, value: Value, expr: Expr) -> Array:
        """A column of row labels, which shares no memory that may be written to."""
        found = self._array(value, expr)
        name = _plain(expr)
        if name is not None and self._at(name) is None and not hasattr(found, "_pa_array"):
            found = found.copy()
        if isinstance(found, (pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray)):
            found._freq = None  # type: ignore[union-attr]
        return found

    def _array(self, value: Value, expr: Expr) -> Array:
        promoted = value.source is not None and self._is_promoted[value.source]
        dtype = with_missing(value.dtype) if promoted else value.dtype
        name = _plain(expr)
        if name is None or self._table(name).plan is not None:
            return to_array(self._locator.evaluated(expr, self._locator.rows(self._base)), dtype)
        table, positions = self._table(name), self._at(name)
        if table.memory is None:
            numbers = np.arange(self._locator.rows(self._base).height) if positions is None else positions.signed
            if positions is None or not positions.missing:
                return numbers
            return np.where(numbers < 0, np.nan, numbers)
        array = table.memory.arrays[table.columns[name]]  # type: ignore[index]
        if positions is None:
            found = array
        elif _is_text(array) and len(positions.rows) * _SHARE >= len(array):
            column = table.source.get_column(table.columns[name])  # type: ignore[union-attr, arg-type]
            return to_array(gathered(column, positions.rows), value.dtype)
        else:
            found = _at_positions(array, positions)
        if can_hold_missing(value.dtype) or found.dtype == dtype:
            return found  # type: ignore[no-any-return]
        if not promoted:
            raise NotJoined
        return found.astype(dtype)  # type: ignore[no-any-return]

    def _index(self, spec: IndexSpec, exprs: list[Expr], height: int) -> pd.Index | None:
        """Row labels that are those of a table, or numbers of all rows, in order; None for others."""
        names = [_plain(expr) for expr in exprs]
        if not names or any(name is None or self._at(name) is not None for name in names):
            return None
        memory = self._table(names[0]).memory  # type: ignore[arg-type]
        if memory is None:
            numbered = self._table(names[0]).is_numbers and spec.kind == "range"  # type: ignore[arg-type]
            return pd.RangeIndex(height, name=spec.names[0]) if numbered else None
        known = memory.spec
        columns = [self._table(name).columns[name] for name in names]  # type: ignore[arg-type, index]
        stored = [value.expr.name for value in known.values if isinstance(value.expr, Column)]
        same_table = len({_number(name) for name in names}) == 1  # type: ignore[arg-type]
        if not same_table or columns != stored or (spec.kind, spec.freq) != (known.kind, known.freq):
            return None
        if [value.dtype for value in spec.values] != [value.dtype for value in known.values]:
            return None
        if len(spec.levels) != len(known.levels) or any(
            one is not other for one, other in zip(spec.levels, known.levels, strict=True)
        ):
            return None
        index = memory.index.view()  # which keeps the identity, by which pandas recognises equal labels
        index.names = list(spec.names)
        return index


def _number(name: str) -> int:
    """The number of the table that has a column."""
    return int(name.partition(".")[0])


def _plain(expr: Expr) -> str | None:
    """The column of a table that an expression is, or the row numbers that it has as 64-bit integers; None for other expressions."""
    if isinstance(expr, Call) and expr.function == "cast" and dtype_of(expr) == pl.Int64():
        below = expr.args[0]
        return (
            below.name
            if isinstance(below, Column) and below.name.endswith(".") and dtype_of(below) == pl.UInt32()
            else None
        )
    return expr.name if isinstance(expr, Column) else None


def _reads_only_left(joined: Joined, exprs: list[Expr]) -> bool:
    """Whether only columns of the left side of a left join are read, whose rows may be known without a join."""
    while isinstance(joined.op, Project):
        joined = joined.inputs[0]
    if not isinstance(joined.op, Join) or joined.op.how != "left":
        return False
    return {_number(name) for expr in exprs for name in roots(expr)} <= set(joined.inputs[0].tables)


def _needed(base: Joined, exprs: list[Expr]) -> set[str]:
    """The columns of the tables that expressions, joins, sorts and filters read."""
    found = {name for expr in exprs for name in roots(expr)}
    stack = [base]
    while stack:
        one = stack.pop()
        stack.extend(one.inputs)
        for below, read in zip(one.inputs, one.op.expressions, strict=False):
            if not isinstance(one.op, Project):
                found |= {name for expr in read for name in roots(below.expression(expr))}
    return found


def _found(joined: Joined, op: Operator) -> Joined:
    """The part of a plan with an operator."""
    stack = [joined]
    while stack:
        one = stack.pop()
        if one.op == op:
            return one
        stack.extend(one.inputs)
    raise NotJoined


#: The kernel selects texts four times as fast as Arrow, but needs them in its own layout. That is worthwhile if at least one row of
#: this number is selected.
_SHARE = 8


def _is_text(array: Any) -> bool:
    """Whether an array has texts in Arrow's layout."""
    return isinstance(array.dtype, pd.StringDtype) and hasattr(array, "_pa_array")


def _at_positions(array: Any, positions: _Positions) -> Any:
    """The values of an array at positions, with missing values for rows that the table lacks."""
    if isinstance(array.dtype, pd.StringDtype) and hasattr(array, "_pa_array"):
        rows = pa.array(positions.rows, mask=positions.absent if positions.missing else None)
        return array._from_pyarrow_array(array._pa_array.take(rows))
    if isinstance(array, np.ndarray):
        found = _numbers_at(array, positions, np.nan)
        return take_nd(array, positions.signed) if found is None else found
    if isinstance(array, (pd.Categorical, pd.arrays.DatetimeArray, pd.arrays.TimedeltaArray)):
        found = _numbers_at(array._ndarray, positions, -1 if isinstance(array, pd.Categorical) else "NaT")  # type: ignore[union-attr]
        if found is not None:
            return array._from_backing_data(found)  # type: ignore[union-attr]
    return array.take(positions.signed, allow_fill=positions.missing)


def _numbers_at(array: np.ndarray[Any, Any], positions: _Positions, missing: Any) -> np.ndarray[Any, Any] | None:
    """The values of an array of numbers at positions; None if pandas must take them."""
    if (
        array.dtype.kind not in ("iuf" if positions.missing and missing is np.nan else "iufbmM")
        or array.itemsize not in (1, 2, 4, 8)
        or not array.flags.c_contiguous
    ):
        return None
    if positions.missing:
        promoted = missing is np.nan and array.dtype.kind in "iu"
        filled = np.empty(len(array) + 1, np.float64 if promoted else array.dtype)
        filled[:-1] = array
        filled[-1] = missing
        array = filled
    word = np.dtype(f"u{array.itemsize}")
    found = np.empty(len(positions.rows), array.dtype)
    _native.gather(array.view(word), positions.bounded, found.view(word))
    return found
