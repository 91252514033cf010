"""Operators that keep some of the rows, and the one that repeats them."""

from __future__ import annotations

from typing import Literal

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Expr, dtype_of, has_unique_representation, roots
from craton.plan.protocol import Expressions, Operator, RowOrder, Schema, check_known, listed, schema
from craton.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Operator):
    """The rows where the predicate is true (not null), in the input's order."""

    input: Operator
    predicate: Expr

    def _check(self) -> None:
        if dtype_of(self.predicate) != pl.Boolean():
            raise PlanError(f"a predicate must be boolean, not {dtype_of(self.predicate)}")

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        return ((self.predicate,),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        (below,) = inputs or self.inputs
        return Filter(below, expressions[0][0])

    def derive_schema(self) -> Schema:
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed | roots(self.predicate),)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Always into the input: filters commute."""
        return ((0, predicate),)

    @property
    def detail(self) -> str:
        return repr(self.predicate)


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Operator):
    """``length`` rows from ``offset``; a negative offset counts from the end, a length of ``None`` means to the end."""

    input: Operator
    offset: int
    length: int | None

    def _check(self) -> None:
        if self.length is not None and self.length < 0:
            raise PlanError(f"a slice's length must not be negative: {self.length}")

    def derive_schema(self) -> Schema:
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed,)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def detail(self) -> str:
        return f"{'all' if self.length is None else self.length} rows from {self.offset}"


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Operator):
    """One row for each combination of ``subset``'s values: the first or the last; or, for ``none``, only rows without duplicates.

    An empty ``subset`` means all columns. ``any`` keeps an arbitrary row of each combination; the output is in the input's
    order even then.
    """

    input: Operator
    subset: tuple[str, ...]
    keep: Literal["first", "last", "none", "any"] = "first"

    def _check(self) -> None:
        check_known(self.input, self.subset)

    def derive_schema(self) -> Schema:
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed | set(self.subset or schema(self.input)),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        return Distinct(inputs[0], self.subset or tuple(schema(self.input)), self.keep)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def reads_order(self) -> bool:
        return self.keep in ("first", "last")

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Into the input, if rows that are duplicates of each other pass or fail the predicate together."""
        return of_whole_groups(predicate, {name: schema(self)[name] for name in self.subset})

    @property
    def detail(self) -> str:
        return f"{self.keep} of {listed(self.subset)}"


@dataclass(frozen=True, slots=True, eq=False)
class Explode(Operator):
    """A row for each item of a column of lists, in the input's order; the other columns are repeated.

    A null and an empty list become one row, in which the item is null.
    """

    input: Operator
    lists: str

    def _check(self) -> None:
        check_known(self.input, (self.lists,))
        if not isinstance(schema(self.input)[self.lists], pl.List):
            raise PlanError(f"{self.lists!r} must have lists, not {schema(self.input)[self.lists]}")

    def derive_schema(self) -> Schema:
        inner = schema(self.input)
        return inner | {self.lists: inner[self.lists].inner}  # type: ignore[attr-defined]

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed | {self.lists},)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT

    @property
    def keeps_rows(self) -> bool:
        return True

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Into the input, if the predicate does not read the items."""
        read = roots(predicate)
        return ((0, predicate),) if read and self.lists not in read else ()

    @property
    def detail(self) -> str:
        return self.lists


def of_whole_groups(predicate: Expr, keys: Schema) -> tuple[tuple[int, Expr], ...]:
    """A predicate that keeps or drops whole groups, as an operator's ``below``; empty if it could split a group.

    Equal keys must be indistinguishable to the predicate. Float keys are not: 0.0 equals -0.0, and a division by them differs.
    """
    read = roots(predicate)
    if read and read <= keys.keys() and all(has_unique_representation(keys[name]) for name in read):
        return ((0, predicate),)
    return ()
