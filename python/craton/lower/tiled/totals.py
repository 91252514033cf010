"""Aggregates without keys, which give one row; each is computed by its strategy.

Aggregates with phases are combined from one row for each tile. Distinct values are counted after a hash exchange. For medians
and quantiles, values are exchanged by sampled ranges, and only the ranges with the selected positions are sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from craton.lower.single_node import OrderKey
from craton.lower.tiled.adaptive import PreAggregation, exchanged
from craton.lower.tiled.exchanges import by_range, gathered, in_order
from craton.lower.tiled.planner import Tiling
from craton.lower.tiled.stage import ByHash, NoExchange
from craton.lower.tiled.tiles import (
    Segment,
    Tiles,
    columns_of,
    cross_joined,
    kept,
    new_leaf,
    order_columns,
    selected,
    sorted_by,
)
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal, WindowCall, dtype_of, roots
from craton.plan.functions import strategies
from craton.plan.functions.strategies import AllRows, Combined, Phases, SelectedPositions, phases_of, strategy_of
from craton.plan.names import hidden_name
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Operator,
    Project,
    Slice,
    Window,
    schema,
)
from craton.plan.registry import Strategy
from craton.schedule.tasks import PartSize

INT = pl.Int64()

StrategyRule = Callable[[Tiling, Aggregate, Tiles], Any]


async def one_row(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """The row of an aggregate without keys."""
    calls_by_rule: dict[tuple[StrategyRule, tuple[Expr, ...]], list[tuple[str, AggregateCall]]] = {}
    for name, call in op.aggregates:
        rule = _rule_of(call)
        calls_by_rule.setdefault((rule, call.args if rule in (_distinct_values, _selected_values) else ()), []).append(
            (name, call)
        )
    if len(calls_by_rule) < 2:
        return await next(iter(calls_by_rule))[0](tiling, op, tiles)
    tiles = await _materialised(tiling, op, tiles)
    pieces = []
    for (rule, _), calls in calls_by_rule.items():
        part = replace(op, aggregates=tuple(calls))
        piece = await rule(tiling, part, kept(tiles))
        outputs = await tiling.run_all(part, piece, NoExchange(), ordered=False)
        pieces.append(tiling.tiles_of_outputs(dict(piece.schema), outputs))
    tiling.release(tiles)
    names = [name for name, _ in op.aggregates]
    return cross_joined(pieces).then(lambda plan: selected(plan, names))


def _rule_of(call: AggregateCall) -> StrategyRule:
    return _RULES[type(strategy_of(call))]


async def _materialised(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """The columns of tiles that an aggregate reads, materialised."""
    if tiles.sizes is not None:
        return tiles
    reads = _reads(op).union(order_columns(tiles.order))
    wanted = [name for name in tiles.schema if name in reads] or list(tiles.schema)[:1]
    tiles = tiles.then(lambda plan: selected(plan, wanted))
    by_order = any(call.ordered for _, call in op.aggregates)
    outputs = await tiling.run_all(op, tiles, NoExchange(), ordered=by_order and not tiles.order)
    return tiling.tiles_of_outputs(dict(tiles.schema), outputs, order=tiles.order)


def _reads(op: Aggregate) -> set[str]:
    return set().union(*(roots(arg) for _, call in op.aggregates for arg in call.args))


# ---- by one task ----


def in_one_task(call: AggregateCall) -> bool:
    """Whether an aggregate without keys reads all rows in one task."""
    return _rule_of(call) is _in_rows


async def _in_rows(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Gather all rows into one tile and aggregate them."""
    if len(tiles) > 1:
        missing = [call.function for _, call in op.aggregates]
        tiling.record_decision(op, f"all rows go to one task: {needs_rows(missing)}")
    tiles = await _materialised(tiling, op, tiles)
    by_order = any(call.ordered for _, call in op.aggregates)
    one, order = gathered(tiles), tiles.order if by_order else ()
    return one.then(lambda plan: replace(op, input=sorted_by(plan, order) if order else plan), order=())


def needs_rows(functions: Sequence[str]) -> str:
    """The reason why aggregates are not computed in phases."""
    return f"{', '.join(dict.fromkeys(functions))} needs all values in one task, or in order"


# ---- in two phases ----


async def _in_phases(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Combine the partial results of all tiles that have rows."""
    if any(call.ordered for _, call in op.aggregates):
        tiles = await in_order(tiling, op.input, tiles, _reads(op))
    phases = [found for _, call in op.aggregates if (found := phases_of(call)) is not None]
    rows = hidden_name()
    calls = (*(part for phase in phases for part in phase.partial), (rows, AggregateCall("len", (), INT)))
    tiles = tiles.then(lambda plan: Aggregate(plan, (), calls), order=(), partitioning=None)
    outputs = await tiling.run_all(op, tiles, NoExchange(), ordered=False)
    one = gathered(tiling.tiles_of_outputs(dict(tiles.schema), outputs))
    some = Call("gt", (Column(rows, INT), Literal(0, INT)), pl.Boolean())
    return one.then(lambda plan: combined(op, Filter(plan, some), phases, ()))


def combined(
    op: Aggregate,
    plan: Operator,
    phases: Sequence[Phases],
    keys: tuple[tuple[str, Expr], ...],
    first: str | None = None,
) -> Operator:
    """The plan that combines partial results; ``first`` names a column whose minimum is added."""
    names = [expr for _, expr in keys]
    computed = [column for phase in phases if phase.before is not None for column in phase.before(names)]
    if computed:
        plan = build.project(plan, (*columns_of(plan, schema(plan)), *computed))
    calls = tuple(part for phase in phases for part in phase.combine)
    if first is not None:
        calls += ((first, AggregateCall("min", (plan.column(first),), pl.UInt64())),)
    total = Aggregate(plan, keys, calls, sort=op.sort and first is None)
    finals = [(name, phase.final) for (name, _), phase in zip(op.aggregates, phases, strict=True)]
    carried = columns_of(total, [name for name, _ in keys] + ([] if first is None else [first]))
    return Project(total, (*carried, *finals))


# ---- distinct values ----


async def _distinct_values(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Count distinct values: exchange them by hash, count those of each part, and add the counts."""
    (arg,) = op.aggregates[0][1].args
    value = hidden_name()
    column = Column(value, dtype_of(arg))
    tiles = tiles.then(lambda plan: Project(plan, ((value, arg),)), order=(), partitioning=None)
    if len(tiles) > 1:
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        tiles = await exchanged(
            tiling, op, tiles, ByHash((value,), parts), distinct_pre_aggregation((value,), "any"), ordered=False
        )
    calls = tuple((name, replace(call, args=(column,))) for name, call in op.aggregates)
    counts = tiles.then(lambda plan: Aggregate(plan, (), calls), partitioning=None)
    outputs = await tiling.run_all(op, counts, NoExchange(), ordered=False)
    one = gathered(tiling.tiles_of_outputs(dict(counts.schema), outputs))
    sums = tuple((name, AggregateCall("sum", (Column(name, call.dtype),), call.dtype)) for name, call in calls)
    return one.then(lambda plan: Aggregate(plan, (), sums))


def distinct_pre_aggregation(names: tuple[str, ...], keep: Any, order: Iterable[OrderKey] = ()) -> PreAggregation:
    """The reduction to one row for each combination of some columns; ``order`` has the order columns if the order matters."""
    order = tuple(order)

    def few(plan: Operator, rows: str | None) -> Operator:
        if order:
            plan = sorted_by(plan, order)
        if rows is not None:
            plan = Window(plan, ((rows, WindowCall("len", (), INT)),))
        return Distinct(plan, names, keep)

    return PreAggregation(few, lambda plan: plan, lambda plan: plan, each=True)


# ---- values at sorted positions ----


async def _selected_values(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Medians and quantiles: exchange the values by ranges, and sort only the ranges that contain the selected positions."""
    (arg,) = op.aggregates[0][1].args
    value = hidden_name()
    column = Column(value, dtype_of(arg))
    some = Call("not", (Call("is_null", (column,), pl.Boolean()),), pl.Boolean())
    tiles = tiles.then(lambda plan: Filter(Project(plan, ((value, arg),)), some), order=(), partitioning=None)
    ranged = await by_range(tiling, op.input, tiles, (OrderKey(value),))
    calls = [(name, replace(call, args=(column,))) for name, call in op.aggregates]
    if len(ranged) == 1 or not ranged.rows:
        one = gathered(ranged)
        return one.then(lambda plan: Aggregate(plan, (), tuple(calls)))
    pieces, read = [], 0
    for name, call in calls:
        strategy = strategy_of(call)
        assert isinstance(strategy, SelectedPositions)
        positions, chosen = strategy.positions(call, ranged.rows)
        found = _at_positions(ranged, value, positions)
        read += sum(size.rows for segment in found.segments for size in segment.leaves[0].sizes)
        outputs = await tiling.run_all(op, found, NoExchange(), ordered=True)
        made = gathered(tiling.tiles_of_outputs({value: column.dtype}, outputs))
        pieces.append(made.then(lambda plan, name=name, chosen=chosen: Aggregate(plan, (), ((name, chosen),))))  # type: ignore[misc]
    tiling.release(ranged)
    tiling.record_decision(
        op, f"only the ranges with the selected positions are sorted: {read:,} of {ranged.rows:,} values"
    )
    return cross_joined(pieces)


def _at_positions(ranged: Tiles, value: str, positions: Sequence[int]) -> Tiles:
    """The values at sorted positions of a range-partitioned column, in order; only tiles with such positions are read."""
    sizes = [size.rows for size in ranged.sizes or ()]
    ends = list(itertools.accumulate(sizes))
    segments = []
    for number, (read, end) in enumerate(zip(ranged.reads, ends, strict=True)):
        here = [position - (end - sizes[number]) for position in positions if end - sizes[number] <= position < end]
        for run in _runs(here):
            size = PartSize(sizes[number], 0)
            scan, leaf = new_leaf(ranged.schema, reads=(read,), sizes=(size,), kept=True)
            plan = Slice(sorted_by(scan, (OrderKey(value),)), run[0], len(run))
            segments.append(Segment(plan, (leaf,)))
    return Tiles(tuple(segments))


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Split ascending numbers into runs of consecutive ones."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


_RULES: dict[type[Strategy], StrategyRule] = {
    AllRows: _in_rows,
    Combined: _in_phases,
    strategies.DistinctValues: _distinct_values,
    SelectedPositions: _selected_values,
}
