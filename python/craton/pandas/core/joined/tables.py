"""The tables in memory below a plan of joins, and each column of the plan as an expression over their columns.

Only plans of scans, projections, filters, row numbers, joins and sorts have this form. A side of a join that has another form, and not
more rows than the other side, is a table that is computed first. Expressions that call Python, search texts or may fail are left to
plans.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from craton.pandas.core.align import Memory, memory_of
from craton.plan.expr import (
    Call,
    Column,
    Expr,
    Literal,
    Values,
    dtype_of,
    is_cheap,
    is_costly_call,
    may_raise,
    roots,
    substitute,
    walk,
)
from craton.plan.operators import Filter, Join, Operator, Project, RowNumber, Scan, Sort, schema
from craton.plan.size import estimated_rows
from craton.plan.sources import FileSource, MemorySource
from craton.plan.visit import topological
from craton.records import dataclass

__all__ = ["Joined", "NotJoined", "Table", "joined_tables"]

#: The most operators over one another that are followed.
_MOST_OPERATORS = 50


class NotJoined(Exception):
    """Raised for a plan that is not one of joins of tables in memory, or a column that is none of their columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table in memory, a table that is computed first, or numbers of rows.

    Parameters
    ----------
    columns
        The name that each column has in the plan's expressions: the number of the table, and its own name. That of row numbers has
        no name of its own.
    memory, source
        The arrays in memory, and the columns that the kernel reads; None for other tables.
    plan
        The plan of a table that is computed.
    """

    columns: dict[str, str | None]
    memory: Memory | None = None
    source: MemorySource | None = None
    plan: Operator | None = None

    @property
    def is_numbers(self) -> bool:
        """Whether these are numbers of rows."""
        return self.memory is None and self.plan is None


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """An operator whose rows come from tables in memory.

    Parameters
    ----------
    op
        The operator.
    inputs
        Its inputs.
    tables
        The numbers of the tables below.
    columns
        The columns as expressions over those of the tables. Columns of other forms are left out.
    added
        The number of the table of row numbers that the operator adds; None if it adds none.
    """

    op: Operator
    inputs: tuple[Joined, ...]
    tables: tuple[int, ...]
    columns: dict[str, Expr]
    added: int | None = None

    def expression(self, expr: Expr) -> Expr:
        """An expression over the operator's columns as one over the columns of the tables.

        Raises
        ------
        NotJoined
            If it reads a column, or calls a function, that has no such form.
        """
        made = _expression(expr, self.columns)
        if made is None:
            raise NotJoined
        return made


def _expression(expr: Expr, columns: dict[str, Expr]) -> Expr | None:
    if isinstance(expr, Column):
        return columns.get(expr.name)
    names = roots(expr)
    if not names or not names <= columns.keys() or may_raise(expr) or not is_cheap(expr):
        return None
    if any(is_costly_call(node) and not _is_lookup(node) for node in walk(expr)):
        return None
    if not all(isinstance(node, (Column, Literal, Values, Call)) for node in walk(expr)):
        return None
    return substitute(expr, columns)


def _is_lookup(node: Expr) -> bool:
    """Whether a function finds values by numbers, such as the texts of categories by their codes."""
    return isinstance(node, Call) and node.function == "map_values" and dtype_of(node.args[0]).is_integer()


def joined_tables(base: Operator) -> tuple[Joined, list[Table]]:
    """The tables in memory below a plan with at least one join, or with a sort.

    Raises
    ------
    NotJoined
        If the plan has neither, or another form.
    """
    below, sorts = base, False
    while isinstance(below, (Project, RowNumber, Sort, Filter)):
        sorts = sorts or isinstance(below, Sort)
        below = below.input
    if not isinstance(below, Join) and not (sorts and isinstance(below, Scan)):
        raise NotJoined
    tables: list[Table] = []
    return _joined(base, tables, 0), tables


def _joined(op: Operator, tables: list[Table], depth: int) -> Joined:
    if depth > _MOST_OPERATORS:
        raise NotJoined
    if isinstance(op, Scan):
        return _scanned(op, tables)
    if not isinstance(op, (Project, RowNumber, Sort, Filter, Join)):
        raise NotJoined
    if isinstance(op, Join) and op.how not in ("inner", "left", "right", "outer"):
        raise NotJoined
    if isinstance(op, Join):
        inputs = _sides(op, tables, depth + 1)
    else:
        inputs = tuple(_joined(below, tables, depth + 1) for below in op.inputs)
    numbers = tuple(number for one in inputs for number in one.tables)
    columns = inputs[0].columns
    if isinstance(op, Project):
        made = ((name, _expression(expr, columns)) for name, expr in op.columns)
        return Joined(op, inputs, numbers, {name: expr for name, expr in made if expr is not None})
    if isinstance(op, RowNumber):
        number = _numbered(tables)
        column = Column(next(iter(tables[number].columns)), pl.UInt32())
        return Joined(op, inputs, (*numbers, number), {**columns, op.name: column}, number)
    if isinstance(op, Join):
        columns = {**columns, **inputs[1].columns}
    return Joined(op, inputs, numbers, columns)


def _sides(op: Join, tables: list[Table], depth: int) -> tuple[Joined, ...]:
    """The sides of a join, of which one may be computed first."""
    found: list[Joined] = []
    for side, other in ((op.left, op.right), (op.right, op.left)):
        known = len(tables)
        try:
            found.append(_joined(side, tables, depth))
        except NotJoined:
            del tables[known:]
            if any(table.plan is not None for table in tables) or estimated_rows(side) > estimated_rows(other):
                raise
            found.append(_computed(side, tables))
    return tuple(found)


def _computed(op: Operator, tables: list[Table]) -> Joined:
    """A table that is computed first."""
    if any(isinstance(below, Scan) and isinstance(below.source, FileSource) for below in topological(op)):
        raise NotJoined  # a plan reads only those rows and columns of files that it needs
    number = len(tables)
    names = {name: f"{number}.{name}" for name in schema(op)}
    tables.append(Table({made: name for name, made in names.items()}, plan=op))
    return Joined(op, (), (number,), {name: Column(names[name], dtype) for name, dtype in schema(op).items()})


def _scanned(op: Scan, tables: list[Table]) -> Joined:
    source = op.source
    memory = memory_of(source)
    if op.predicate is not None or memory is None or not isinstance(source, MemorySource):
        raise NotJoined
    number = len(tables)
    names = {name: f"{number}.{name}" for name in op.columns}
    tables.append(Table({made: name for name, made in names.items()}, memory, source))
    dtypes = dict(source.columns)
    columns: dict[str, Expr] = {name: Column(made, dtypes[name]) for name, made in names.items()}
    scanned = Joined(op, (), (number,), columns)
    if op.row_number is None:
        return scanned
    added = _numbered(tables)
    columns[op.row_number] = Column(next(iter(tables[added].columns)), pl.UInt32())
    return replace(scanned, tables=(number, added), added=added)


def _numbered(tables: list[Table]) -> int:
    number = len(tables)
    tables.append(Table({f"{number}.": None}))
    return number
