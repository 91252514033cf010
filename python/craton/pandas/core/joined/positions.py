"""The row positions of a plan of joins: for each table below, which of its rows each row of the result has.

Only the key columns are read. The positions of a join are remembered for as long as a plan has the join, so that a program that takes
several columns from it joins once.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from craton.config import options
from craton.engine.evaluations import collect_and_keep
from craton.engine.live_objects import LiveView
from craton.lower.expressions import lower_expr
from craton.lower.numpy_sorts import tied_sort
from craton.lower.ordering import NO_ROW, Rows, gathered, is_whole_number, matching_rows, ordered_rows
from craton.pandas.core.joined.tables import Joined, NotJoined, Table
from craton.plan import build
from craton.plan.expr import Column, Expr, roots
from craton.plan.operators import Filter, Join, Operator, Sort, schema
from craton.plan.sources import MemorySource
from craton.records import dataclass

__all__ = ["Located", "Locator"]

_Pairs = list[tuple[pl.Series, pl.Series]]


@dataclass(frozen=True, slots=True)
class Located:
    """The rows of an operator.

    Parameters
    ----------
    height
        Their number.
    rows
        For each table below the row that each row has, or :data:`~craton.lower.ordering.NO_ROW`; None if these are all rows of the
        table in order.
    """

    height: int
    rows: dict[int, Rows | None]

    def reordered(self, order: Rows | None) -> dict[int, Rows | None]:
        """The rows of the tables for some of these rows, of which some may be :data:`~craton.lower.ordering.NO_ROW`."""
        return self.rows if order is None else {number: _composed(rows, order) for number, rows in self.rows.items()}


def _checked(located: Located) -> Located:
    """Rows that 32-bit positions can refer to."""
    if located.height >= NO_ROW:
        raise NotJoined
    return located


def _composed(rows: Rows | None, order: Rows) -> Rows:
    if rows is None:
        return order
    missing = order == NO_ROW
    if not missing.any():
        return rows[order]
    found = np.full(len(order), NO_ROW, np.uint32)
    found[~missing] = rows[order[~missing]]
    return found


#: The heights and the rows of joins and sorts, for as long as a plan has the operator.
_known: WeakKeyDictionary[Operator, tuple[int, list[Rows | None]]] = WeakKeyDictionary()


class Locator:
    """Finds the rows of operators, and evaluates expressions over them.

    Parameters
    ----------
    tables
        The tables, by number.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._done: dict[int, Located] = {}
        self._sources: dict[int, MemorySource | None] = {}

    def compute(self, needed: set[str], views: Sequence[LiveView]) -> None:
        """Compute the tables that have plans.

        Parameters
        ----------
        needed
            The columns of the tables that are needed.
        views
            The views of the objects that are evaluated.
        """
        for number, table in enumerate(self._tables):
            self._sources[number] = table.source
            if table.plan is None:
                continue
            names = {made: own for made, own in table.columns.items() if made in needed and own is not None}
            own = list(names.values()) or list(schema(table.plan))[:1]
            plan = build.project(table.plan, tuple((name, table.plan.column(name)) for name in own))
            (found,) = collect_and_keep([plan], views=views)
            self._sources[number] = MemorySource.of(found)

    def source(self, number: int) -> MemorySource | None:
        """The columns of a table; None for numbers of rows."""
        return self._sources[number]

    def rows(self, joined: Joined) -> Located:
        """The rows of an operator.

        Raises
        ------
        NotJoined
            If there are too many for 32-bit positions.
        """
        found = self._done.get(id(joined))
        if found is None:
            found = self._done[id(joined)] = self._found(joined)
        return found

    def _found(self, joined: Joined) -> Located:
        op = joined.op
        if not joined.inputs:
            source = self._sources[joined.tables[0]]
            assert source is not None
            return _checked(Located(source.rows, dict.fromkeys(joined.tables)))
        kept = isinstance(op, (Join, Sort)) and not any(self._tables[number].plan for number in joined.tables)
        if kept and (known := _known.get(op)) is not None:
            return Located(known[0], dict(zip(joined.tables, known[1], strict=True)))
        below = [self.rows(one) for one in joined.inputs]
        if isinstance(op, Join):
            found = _checked(self._join(joined, op, *below))
        elif isinstance(op, Filter):
            mask = self.evaluated(joined.inputs[0].expression(op.predicate), below[0])
            chosen = mask.arg_true().cast(pl.UInt32).to_numpy()
            found = Located(len(chosen), below[0].reordered(chosen if len(chosen) < len(mask) else None))
        elif isinstance(op, Sort):
            order = self._order(joined.inputs[0], op, below[0])
            found = Located(below[0].height, below[0].reordered(order))
        else:
            found = Located(below[0].height, {number: below[0].rows.get(number) for number in joined.tables})
        if kept and options.result_memory:
            _known[op] = found.height, list(found.rows.values())
        return found

    def _join(self, joined: Joined, op: Join, left: Located, right: Located) -> Located:
        pairs = [
            (
                self.evaluated(joined.inputs[0].expression(ours), left),
                self.evaluated(joined.inputs[1].expression(theirs), right),
            )
            for ours, theirs in zip(op.left_on, op.right_on, strict=True)
        ]
        swapped = op.how == "right"
        if swapped:
            pairs = [(theirs, ours) for ours, theirs in pairs]
        ours, theirs = _matches(pairs, op.how != "inner", op.nulls_equal)
        if op.how == "outer":
            ours, theirs = _with_others(ours, theirs, right.height)
        orders = (theirs, ours) if swapped else (ours, theirs)
        rows = [side.reordered(order) for side, order in zip((left, right), orders, strict=True)]
        return Located(len(theirs), rows[0] | rows[1])

    def _order(self, below: Joined, op: Sort, located: Located) -> Rows:
        keys = {f"key{i}": self.evaluated(below.expression(key.expr), located) for i, key in enumerate(op.keys)}
        frame = pl.DataFrame(keys)
        order = [(name, key.descending, key.nulls_last) for name, key in zip(keys, op.keys, strict=True)]
        if op.ties is None:
            return ordered_rows(frame, order)
        (key,) = order
        return tied_sort(*key, op.ties, (), ("row",), "row")(frame).get_column("row").to_numpy()  # type: ignore[no-any-return]

    def evaluated(self, expr: Expr, located: Located) -> pl.Series:
        """An expression over the columns of the tables, for some rows."""
        if isinstance(expr, Column):
            return self.column(expr.name, located)
        frame = pl.DataFrame({name: self.column(name, located) for name in sorted(roots(expr))})
        return frame.select(lower_expr(expr)).to_series()

    def column(self, name: str, located: Located) -> pl.Series:
        """A column of a table, for some rows."""
        number = int(name.partition(".")[0])
        table, rows = self._tables[number], located.rows[number]
        source = self._sources[number]
        if source is None:
            numbers = pl.int_range(located.height, dtype=pl.UInt32, eager=True) if rows is None else pl.Series(rows)
            return numbers if rows is None else numbers.replace(NO_ROW, None)
        column = source.get_column(table.columns[name])  # type: ignore[arg-type]
        return column if rows is None else gathered(column, rows)


def _matches(pairs: _Pairs, keep: bool, nulls_equal: bool) -> tuple[Rows | None, Rows]:
    """The matching rows of two sides, in order; None for the left rows if they are each row once, in order."""
    found = None
    if all(ours.dtype == theirs.dtype and is_whole_number(ours.dtype) for ours, theirs in pairs):
        found = matching_rows(pairs, keep)
    if found is not None:
        return found
    names = [f"key{i}" for i in range(len(pairs))]
    sides = [
        pl.DataFrame(dict(zip(names, columns, strict=True))).with_row_index(row)
        for columns, row in zip(zip(*pairs, strict=True), ("left", "right"), strict=True)
    ]
    joined = sides[0].join(
        sides[1], on=names, how="left" if keep else "inner", nulls_equal=nulls_equal, maintain_order="left_right"
    )
    return joined.get_column("left").to_numpy(), joined.get_column("right").fill_null(NO_ROW).to_numpy()


def _with_others(ours: Rows | None, theirs: Rows, height: int) -> tuple[Rows | None, Rows]:
    """The matching rows of a left join, and after them those right rows that match none."""
    alone = np.ones(height, bool)
    alone[theirs[theirs != NO_ROW]] = False
    rest = np.flatnonzero(alone).astype(np.uint32)
    if not len(rest):
        return ours, theirs
    first = np.arange(len(theirs), dtype=np.uint32) if ours is None else ours
    return np.concatenate([first, np.full(len(rest), NO_ROW, np.uint32)]), np.concatenate([theirs, rest])
