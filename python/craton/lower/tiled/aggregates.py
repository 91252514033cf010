"""The tiling rules of aggregates and of distinct rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from craton.lower.algorithms import groups_by_sorting
from craton.lower.single_node import OrderKey
from craton.lower.tiled.adaptive import PreAggregation, exchanged
from craton.lower.tiled.exchanges import (
    by_hash,
    by_range,
    coalesced,
    note_skew,
    part_sizes,
    partitioned,
    with_one_position,
    with_positions,
)
from craton.lower.tiled.phases import share_partials
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.stage import ByHash
from craton.lower.tiled.tiles import Tiles, columns_of, keyed, selected, sorted_by
from craton.lower.tiled.totals import combined, distinct_pre_aggregation, needs_rows, one_row
from craton.plan.expr import Column, dtype_of, roots, substitute
from craton.plan.functions.strategies import Phases, phases_of, single_row_result
from craton.plan.names import hidden_name
from craton.plan.operators import Aggregate, AggregateCall, Distinct, Operator, Project, schema

INT = pl.Int64()


@tiling_rule(Aggregate)
async def _aggregate(tiling: Tiling, op: Aggregate) -> Tiles:
    return await aggregated(tiling, op, await tiling(op.input), ordered=tiling.observed(op.input))


async def aggregated(tiling: Tiling, op: Aggregate, tiles: Tiles, *, ordered: bool) -> Tiles:
    """The aggregate of tiles.

    Parameters
    ----------
    op
        The operator; its input is used for size estimates only.
    ordered
        Whether the tiles keep the order of their rows.
    """
    wanted = tiling.columns(op)
    op = replace(op, aggregates=tuple((name, call) for name, call in op.aggregates if name in wanted))
    by_order = any(call.ordered for _, call in op.aggregates)
    assert ordered or not by_order
    if not op.keys:
        return await one_row(tiling, op, tiles)
    phases = [phases_of(call) for _, call in op.aggregates]
    found = [phase for phase in phases if phase is not None]
    if _partitioned_by(tiles, op):
        tiling.record_decision(op, "the rows of a group are in one tile already")
    elif tiling.observed(op) and groups_by_sorting(op) and not (by_order and tiles.order):
        return await _by_ranges(tiling, op, tiles)
    elif len(found) < len(phases):
        missing = [call.function for (_, call), phase in zip(op.aggregates, phases, strict=True) if phase is None]
        tiling.record_decision(op, f"rows are exchanged as they are: {needs_rows(missing)}")
    elif not (by_order and (tiles.order or any(phase.keys for phase in found))):
        return await _in_phases(tiling, op, tiles, found)
    # Otherwise the rows of a group must be sorted first, or must not be separated by further keys.
    return await _all_rows(tiling, op, tiles)


# ---- in two phases ----


async def _in_phases(tiling: Tiling, op: Aggregate, tiles: Tiles, phases: list[Phases]) -> Tiles:
    """Combine the partial results of the tiles into one row for each group."""
    phases = share_partials(phases)
    calls = tuple(part for phase in phases for part in phase.partial)
    first: str | None = None
    if tiling.observed(op) and not op.sort:
        tiles = await with_one_position(tiling, op.input, tiles)
        first = hidden_name()
        least = AggregateCall("min", (Column(tiles.order[0].name, pl.UInt64()),), pl.UInt64())
        calls = (*calls, (first, least))
    names = tuple(name for name, _ in op.keys)
    reduction = _partial(op, tiles, phases, calls)
    in_order = any(phase.in_order for phase in phases)
    parts = tiling.parts(tiling.expected_bytes(op, tiles))
    found = await exchanged(tiling, op, tiles, ByHash(names, parts), reduction, ordered=in_order)
    keys = tuple((name, Column(name, dtype_of(expr))) for name, expr in op.keys)
    made = found.then(lambda plan: combined(op, plan, phases, keys, first))
    if len(found) == 1 and first is None and op.sort:
        return replace(made, partitioning=None)
    return replace(made, order=_order(tiling, op, first))


def _partial(
    op: Aggregate, tiles: Tiles, phases: Sequence[Phases], calls: tuple[tuple[str, AggregateCall], ...]
) -> PreAggregation:
    """How the rows of a tile are aggregated before the exchange, or are exchanged and become partial results of single rows."""
    keys = (*op.keys, *(key for phase in phases for key in phase.keys))
    read = {name: hidden_name() for name in sorted(set().union(*(roots(a) for _, call in calls for a in call.args)))}
    there = {name: Column(new, tiles.schema[name]) for name, new in read.items()}

    def few(plan: Operator, rows: str | None) -> Operator:
        counted = () if rows is None else ((rows, AggregateCall("len", (), INT)),)
        return Aggregate(plan, keys, (*calls, *counted), sort=False)

    def plain(plan: Operator) -> Operator:
        return Project(plan, (*keys, *((new, plan.column(name)) for name, new in read.items())))

    def single(plan: Operator) -> Operator:
        moved = [(name, replace(call, args=tuple(substitute(arg, there) for arg in call.args))) for name, call in calls]
        results = [(name, single_row_result(call)) for name, call in moved]
        return Project(plan, (*columns_of(plan, [name for name, _ in keys]), *results))

    return PreAggregation(few, plain, single)


def _order(tiling: Tiling, op: Aggregate, first: str | None) -> tuple[OrderKey, ...]:
    if not tiling.observed(op):
        return ()
    if first is not None:
        return (OrderKey(first),)
    return tuple(OrderKey(name) for name, _ in op.keys)


async def _by_ranges(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Exchange rows by ranges of the key, for sorted groups of few rows each, so that the groups need no further exchange."""
    (name,), tiles = keyed(tiles, [expr for _, expr in op.keys])
    reads = set().union({name}, *(roots(arg) for _, call in op.aggregates for arg in call.args))
    found = await by_range(tiling, op.input, tiles, (OrderKey(name),), reads)
    tiling.record_decision(op, f"few rows share a key: rows are exchanged by its ranges into {len(found)} tiles")
    return found.then(lambda plan: replace(op, input=plan), order=())


def _partitioned_by(tiles: Tiles, op: Aggregate) -> bool:
    """Whether rows of equal keys are in one tile."""
    return tiles.partitioned_by({expr.name for _, expr in op.keys if isinstance(expr, Column)})


# ---- all rows of a group in one task ----


async def _all_rows(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Exchange all rows so that those of a group are in one tile, if they are not already, and aggregate these."""
    reads = set().union(*(roots(expr) for _, expr in op.keys), *(roots(a) for _, c in op.aggregates for a in c.args))
    by_order = any(call.ordered for _, call in op.aggregates)
    first: str | None = None
    if tiling.observed(op) and not op.sort:
        tiles = await with_one_position(tiling, op.input, tiles)
        first = tiles.order[0].name
    if not _partitioned_by(tiles, op):
        names, tiles = keyed(tiles, [expr for _, expr in op.keys])
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        columns, outputs = await by_hash(tiling, op.input, tiles, names, parts, reads, ordered=by_order)
        note_skew(tiling, op, part_sizes(outputs), "all values of a group are needed in one task")
        tiles = partitioned(columns, outputs, coalesced(tiling, outputs), order=tiles.order)
    place = tiles.order

    def build(plan: Operator) -> Operator:
        if by_order and place:
            plan = sorted_by(plan, place)
        made = replace(op, input=plan, sort=op.sort and first is None)
        if first is None:
            return made
        least = AggregateCall("min", (plan.column(first),), pl.UInt64())
        return replace(made, aggregates=(*made.aggregates, (f"{first} first", least)))

    order = _order(tiling, op, None if first is None else f"{first} first")
    plain = [(expr.name, name) for name, expr in op.keys if isinstance(expr, Column)]
    return tiles.then(build, order=order, partitioning=tiles.partitioning_as(plain))


# ---- distinct rows ----


@tiling_rule(Distinct)
async def _distinct(tiling: Tiling, op: Distinct) -> Tiles:
    tiles = await tiling(op.input)
    observed = tiling.observed(op)
    names = op.subset or tuple(schema(op.input))
    keep = "first" if observed and op.keep == "any" else op.keep
    by_order = keep in ("first", "last")
    is_positional = not tiles.order  # then a hash exchange keeps the rows of a part in order
    if observed:
        tiles = with_positions(tiles)
    order = tiles.order
    if not tiles.partitioned_by(names):
        wanted = tuple(dict.fromkeys([*tiling.columns(op.input), *names, *(key.name for key in order)]))
        tiles = tiles.then(lambda plan: selected(plan, [name for name in wanted if name in schema(plan)]))
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        if keep != "none":
            reduction = distinct_pre_aggregation(names, keep, () if is_positional or not by_order else order)
            tiles = await exchanged(
                tiling, op, tiles, ByHash(names, parts), reduction, ordered=by_order and is_positional
            )
        else:
            columns, outputs = await by_hash(tiling, op.input, tiles, names, parts, tiles.schema, ordered=False)
            tiles = partitioned(columns, outputs, coalesced(tiling, outputs))

    def build(plan: Operator) -> Operator:
        if by_order and order and not is_positional:
            plan = sorted_by(plan, order)
        return Distinct(plan, names, keep)

    return tiles.then(build, order=order if observed else ())
