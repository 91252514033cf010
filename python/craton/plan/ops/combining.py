"""Operators that combine rows of several inputs, and unpivot, which stacks columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, roots
from craton.plan.ops.rowwise import Project
from craton.plan.protocol import (
    Expressions,
    Operator,
    RowOrder,
    Schema,
    check_known,
    check_unique,
    columns_read,
    listed,
    schema,
)
from craton.records import dataclass

JoinHow = Literal["inner", "left", "right", "outer", "semi", "anti", "cross"]


@dataclass(frozen=True, slots=True, eq=False)
class Join(Operator):
    """Pairs of rows of two inputs with equal keys: the left's columns, then the right's (left only for semi, anti).

    Row order: that of the left rows, and among the matches of a left row that of the right rows; for ``right`` the other way
    round; for ``outer`` the left rows first, then the right rows without a match.

    Parameters
    ----------
    left_on, right_on
        Expressions over each side, the same number on both.
    nulls_equal
        Whether null keys match null keys.
    """

    left: Operator
    right: Operator
    how: JoinHow
    left_on: tuple[Expr, ...]
    right_on: tuple[Expr, ...]
    nulls_equal: bool = True

    def _check(self) -> None:
        if len(self.left_on) != len(self.right_on):
            keys = f"{len(self.left_on)} on the left, {len(self.right_on)} on the right"
            raise PlanError(f"a join needs the same number of keys on both sides, not {keys}")
        if (self.how == "cross") != (not self.left_on):
            raise PlanError(
                f"a cross join has no keys, every other join has some: {self.how} with {len(self.left_on)} keys"
            )
        if not self.left_only:
            check_unique([*schema(self.left), *schema(self.right)])

    @property
    def left_only(self) -> bool:
        """Whether the output is left rows only: the right side decides which of them to keep."""
        return self.how in ("semi", "anti")

    @property
    def matches_row_numbers(self) -> bool:
        """Whether the right key is the number of the right row, so that each left row has at most one match."""
        (key,), right = self.right_on[:1] or (None,), self.right
        return isinstance(key, Column) and key.name in (
            getattr(right, "name", None),
            getattr(right, "row_number", None),
        )

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        return (self.left_on, self.right_on)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        left, right = inputs or self.inputs
        left_on, right_on = map(tuple, expressions)
        return replace(self, left=left, right=right, left_on=left_on, right_on=right_on)

    def derive_schema(self) -> Schema:
        return schema(self.left) if self.left_only else schema(self.left) | schema(self.right)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        left, right = set(schema(self.left)), set(schema(self.right))
        return ((needed & left) | columns_read(self.left_on), (needed & right) | columns_read(self.right_on))

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.INPUT if self.left_only else RowOrder.SIDES

    def needs_order(self, observed: bool) -> tuple[bool, ...]:
        """Both inputs if the output's order is observed; never the right side of a semi or anti join."""
        return (observed, observed and not self.left_only)

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Into the side whose columns the predicate reads, unless the join adds rows of nulls to that side."""
        names = roots(predicate)
        if names and names <= schema(self.left).keys() and self.how in ("inner", "left", "semi", "anti", "cross"):
            return ((0, predicate),)
        if names and names <= schema(self.right).keys() and self.how in ("inner", "right", "cross"):
            return ((1, predicate),)
        return ()

    @property
    def detail(self) -> str:
        keys = ", ".join(f"{a!r} = {b!r}" for a, b in zip(self.left_on, self.right_on, strict=True))
        return f"{self.how} on {keys}" if keys else self.how


@dataclass(frozen=True, slots=True, eq=False)
class Union(Operator):
    """The rows of the inputs, one after the other; all have the same schema."""

    parts: tuple[Operator, ...]

    def _check(self) -> None:
        if not self.parts:
            raise PlanError("a union needs at least one input")
        first = schema(self.parts[0])
        for part in self.parts[1:]:
            if list(schema(part).items()) != list(first.items()):
                raise PlanError(f"the inputs of a union must have one schema, not {first} and {schema(part)}")

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Operator:
        return self if all(new is old for new, old in zip(inputs, self.parts, strict=True)) else Union(inputs)

    def derive_schema(self) -> Schema:
        return schema(self.parts[0])

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        names = needed & set(schema(self)) or set(tuple(schema(self))[:1])
        return (names,) * len(self.parts)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        names = tuple(name for name in schema(self) if name in needed) or tuple(schema(self))[:1]
        return Union(tuple(_selected(part, names) for part in inputs))

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.PARTS

    @property
    def keeps_rows(self) -> bool:
        return True

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        return tuple((number, predicate) for number in range(len(self.parts)))

    @property
    def detail(self) -> str:
        return f"{len(self.parts)} inputs"


def _selected(op: Operator, names: tuple[str, ...]) -> Operator:
    if tuple(schema(op)) == names:
        return op
    return Project(op, tuple((name, op.column(name)) for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class Unpivot(Operator):
    """The input's rows once for each column of ``values``: the ``keep`` columns, the column's number, its value.

    The row order is that of the columns, and within a column that of the input.
    """

    input: Operator
    keep: tuple[str, ...]
    values: tuple[str, ...]
    variable: str
    value: str

    def _check(self) -> None:
        check_known(self.input, (*self.keep, *self.values))
        check_unique([*self.keep, self.variable, self.value])

    def derive_schema(self) -> Schema:
        inner = schema(self.input)
        kept = {name: inner[name] for name in self.keep}
        return kept | {self.variable: pl.UInt32(), self.value: inner[self.values[0]]}

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        values = set(self.values) if self.value in needed else {self.values[0]}
        return ((needed & set(self.keep)) | values,)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        keep = tuple(name for name in self.keep if name in needed)
        values = self.values if self.value in needed else (self.values[0],) * len(self.values)
        return replace(self, input=inputs[0], keep=keep, values=values)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.PARTS

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        read = roots(predicate)
        return ((0, predicate),) if read and read <= set(self.keep) else ()

    @property
    def detail(self) -> str:
        return f"{listed(self.values)} keeping {listed(self.keep)}"
