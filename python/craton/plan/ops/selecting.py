"""Operators that keep some of the rows."""

from __future__ import annotations

from typing import Literal

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Expr, dtype_of, has_one_form, roots
from craton.plan.protocol import Expressions, Operator, RowOrder, Schema, check_known, listed, schema
from craton.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Operator):
    """The rows where the predicate is true (not null), in the input's order."""

    input: Operator
    predicate: Expr

    def _check(self) -> None:
        if dtype_of(self.predicate) != pl.Boolean():
            raise PlanError(f"a predicate is boolean, not {dtype_of(self.predicate)}")

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        """The predicate."""
        return ((self.predicate,),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        """Another predicate."""
        (below,) = inputs or self.inputs
        return Filter(below, expressions[0][0])

    def derive_schema(self) -> Schema:
        """The input's."""
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """What is needed, and what the predicate reads."""
        return (needed | roots(self.predicate),)

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Always: which filter is first does not matter."""
        return ((0, predicate),)

    @property
    def detail(self) -> str:
        """The predicate."""
        return repr(self.predicate)


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Operator):
    """``length`` rows from ``offset`` (negative: counted from the end); ``None`` is to the end."""

    input: Operator
    offset: int
    length: int | None

    def _check(self) -> None:
        if self.length is not None and self.length < 0:
            raise PlanError("a slice's length is not negative")

    def derive_schema(self) -> Schema:
        """The input's."""
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """What is needed."""
        return (needed,)

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        """Always: rows are chosen by their place."""
        return True

    @property
    def detail(self) -> str:
        """How many rows, and from where."""
        return f"{'all' if self.length is None else self.length} rows from {self.offset}"


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Operator):
    """One row for each combination of ``subset``'s values: the first or last, or none of those that have a double.

    An empty ``subset`` is all columns. ``any`` takes whichever row; in the input's order still.
    """

    input: Operator
    subset: tuple[str, ...]
    keep: Literal["first", "last", "none", "any"] = "first"

    def _check(self) -> None:
        check_known(self.input, self.subset)

    def derive_schema(self) -> Schema:
        """The input's."""
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        """What is needed, and what decides."""
        return (needed | set(self.subset or schema(self.input)),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        """By the same columns."""
        return Distinct(inputs[0], self.subset or tuple(schema(self.input)), self.keep)

    @property
    def row_order(self) -> RowOrder:
        """The input's."""
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        """Where the first or the last of several is asked for."""
        return self.keep in ("first", "last")

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Where rows that are doubles of each other pass or fail together."""
        return of_whole_groups(predicate, {name: schema(self)[name] for name in self.subset})

    @property
    def detail(self) -> str:
        """Which row of which columns."""
        return f"{self.keep} of {listed(self.subset)}"


def of_whole_groups(predicate: Expr, keys: Schema) -> tuple[tuple[int, Expr], ...]:
    """A predicate that keeps or drops whole groups of rows that agree in keys.

    Values that are equal must look the same to it: a float key may hold two zeros.
    """
    read = roots(predicate)
    if read and read <= keys.keys() and all(has_one_form(keys[name]) for name in read):
        return ((0, predicate),)
    return ()
