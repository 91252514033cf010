"""Rows of several objects beside each other, by positions that pandas found, with missing values where there is no row.

pandas itself aligns row labels, on Series of row positions that have these labels (:func:`positions_by_label`), and itself decides
which rows match. So each kind of label, the order of the result and pandas' errors are its own, and only labels and keys are computed
before the plan. :func:`beside` joins the rows at these positions to a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned, attached
from craton.pandas.core.axes import labels_of
from craton.pandas.core.dtypes import OBJECT, DtypeObj, physical
from craton.pandas.core.execute import count_rows, index_columns
from craton.pandas.core.identities import share_identities
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View, frequency, name_index
from craton.pandas.values.constants import constant_of
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
from craton.plan.operators import Join, JoinHow, Operator, RowNumber, Scan
from craton.plan.sources import MemorySource
from craton.records import dataclass
from craton.refusals import Refusal

Positions = np.ndarray[Any, np.dtype[np.int64]]

#: The position of a row that does not exist.
NO_ROW = -1


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one object in a joined plan.

    Parameters
    ----------
    values
        Its columns over the joined base. In rows that it lacks they are null, and their dtypes do not show it yet
        (:meth:`filled`).
    missing
        A predicate that is true in rows that the object lacks; None if it lacks none.
    """

    values: tuple[Value, ...]
    missing: Expr | None

    def filled(self, number: int, fill: Any = no_default, framed: bool = True) -> Value:
        """A column with pandas' dtype and value for rows that the object lacks.

        Parameters
        ----------
        number
            The number of the column.
        fill
            The value for these rows, by default the missing value of the dtype.
        framed
            Whether the object is a frame; a Series converts some values otherwise.

        Raises
        ------
        Unsupported
            If the column becomes one of Python objects, or a plan does not convert to its new dtype.
        """
        value = self.values[number]
        given = fill is not no_default and fill is not np.nan
        if self.missing is None and given and not isinstance(value.expr, ObjectColumn):
            dtype, _ = _filler(value.dtype, fill, framed)
            if dtype != value.dtype:  # pandas may change the dtype even so
                raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{fill!r} in a column of {value.dtype}")
        if self.missing is None:
            return value
        if isinstance(value.expr, ObjectColumn):
            value.expr.check_missing()
            if given:
                raise Unsupported(Refusal.OBJECT_COLUMN, repr(value.expr.column))
            return replace(value, nulls=True)
        dtype, filler = _filler(value.dtype, fill, framed)
        expr: Expr = value.expr
        if dtype != value.dtype:
            expr = Call("cast", (expr,), physical(dtype))
        source = value.source if dtype == value.dtype else None
        if filler.value is None:
            return Value(expr, dtype, nulls=True, nans=value.nans, source=source)
        if source is not None:
            raise Unsupported(Refusal.DTYPE_OF_DATA)
        expr = Call("when", (self.missing, filler, expr), physical(dtype))
        return Value(expr, dtype, nulls=value.nulls, nans=value.nans)


def _filler(dtype: DtypeObj, fill: Any, framed: bool) -> tuple[DtypeObj, Literal]:
    """The dtype of a column in which rows are missing, and its value in these rows."""

    def call() -> pd.Series:
        few = stand_ins.column(dtype, 1)
        given = {} if fill is no_default else {"fill_value": fill}
        return few.to_frame("x").reindex([0, 1], **given)["x"] if framed else few.reindex([0, 1], **given)

    found = stand_ins.probe_cached("reindex", (dtype, *([] if fill is no_default else [fill]), framed), call)
    if found.dtype == OBJECT:
        raise Unsupported(Refusal.OBJECT_COLUMNS, dtype)
    numbers = all(isinstance(one, np.dtype) and one.kind in "iuf" for one in (dtype, found.dtype))
    if found.dtype != dtype and not numbers:
        raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{dtype} as {found.dtype}")
    filler = constant_of(found._values[1:], found.dtype).expr
    assert isinstance(filler, Literal)
    return found.dtype, filler


def positions_by_label(held: View) -> pd.Series:
    """The row positions as a Series with the row labels, which pandas' own methods align."""
    labels = labels_of(held)
    return pd.Series(np.arange(len(labels)), index=labels)


def positions_by_labels(several: Sequence[View]) -> list[pd.Series]:
    """As :func:`positions_by_label`, for several objects. Those that share their Index in pandas share it here."""
    rows = [positions_by_label(held) for held in several]
    share_identities(several, [one.index for one in rows])
    return rows


def positions_to_align(held: View) -> pd.Series:
    """As :func:`positions_by_label`, for an alignment that may join the labels.

    Raises
    ------
    Unsupported
        If the labels have a frequency: if they are all labels of the result, pandas removes the frequency of the operand's own index.
    """
    rows = positions_by_label(held)
    if frequency(rows.index) is not None:
        raise Unsupported(Refusal.LABELS_WITH_FREQUENCY)
    return rows


def aligned_positions(
    left: View, right: View, join: str, framed: tuple[bool, bool], axis: int | None = 0, equal: bool = False
) -> tuple[tuple[Positions, pd.Index], ...]:
    """For each of two objects the row positions and the row labels that ``align`` gives it.

    The labels of the two may have several dtypes: pandas leaves a Series, but not a frame, its own labels if they are all labels of the
    join in order.

    Parameters
    ----------
    join
        The join of the labels.
    framed
        For each object whether it is a frame.
    axis
        The axis that pandas is told; None for both, where pandas leaves time zones of frames as they are.
    equal
        Whether the labels must be equal.

    Raises
    ------
    Unsupported
        For labels that a plan cannot align; if the labels must be equal and differ.
    """
    with plain_pandas():
        rows = [positions_to_align(held) for held in (left, right)]
        if equal and not rows[0].index.equals(rows[1].index):
            raise Unsupported(Refusal.ROW_LABELS_DIFFER)
        if framed[0] != framed[1] and not all(one.index.is_unique for one in rows):
            raise Unsupported(Refusal.ROW_LABELS_DIFFER)  # pandas raises, unless the labels are equal
        one, other = (row.to_frame("x") if frame else row for row, frame in zip(rows, framed, strict=True))
        found = one.align(other, join=join, axis=axis, fill_value=NO_ROW)
        return tuple((as_positions(each["x"] if each.ndim == 2 else each), each.index) for each in found)


def as_positions(found: Any) -> Positions:
    """Row positions that pandas returned, as integers; missing ones become :data:`NO_ROW`."""
    array = found.to_numpy()
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), NO_ROW, array)
    return array.astype(np.int64)  # type: ignore[no-any-return]


def refuse_object_labels(index: pd.Index) -> None:
    """Refuse row labels with a level of Python objects.

    Raises
    ------
    Unsupported
        If the labels of a level of a MultiIndex are objects.
    """
    if isinstance(index, pd.MultiIndex) and any(level.dtype == OBJECT for level in index.levels):
        raise Unsupported(Refusal.OBJECT_LABELS)


def _are_all(positions: Positions, rows: int) -> bool:
    """Whether positions are those of all rows in order."""
    return len(positions) == rows and bool((positions == np.arange(rows)).all())


def beside(
    parts: Sequence[tuple[View, Positions]], index: pd.Index | None, more: Sequence[pl.Series] = ()
) -> tuple[View, list[Rows], list[Expr]]:
    """Join rows of several objects by position.

    Parameters
    ----------
    parts
        Views, each with the positions of its rows in the result, of which some may be :data:`NO_ROW`. All have the same length.
    index
        The row labels of the result; None for those of the first view, whose positions must then be those of all of its rows.
    more
        Other columns of the result.

    Returns
    -------
    tuple of (View, list of Rows, list of Expr)
        A view without columns over the joined base, the rows of each view, and the other columns.
    """
    first, places = parts[0]
    count = len(places)
    labels, spec = ([], None) if index is None else _index_columns(index)
    memory = [*labels, *more]
    lookups: dict[int, str] = {}
    for number, (held, positions) in enumerate(parts):
        if not held.values or (number == 0 and _are_all(positions, count_rows(held))):
            continue
        lookups[number] = f"__position{number}__"
        column = pl.Series(lookups[number], np.where(positions < 0, 0, positions).astype(np.uint32))
        if (positions < 0).any():
            column = pl.select(pl.when(pl.Series(positions >= 0)).then(column).alias(column.name)).to_series()
        memory.append(column)
    found: list[Rows] = []
    start = first if 0 not in lookups and (first.values or index is None) else None
    if start is not None:
        start = _renamed(start, 0)
        names = {column.name: column.name for column in memory}
        if memory:
            start, exprs = attached(start, memory)
            names = {column.name: expr.name for column, expr in zip(memory, exprs, strict=True)}  # type: ignore[attr-defined]
        base: Operator = start.base
        found.append(Rows(start.values, None))
    else:
        if not memory:
            memory = [pl.Series("__row__", np.zeros(count, dtype=bool))]
        frame = pl.DataFrame(memory)
        names = {name: name for name in frame.columns}
        base = Scan(MemorySource.of(frame), tuple(frame.columns))
    for number, (held, positions) in enumerate(parts):
        if number == 0 and start is not None:
            continue
        if number not in lookups:
            found.append(Rows((), None))
            continue
        side = _renamed(held, number)
        place = f"__number{number}__"
        right = RowNumber(side.base, place)
        absent = bool((positions < 0).any())
        key = base.column(names[lookups[number]])
        # A left join is known to keep the rows of the first view.
        how: JoinHow = "left" if absent or start is not None else "inner"
        base = Join(base, right, how, (key,), (right.column(place),), nulls_equal=False)
        found.append(Rows(side.values, Call("is_null", (key,), pl.Boolean()) if absent else None))
    if spec is None:
        assert start is not None
        result_index = start.index
    else:
        values = tuple(v.over(base.column(names[v.read.name])) for v in spec.values)  # type: ignore[attr-defined]
        result_index = replace(spec, values=values)
    exprs_of_more = [base.column(names[column.name]) for column in more]
    return View(base, (), name_index(None)[:0], result_index, count), found, list(exprs_of_more)


def _index_columns(index: pd.Index) -> tuple[list[pl.Series], IndexSpec]:
    """Row labels as columns that no object has."""
    refuse_object_labels(index)
    series, spec = index_columns(index, "__label{}__")
    return series, spec


def _renamed(held: View, number: int) -> View:
    """The view over a projection to its own columns, with names that no other part has."""
    every = [*held.index.values, *held.values] if number == 0 else list(held.values)
    names = [f"__part{number}_{i}__" for i in range(len(every))]
    count = len(every) - len(held.values)
    base = (
        build.project(held.base, tuple((n, v.read) for n, v in zip(names, every, strict=True))) if every else held.base
    )
    values = [value.at(name) for value, name in zip(every, names, strict=True)]
    index = replace(held.index, values=tuple(values[:count])) if number == 0 else IndexSpec()
    return View(base, tuple(values[count:]), held.labels, index, held.rows)


def aligned_or_joined(
    left: View, right: View, equal: bool, framed: tuple[bool, bool] = (False, False)
) -> tuple[View, View]:
    """Both views over one base, as :func:`~craton.pandas.core.align.aligned`; if their rows may differ, pandas aligns the row labels.

    Parameters
    ----------
    left, right
        The operands.
    equal
        Whether the labels must be equal.
    framed
        For each operand whether it is a frame.

    Raises
    ------
    Unsupported
        If the labels must be equal and differ, or for labels or columns that a plan cannot align.
    """
    try:
        return aligned(left, right)
    except Unsupported:
        pass
    (ours, labels), (theirs, _) = aligned_positions(left, right, "outer", framed, equal=equal)
    joined, parts, _ = beside([(left, ours), (right, theirs)], labels)
    views = []
    for held, part, frame in zip((left, right), parts, framed, strict=True):
        values = [part.filled(i, framed=frame) for i in range(len(held.values))]
        views.append(joined.with_values(values, held.labels))
    return views[0], views[1]


def with_rows_of(left: View, right: View) -> tuple[View, View]:
    """Both series over the rows of the left one; rows of the right one are found by label, as by ``right.reindex(left.index)``.

    Raises
    ------
    Unsupported
        For labels or values that a plan cannot align.
    """
    try:
        return aligned(left, right)
    except Unsupported:
        pass
    with plain_pandas():
        labels = positions_to_align(left).index
        found = positions_to_align(right).reindex(labels, fill_value=NO_ROW)
    joined, (mine, other), _ = beside([(left, np.arange(len(labels))), (right, as_positions(found))], None)
    return joined.with_values(mine.values, left.labels), joined.with_values(
        [other.filled(0, framed=False)], right.labels
    )


def columns_added(held: View, labels: pd.Index, positions: Sequence[int], fill: Any = no_default) -> list[Value]:
    """The columns at some positions; where a position is :data:`NO_ROW`, the column that pandas adds for a label that is missing.

    Parameters
    ----------
    held
        A view whose labels are unique.
    labels
        The new column labels.
    positions
        For each of them the number of the column.
    fill
        The value of added columns.
    """
    if NO_ROW not in positions:
        return [held.values[i] for i in positions]
    if any(not value.definite for value in held.values):
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    if not held.values or len(labels) != len(positions):
        raise Unsupported(Refusal.NO_COLUMNS)
    few = stand_ins.columns([value.dtype for value in held.values])
    few = pd.concat([few, few.iloc[:0]])
    given = {} if fill is no_default else {"fill_value": fill}
    added = stand_ins.probe(lambda: few.reindex(columns=[*few.columns, -1], **given)[-1])
    one = stand_ins.probe(lambda: added.reindex([0], fill_value=np.nan if fill is no_default else fill))
    if added.dtype == OBJECT or one.dtype != added.dtype:
        raise Unsupported(Refusal.OBJECT_COLUMNS, added.dtype)
    filler = constant_of(one._values, added.dtype)
    return [filler if i == NO_ROW else held.values[i] for i in positions]


def column_positions(held: View) -> pd.DataFrame:
    """A frame of one row in which each column holds its own number, for pandas' methods on column labels."""
    if isinstance(held.labels, pd.MultiIndex) or not held.labels.is_unique:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    return stand_ins.positions(held.labels)
