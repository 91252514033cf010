"""How functions are computed of tables in tiles: phases of aggregates, and strategies of aggregates and windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from craton.plan.expr import Call, Column, Expr, Options, WindowCall, dtype_of
from craton.plan.names import hidden_name
from craton.plan.operators import AggregateCall
from craton.plan.registry import FUNCTIONS, Kind, Strategy
from craton.records import dataclass

Spec = Call | WindowCall | AggregateCall
Named = tuple[str, Expr]
NamedCall = tuple[str, AggregateCall]
Step = tuple[str, Options]

INT, FLOAT, BOOL = pl.Int64(), pl.Float64(), pl.Boolean()


@dataclass(frozen=True, slots=True)
class Phases:
    """One aggregate in phases.

    Parameters
    ----------
    partial
        What is computed of a group's rows in each tile.
    before
        Given the keys: columns computed of the partial results of all tiles, row by row or over the rows of one group,
        before they are combined.
    combine
        What is computed of a group's partial results.
    final
        The aggregate, of what was combined.
    in_order
        Whether partial results have to come in the order of the tiles.
    keys
        What else rows are grouped by in each tile.
    """

    partial: tuple[NamedCall, ...]
    combine: tuple[NamedCall, ...]
    final: Expr
    before: Callable[[Sequence[Expr]], list[Named]] | None = None
    in_order: bool = False
    keys: tuple[Named, ...] = ()


def by_itself(call: AggregateCall, again: str | None = None) -> Phases:
    """Phases of a function whose partial results are combined by itself, or by another function."""
    part, total = hidden_name(), hidden_name()
    combine = AggregateCall(again or call.function, (Column(part, call.dtype),), call.dtype)
    return Phases(((part, call),), ((total, combine),), Column(total, call.dtype))


def counted(call: AggregateCall) -> Phases:
    """Phases of a count: counts are added."""
    return by_itself(call, "sum")


def the_value(call: AggregateCall) -> Expr:
    """Of a single row, an aggregate that is the row's value."""
    (arg,) = call.args
    return arg if dtype_of(arg) == call.dtype else Call("cast", (arg,), call.dtype)


def of_one_row(call: AggregateCall) -> Expr:
    """What an aggregate in phases comes to for one row: a row is the partial result of itself."""
    rule = FUNCTIONS[call.function].one_row
    if rule is None:
        raise NotImplementedError(f"no partial result of one row for {call.function}")
    value: Expr = rule(call)
    return value


def as_stated(value: pl.Expr, call: Spec) -> pl.Expr:
    """A value in the dtype that its call states, if that is not the usual one."""
    usual = FUNCTIONS[call.function].result.usual(tuple(map(dtype_of, call.args)))
    return value if usual == call.dtype else value.cast(call.dtype)


# ---- strategies ----


class EachRow(Strategy):
    """Row-wise: each tile by itself."""

    __slots__ = ()


class Combined(Strategy):
    """An aggregate: partial results of the tiles are combined."""

    __slots__ = ()


class Distinct(Strategy):
    """An aggregate of distinct values: equal values go to one tile, and the tiles' results are added."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Selected(Strategy):
    """An aggregate of the values at some places among the sorted ones: values go by ranges, and few ranges are sorted.

    Parameters
    ----------
    places
        Given the call and the number of values: the places, ascending, and the aggregate of the values there alone.
    """

    places: Callable[[AggregateCall, int], tuple[list[int], AggregateCall]]


class AllRows(Strategy):
    """All values of a group are needed at once; without groups, all rows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Running(Strategy):
    """A window that goes on from tile to tile.

    Parameters
    ----------
    total
        The aggregate of a tile.
    carry
        The windows by which the totals of all tiles, in their order, become what the tiles before come to; one after another.
    join
        The value, of the value within the tile and what was carried.
    """

    total: Callable[[WindowCall], AggregateCall]
    carry: tuple[Step, ...]
    join: Callable[[Expr, Column], Expr]


@dataclass(frozen=True, slots=True)
class Near(Strategy):
    """A window over a few rows beside its own.

    Parameters
    ----------
    before
        How many rows before its own it reads; less than 0: after.
    """

    before: int


class EqualValues(Strategy):
    """A window over the rows whose arguments are equal: those go to one tile."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Ranges(Strategy):
    """A rank: values go to tiles by ranges, and what is before a range is added.

    Parameters
    ----------
    distinct
        Whether distinct values before are counted, and not all values.
    """

    distinct: bool


class OneValue(Strategy):
    """A window that is an aggregate, over all rows: it is computed, and joined to the rows of each tile."""

    __slots__ = ()


class Keyed(Strategy):
    """A window over partitions: the rows of each partition go to one tile."""

    __slots__ = ()


def strategy_of(call: AggregateCall | WindowCall) -> Strategy:
    """How an aggregate or a window is computed of tiles."""
    if isinstance(call, WindowCall):
        if call.partition:
            return Keyed()
        if FUNCTIONS[call.function].kind is Kind.AGGREGATE:
            return OneValue()
    return FUNCTIONS[call.function].tiling(call)


def phases_of(call: AggregateCall) -> Phases | None:
    """The phases of an aggregate; None if it needs all rows of a group at once."""
    rule = FUNCTIONS[call.function].phases
    found: Phases | None = None if rule is None else rule(call)
    return found


def all_rows(call: Any) -> Strategy:
    """The strategy of functions that need all values at once."""
    return AllRows()


def by_phases(call: Any) -> Strategy:
    """The strategy of aggregates with phases, unless they have none for the dtype of this call."""
    return AllRows() if phases_of(call) is None else Combined()
