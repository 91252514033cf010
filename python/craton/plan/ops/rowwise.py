"""Operators that give a row for each row: scans, projections, windows, and what is put beside rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, WindowCall, dtype_of, has_window, is_cheap, roots, substitute
from craton.plan.protocol import (
    Expressions,
    Named,
    Operator,
    RowOrder,
    Schema,
    check_unique,
    columns_read,
    listed,
    needed_or_one,
    renamed,
    schema,
)
from craton.plan.sources import Source
from craton.records import dataclass


def _named(columns: Sequence[tuple[str, Any]], exprs: Sequence[Expr]) -> tuple[Named, ...]:
    return tuple((name, expr) for (name, _), expr in zip(columns, exprs, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Operator):
    """Rows of a source, in file order.

    Parameters
    ----------
    columns
        The columns that are read, in order.
    predicate
        Rows that fail it are not produced; ``None`` keeps all.
    row_number
        Name of an extra first column (UInt32): the row's position in the source before the predicate.
    """

    source: Source
    columns: tuple[str, ...]
    predicate: Expr | None = None
    row_number: str | None = None

    def _check(self) -> None:
        known = {name for name, _ in self.source.columns}
        read = set(self.columns) | (set() if self.predicate is None else roots(self.predicate))
        if unknown := sorted(read - known):
            raise PlanError(f"{self.source!r} has no columns {unknown}; it has {sorted(known)}")

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        """The predicate, if there is one."""
        return (() if self.predicate is None else (self.predicate,),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        """The scan with another predicate."""
        return replace(self, predicate=expressions[0][0]) if expressions[0] else self

    def derive_schema(self) -> Schema:
        """The row number, then the columns."""
        dtypes = dict(self.source.columns)
        head: Schema = {self.row_number: pl.UInt32()} if self.row_number else {}
        return head | {name: dtypes[name] for name in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """Nothing: it has no inputs."""
        return ()

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """A scan of what is needed, and of what the predicate reads."""
        row_number = self.row_number if self.row_number in needed else None
        reads = needed | (roots(self.predicate) if self.predicate is not None else set())
        columns = tuple(name for name in self.columns if name in reads)
        if not columns and row_number is None:
            columns = self.columns[:1]  # a row count needs some column
        return replace(self, columns=columns, row_number=row_number)

    @property
    def row_order(self) -> RowOrder:
        """As the source has them."""
        return RowOrder.STORED

    @property
    def detail(self) -> str:
        """The source, the columns, the predicate."""
        text = f"{self.source!r}: {listed(self.columns)}"
        if self.row_number:
            text += f", rows numbered as {self.row_number}"
        return text if self.predicate is None else f"{text} where {self.predicate!r}"


@dataclass(frozen=True, slots=True, eq=False)
class Project(Operator):
    """One output column an expression, a row for a row, in the input's order."""

    input: Operator
    columns: tuple[Named, ...]

    def _check(self) -> None:
        check_unique([name for name, _ in self.columns])

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        """The columns."""
        return (tuple(expr for _, expr in self.columns),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        """Columns of the same names."""
        (below,) = inputs or self.inputs
        return Project(below, _named(self.columns, expressions[0]))

    def derive_schema(self) -> Schema:
        """The columns."""
        return {name: dtype_of(expr) for name, expr in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """What the needed columns read."""
        return (columns_read([expr for _, expr in needed_or_one(self.columns, needed)]),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The needed columns; the input if they are all that it has."""
        columns = needed_or_one(self.columns, needed)
        same = [(name, Column(name, dtype)) for name, dtype in schema(inputs[0]).items()] == list(columns)
        return inputs[0] if same else Project(inputs[0], columns)

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """The same over the input's columns, unless that would call a function of Python's twice."""
        read = dict(self.columns)
        if not all(is_cheap(read[name]) for name in roots(predicate)):
            return ()
        return ((0, substitute(predicate, read)),)

    @property
    def detail(self) -> str:
        """The columns."""
        return renamed(self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Window(Operator):
    """The input's columns and, beside them, values that depend on other rows; in the input's order.

    The calls are independent of each other, and read columns of the input only: a window of a window is two operators.

    Parameters
    ----------
    columns
        Names that the input does not have, and what is computed.
    """

    input: Operator
    columns: tuple[tuple[str, WindowCall], ...]

    def _check(self) -> None:
        check_unique([*schema(self.input), *(name for name, _ in self.columns)])
        if not self.columns:
            raise PlanError("a window operator computes something")

    def _check_windows(self, expr: Expr) -> None:
        if not isinstance(expr, WindowCall):
            raise PlanError(f"a Window computes window calls, not {expr!r}")
        if any(map(has_window, expr.children)):
            raise PlanError(f"a window of a window is two operators: {expr!r}")

    @property
    def calls(self) -> tuple[WindowCall, ...]:
        """What is computed."""
        return tuple(call for _, call in self.columns)

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        """The calls."""
        return (self.calls,)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        """Columns of the same names."""
        (below,) = inputs or self.inputs
        return Window(below, _named(self.columns, expressions[0]))  # type: ignore[arg-type]

    def derive_schema(self) -> Schema:
        """The input's columns, then the windows."""
        return schema(self.input) | {name: call.dtype for name, call in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """What is needed of the input, and what the needed calls read."""
        own = {name for name, _ in self.columns}
        return ((needed - own) | columns_read([call for name, call in self.columns if name in needed]),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The needed calls; the input if there are none."""
        columns = tuple(column for column in self.columns if column[0] in needed)
        return Window(inputs[0], columns) if columns else inputs[0]

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        """Whether a call does."""
        return any(call.ordered for call in self.calls)

    @property
    def detail(self) -> str:
        """The calls."""
        return renamed(self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class RowNumber(Operator):
    """The input with an extra first column: the position of each row, from 0 (UInt32)."""

    input: Operator
    name: str

    def _check(self) -> None:
        check_unique([self.name, *schema(self.input)])

    def derive_schema(self) -> Schema:
        """The number, then the input's columns."""
        return {self.name: pl.UInt32(), **schema(self.input)}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """All but the number."""
        return (needed - {self.name},)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The input where nobody reads the number."""
        return RowNumber(inputs[0], self.name) if self.name in needed else inputs[0]

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        """Always: the number is the row's place."""
        return True

    @property
    def detail(self) -> str:
        """The number's name."""
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Attach(Operator):
    """The input with columns of data in memory beside it, row by row, in the input's order.

    Both must have the same number of rows; a run fails otherwise.
    """

    input: Operator
    source: Source
    columns: tuple[str, ...]

    def _check(self) -> None:
        check_unique([*schema(self.input), *self.columns])
        known = {name for name, _ in self.source.columns}
        if unknown := [name for name in self.columns if name not in known]:
            raise PlanError(f"{self.source!r} has no columns {unknown}; it has {sorted(known)}")

    def derive_schema(self) -> Schema:
        """The input's columns, then those beside it."""
        dtypes = dict(self.source.columns)
        return schema(self.input) | {name: dtypes[name] for name in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """All but what is attached."""
        return (needed - set(self.columns),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """What is needed of both; the input where nothing is of what is attached."""
        columns = tuple(name for name in self.columns if name in needed)
        return Attach(inputs[0], self.source, columns) if columns else inputs[0]

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        """Always: rows are attached by their place."""
        return True

    @property
    def detail(self) -> str:
        """What is attached."""
        return f"{listed(self.columns)} of {self.source!r}"
