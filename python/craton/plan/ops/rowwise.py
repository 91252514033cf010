"""Scans, and the operators that output one row for each input row: projections, windows, row numbers, attached columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, WindowCall, dtype_of, has_window, is_cheap, roots, substitute
from craton.plan.lengths import is_long
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
    """Rows of a source, in the order in which they are stored.

    Parameters
    ----------
    columns
        The columns to read, in order.
    predicate
        Only rows for which it is true are produced; ``None`` keeps all.
    row_number
        Name of an extra first column (UInt32): the row's position in the source, counted before the predicate.
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
        return (() if self.predicate is None else (self.predicate,),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        return replace(self, predicate=expressions[0][0]) if expressions[0] else self

    def derive_schema(self) -> Schema:
        dtypes = dict(self.source.columns)
        head: Schema = {self.row_number: pl.UInt32()} if self.row_number else {}
        return head | {name: dtypes[name] for name in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return ()

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        row_number = self.row_number if self.row_number in needed else None
        reads = needed | (roots(self.predicate) if self.predicate is not None else set())
        columns = tuple(name for name in self.columns if name in reads)
        if not columns and row_number is None:
            columns = self.columns[:1]  # counting rows needs some column
        return replace(self, columns=columns, row_number=row_number)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.STORED

    @property
    def detail(self) -> str:
        text = f"{self.source!r}: {listed(self.columns)}"
        if self.row_number:
            text += f", rows numbered as {self.row_number}"
        return text if self.predicate is None else f"{text} where {self.predicate!r}"


@dataclass(frozen=True, slots=True, eq=False)
class Project(Operator):
    """One output column for each expression, row by row, in the input's order."""

    input: Operator
    columns: tuple[Named, ...]

    def _check(self) -> None:
        check_unique([name for name, _ in self.columns])

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        return (tuple(expr for _, expr in self.columns),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        (below,) = inputs or self.inputs
        return Project(below, _named(self.columns, expressions[0]))

    def derive_schema(self) -> Schema:
        return {name: dtype_of(expr) for name, expr in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (columns_read([expr for _, expr in needed_or_one(self.columns, needed)]),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The needed columns; the input itself if it has exactly these."""
        columns = needed_or_one(self.columns, needed)
        same = [(name, Column(name, dtype)) for name, dtype in schema(inputs[0]).items()] == list(columns)
        return inputs[0] if same else Project(inputs[0], columns)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def keeps_rows(self) -> bool:
        return True

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Into the input, over its columns, unless that would call a Python function twice or repeat a long expression."""
        read = dict(self.columns)
        if not all(is_cheap(read[name]) for name in roots(predicate)):
            return ()
        moved = substitute(predicate, read)
        return () if is_long([moved]) else ((0, moved),)

    @property
    def detail(self) -> str:
        return renamed(self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Window(Operator):
    """The input's columns, and further columns whose values depend on other rows; in the input's order.

    The calls are independent of each other and read the input's columns only: a window of a window takes two operators.

    Parameters
    ----------
    columns
        The new columns: names that the input does not have, and window calls.
    """

    input: Operator
    columns: tuple[tuple[str, WindowCall], ...]

    def _check(self) -> None:
        check_unique([*schema(self.input), *(name for name, _ in self.columns)])
        if not self.columns:
            raise PlanError("a Window needs at least one call")

    def _check_windows(self, expr: Expr) -> None:
        if not isinstance(expr, WindowCall):
            raise PlanError(f"a Window computes window calls only, not {expr!r}")
        if any(map(has_window, expr.children)):
            raise PlanError(f"a window of a window takes two Window operators: {expr!r}")

    @property
    def calls(self) -> tuple[WindowCall, ...]:
        return tuple(call for _, call in self.columns)

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        return (self.calls,)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        (below,) = inputs or self.inputs
        return Window(below, _named(self.columns, expressions[0]))  # type: ignore[arg-type]

    def derive_schema(self) -> Schema:
        return schema(self.input) | {name: call.dtype for name, call in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        own = {name for name, _ in self.columns}
        return ((needed - own) | columns_read([call for name, call in self.columns if name in needed]),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The needed calls; the input itself if no call is needed."""
        columns = tuple(column for column in self.columns if column[0] in needed)
        return Window(inputs[0], columns) if columns else inputs[0]

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        return any(call.ordered for call in self.calls)

    @property
    def detail(self) -> str:
        return renamed(self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class RowNumber(Operator):
    """The input with an extra first column: the position of each row, counted from 0 (UInt32)."""

    input: Operator
    name: str

    def _check(self) -> None:
        check_unique([self.name, *schema(self.input)])

    def derive_schema(self) -> Schema:
        return {self.name: pl.UInt32(), **schema(self.input)}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed - {self.name},)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The input itself if the number is not needed."""
        return RowNumber(inputs[0], self.name) if self.name in needed else inputs[0]

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def detail(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Attach(Operator):
    """The input with columns of a source in memory added by position, in the input's order.

    Both must have the same number of rows, or the run fails.
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
        dtypes = dict(self.source.columns)
        return schema(self.input) | {name: dtypes[name] for name in self.columns}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed - set(self.columns),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """The needed columns of both; the input itself if no attached column is needed."""
        columns = tuple(name for name in self.columns if name in needed)
        return Attach(inputs[0], self.source, columns) if columns else inputs[0]

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def detail(self) -> str:
        return f"{listed(self.columns)} of {self.source!r}"
