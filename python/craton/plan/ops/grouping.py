"""Sorts and aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from craton.errors import PlanError
from craton.plan.expr import Column, Expr, Options, dtype_of, is_cheap, roots, substitute
from craton.plan.node import Node
from craton.plan.ops.selecting import of_whole_groups
from craton.plan.protocol import (
    Expressions,
    Named,
    Operator,
    RowOrder,
    Schema,
    check_unique,
    columns_read,
    needed_or_one,
    renamed,
    schema,
)
from craton.plan.registry import FUNCTIONS, Kind, function
from craton.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SortKey(Node):
    """One key of a sort."""

    expr: Expr
    descending: bool = False
    nulls_last: bool = True

    def __repr__(self) -> str:
        return f"{self.expr!r}{' desc' if self.descending else ''}{'' if self.nulls_last else ' nulls first'}"


@dataclass(frozen=True, slots=True, eq=False)
class NumpySort(Node):
    """NumPy's sort of one key, which decides the order of rows with equal keys. It depends on the number of rows and on the processor.

    Parameters
    ----------
    algorithm
        ``quicksort`` or ``heapsort``.
    dtype
        NumPy's name for the dtype of the values, such as ``int8`` or ``datetime64[us]``.
    plain
        Whether the values are an array of NumPy, in which a missing value is NaN, which makes integers floats, and booleans objects.
    checked
        Whether rows stay as they are if their keys are in order already.
    """

    algorithm: str
    dtype: str
    plain: bool = False
    checked: bool = False

    def __repr__(self) -> str:
        return self.algorithm


@dataclass(frozen=True, slots=True, eq=False)
class Sort(Operator):
    """The input's rows sorted by the keys.

    Parameters
    ----------
    input, keys
        The rows and the keys.
    ties
        The sort that decides the order of rows with equal keys; None: they keep their order.
    """

    input: Operator
    keys: tuple[SortKey, ...]
    ties: NumpySort | None = None

    def _check(self) -> None:
        if not self.keys:
            raise PlanError("a sort needs at least one key")
        if self.ties is not None and len(self.keys) > 1:
            raise PlanError("a sort by several keys is stable")

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        return (tuple(key.expr for key in self.keys),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        (below,) = inputs or self.inputs
        keys = tuple(replace(key, expr=expr) for key, expr in zip(self.keys, expressions[0], strict=True))
        return replace(self, input=below, keys=keys)

    def derive_schema(self) -> Schema:
        return schema(self.input)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        return (needed | columns_read([key.expr for key in self.keys]),)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.SORTED

    @property
    def keeps_rows(self) -> bool:
        return True

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        return ((0, predicate),) if self.ties is None else ()  # fewer rows may be in another order

    @property
    def detail(self) -> str:
        return ", ".join(map(repr, self.keys)) + (f", {self.ties!r}" if self.ties else "")


@dataclass(frozen=True, slots=True, eq=False)
class AggregateCall(Node):
    """An aggregate as data: a function of expressions over the rows of a group."""

    function: str
    args: tuple[Expr, ...]
    dtype: pl.DataType
    options: Options = ()

    def _validate(self) -> None:
        function(self.function, (Kind.AGGREGATE,)).check(self)

    @property
    def ordered(self) -> bool:
        """Whether the value depends on the order of the rows."""
        return FUNCTIONS[self.function].ordered

    def option(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    def __repr__(self) -> str:
        named = [f"{key}={value!r}" for key, value in self.options]
        return f"{self.function}({', '.join([*map(repr, self.args), *named])})"


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Operator):
    """One row for each group of equal keys (null is a key): the keys, then the aggregates. Without keys, one row.

    Row order: by the keys ascending, nulls last, if ``sort``; else by each group's first row.

    Parameters
    ----------
    rare
        The name of an integer key column whose values are almost unique, where the aggregates combine partial aggregates:
        a row whose value of it occurs once is a group already, and its other keys need not be compared.
    """

    input: Operator
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    sort: bool = True
    rare: str | None = None

    def _check(self) -> None:
        check_unique([name for name, _ in self.keys] + [name for name, _ in self.aggregates])
        if self.rare is not None and not isinstance(dict(self.keys).get(self.rare), Column):
            raise PlanError(f"rare must name a key that is a column, not {self.rare!r}")

    @property
    def expressions(self) -> tuple[tuple[Expr, ...], ...]:
        return ((*(expr for _, expr in self.keys), *(arg for _, call in self.aggregates for arg in call.args)),)

    def with_expressions(self, expressions: Expressions, inputs: tuple[Operator, ...] | None = None) -> Operator:
        (below,) = inputs or self.inputs
        given = iter(expressions[0])
        keys = tuple((name, next(given)) for name, _ in self.keys)
        calls = tuple(
            (name, replace(call, args=tuple(next(given) for _ in call.args))) for name, call in self.aggregates
        )
        rare = self.rare if isinstance(dict(keys).get(self.rare or ""), Column) else None
        return Aggregate(below, keys, calls, self.sort, rare)

    def derive_schema(self) -> Schema:
        keys: Schema = {name: dtype_of(expr) for name, expr in self.keys}
        return keys | {name: call.dtype for name, call in self.aggregates}

    def _needed(self, needed: set[str]) -> tuple[tuple[str, AggregateCall], ...]:
        if self.keys:
            return tuple((name, call) for name, call in self.aggregates if name in needed)
        return needed_or_one(self.aggregates, needed)

    def required(self, needed: set[str]) -> tuple[set[str], ...]:
        read = [arg for _, call in self._needed(needed) for arg in call.args]
        return (columns_read([expr for _, expr in self.keys] + read),)

    def narrowed(self, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
        return Aggregate(inputs[0], self.keys, self._needed(needed), self.sort, self.rare)

    @property
    def row_order(self) -> RowOrder:
        return RowOrder.GROUPS if self.sort or not self.keys else RowOrder.FIRST_ROWS

    @property
    def reads_order(self) -> bool:
        return any(call.ordered for _, call in self.aggregates)

    def below(self, predicate: Expr) -> tuple[tuple[int, Expr], ...]:
        """Into the input, if the predicate keeps or drops whole groups."""
        keys = dict(self.keys)
        found = of_whole_groups(predicate, {name: dtype_of(expr) for name, expr in self.keys})
        if not found or not all(is_cheap(keys[name]) for name in roots(predicate)):
            return ()
        return ((0, substitute(predicate, keys)),)

    @property
    def detail(self) -> str:
        calls = ", ".join(f"{name} = {call!r}" for name, call in self.aggregates)
        order = "" if not self.keys else (", sorted" if self.sort else ", by first row")
        rare = f", {self.rare} almost unique" if self.rare is not None else ""
        return f"{calls or 'nothing'} by {renamed(self.keys) or 'all rows'}{rare}{order}"
