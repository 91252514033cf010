"""How functions are computed over tables in tiles: phases of aggregates, and strategies of aggregates and windows."""

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
    """An aggregate that is computed in phases: partial results of each tile are combined.

    Parameters
    ----------
    partial
        The aggregates of a group's rows in each tile.
    combine
        The aggregates of a group's partial results.
    final
        The value, as an expression of the combined results.
    before
        Given the group keys: columns to compute from the partial results of all tiles before they are combined, row by row
        or as windows over a group.
    in_order
        Whether partial results must be combined in the order of the tiles.
    keys
        Further keys by which the rows of each tile are grouped.
    """

    partial: tuple[NamedCall, ...]
    combine: tuple[NamedCall, ...]
    final: Expr
    before: Callable[[Sequence[Expr]], list[Named]] | None = None
    in_order: bool = False
    keys: tuple[Named, ...] = ()


def combined_by_itself(call: AggregateCall, again: str | None = None) -> Phases:
    """Phases of a function whose partial results are combined by the same function, or by ``again``."""
    part, total = hidden_name(), hidden_name()
    combine = AggregateCall(again or call.function, (Column(part, call.dtype),), call.dtype)
    return Phases(((part, call),), ((total, combine),), Column(total, call.dtype))


def counted(call: AggregateCall) -> Phases:
    """Phases of a count: counts are added."""
    return combined_by_itself(call, "sum")


def single_row_value(call: AggregateCall) -> Expr:
    """The ``one_row`` of aggregates that, for a single row, return its value."""
    (arg,) = call.args
    return arg if dtype_of(arg) == call.dtype else Call("cast", (arg,), call.dtype)


def single_row_result(call: AggregateCall) -> Expr:
    """The value of an aggregate for a single row, so that a row can be its own partial result."""
    rule = FUNCTIONS[call.function].one_row
    if rule is None:
        raise NotImplementedError(
            f"{call.function} has no partial result for a single row: `one_row` of its record is None"
        )
    value: Expr = rule(call)
    return value


def as_stated(value: pl.Expr, call: Spec) -> pl.Expr:
    """A value in the dtype that its call declares, if that is not the default."""
    usual = FUNCTIONS[call.function].result.usual(tuple(map(dtype_of, call.args)))
    return value if usual == call.dtype else value.cast(call.dtype)


# ---- strategies ----


class EachRow(Strategy):
    """A row-wise function: each tile is computed independently."""

    __slots__ = ()


class Combined(Strategy):
    """An aggregate whose partial results of the tiles are combined."""

    __slots__ = ()


class DistinctValues(Strategy):
    """An aggregate of distinct values: equal values are exchanged to one tile, and the tiles' results are added."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SelectedPositions(Strategy):
    """An aggregate of the values at a few sorted positions: values are exchanged by ranges, and only a few ranges are sorted.

    Parameters
    ----------
    positions
        Given the call and the number of values: the positions, ascending, and the aggregate of just the values there.
    """

    positions: Callable[[AggregateCall, int], tuple[list[int], AggregateCall]]


class AllRows(Strategy):
    """A function that needs all values of a group in one task; without groups, all rows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Running(Strategy):
    """A running window, computed as a prefix scan over tiles.

    Parameters
    ----------
    total
        The aggregate of each tile.
    carry
        The windows that turn the totals of all tiles, in order, into the prefix of each tile: the total of the tiles before
        it. They are applied one after another.
    join
        The value, given the value within the tile and the tile's prefix.
    """

    total: Callable[[WindowCall], AggregateCall]
    carry: tuple[Step, ...]
    join: Callable[[Expr, Column], Expr]


@dataclass(frozen=True, slots=True)
class Neighbours(Strategy):
    """A window that reads a fixed number of neighbouring rows.

    Parameters
    ----------
    before
        The number of rows before its own that it reads; a negative number: rows after its own.
    """

    before: int


class EqualValues(Strategy):
    """A window over the rows with equal arguments, which are exchanged to one tile."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RankByRange(Strategy):
    """A rank: values are exchanged by ranges, and each range's ranks are offset by the number of values in the ranges before.

    Parameters
    ----------
    distinct
        Whether distinct values are counted, as in a dense rank, and not all values.
    """

    distinct: bool


class OneValue(Strategy):
    """An aggregate of all rows as a window: it is computed once and joined to the rows of each tile."""

    __slots__ = ()


class HashPartitioned(Strategy):
    """A window with a partition: rows with equal partition keys are exchanged to one tile."""

    __slots__ = ()


def strategy_of(call: AggregateCall | WindowCall) -> Strategy:
    """How an aggregate or a window is computed over tiles."""
    if isinstance(call, WindowCall):
        if call.partition:
            return HashPartitioned()
        if FUNCTIONS[call.function].kind is Kind.AGGREGATE:
            return OneValue()
    return FUNCTIONS[call.function].tiling(call)


def phases_of(call: AggregateCall) -> Phases | None:
    """The phases of an aggregate; None if it needs all rows of a group in one task."""
    rule = FUNCTIONS[call.function].phases
    found: Phases | None = None if rule is None else rule(call)
    return found


def all_rows(call: Any) -> Strategy:
    """The strategy of functions that need all values in one task."""
    return AllRows()


def by_phases(call: Any) -> Strategy:
    """The strategy of aggregates with phases; those of a call may be missing for some dtypes."""
    return AllRows() if phases_of(call) is None else Combined()
