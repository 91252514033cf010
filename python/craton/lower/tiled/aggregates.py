"""The rules of aggregates and of distinct rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from craton.lower.tiled.phases import Phases, phases_of
from craton.lower.tiled.planner import Tiling, tiles_of
from craton.lower.tiled.stage import ByHash, Keep
from craton.lower.tiled.tiles import Tiles, columns_of, hidden_name, keyed, order_columns, selected, sorted_by
from craton.lower.whole import OrderKey
from craton.plan.expr import Call, Column, Expr, Literal, dtype_of, roots
from craton.plan.operators import Aggregate, AggregateCall, Distinct, Filter, Operator, Project, schema

#: From this share of distinct groups on among a tile's rows, rows are exchanged as they are.
_MANY_GROUPS = 0.7


@tiles_of(Aggregate)
async def _aggregate(tiling: Tiling, op: Aggregate) -> Tiles:
    return await aggregated(tiling, op, await tiling(op.input), ordered=tiling.observed(op.input))


async def aggregated(tiling: Tiling, op: Aggregate, tiles: Tiles, *, ordered: bool) -> Tiles:
    """The aggregate of tiles.

    Parameters
    ----------
    op
        The operator; its input is only looked at for what is expected of it.
    ordered
        Whether the order of the tiles' rows is kept.
    """
    wanted = tiling.columns(op)
    calls = [(name, call) for name, call in op.aggregates if name in wanted]
    op = replace(op, aggregates=tuple(calls))
    phases = [phases_of(call) for _, call in calls]
    by_order = any(call.ordered for _, call in calls)
    assert ordered or not by_order
    if by_order and tiles.order:
        # The rows of a group have to be put in order first.
        return await _all_rows(tiling, op, tiles)
    missing = [call.function for (_, call), phase in zip(calls, phases, strict=True) if phase is None]
    if missing:
        tiling.decide(op, f"rows are exchanged as they are: {', '.join(missing)} needs all of a group's values at once")
        return await _all_rows(tiling, op, tiles)
    found = [phase for phase in phases if phase is not None]
    return await _in_phases(tiling, op, tiles, found) if op.keys else await _in_one(tiling, op, tiles, found)


# ---- in two phases ----


def _partial(
    op: Aggregate, phases: list[Phases], extra: tuple[tuple[str, AggregateCall], ...] = ()
) -> Callable[[Operator], Operator]:
    """What each tile computes."""
    calls = tuple(part for phase in phases for part in phase.partial)
    return lambda plan: Aggregate(plan, op.keys, (*calls, *extra), sort=False)


async def _in_one(tiling: Tiling, op: Aggregate, tiles: Tiles, phases: list[Phases]) -> Tiles:
    """One row, of the partial results of all tiles that have rows."""
    rows = hidden_name()
    counted = (rows, AggregateCall("len", (), pl.Int64()))
    below = _partial(op, phases, (counted,))
    tiles = tiles.then(below)
    outputs = await tiling.run_all(op, tiles, Keep(), ordered=False)
    one = tiling.gathered(tiling.resting(dict(tiles.schema), outputs))
    some = Call("gt", (Column(rows, pl.Int64()), Literal(0, pl.Int64())), pl.Boolean())
    return one.then(lambda plan: _combined(op, Filter(plan, some), phases, ()))


def _combined(
    op: Aggregate,
    plan: Operator,
    phases: list[Phases],
    keys: tuple[tuple[str, Expr], ...],
    first: str | None = None,
) -> Operator:
    """The aggregate of partial results; with the least of column ``first``, if that is named."""
    names = [expr for _, expr in keys]
    computed = [column for phase in phases if phase.before is not None for column in phase.before(names)]
    if computed:
        plan = Project(plan, (*columns_of(plan, schema(plan)), *computed))
    calls = tuple(part for phase in phases for part in phase.combine)
    if first is not None:
        calls += ((first, AggregateCall("min", (plan.column(first),), pl.UInt64())),)
    total = Aggregate(plan, keys, calls, sort=op.sort and first is None)
    finals = [(name, phase.final) for (name, _), phase in zip(op.aggregates, phases, strict=True)]
    carried = columns_of(total, [name for name, _ in keys] + ([] if first is None else [first]))
    return Project(total, (*carried, *finals))


async def _in_phases(tiling: Tiling, op: Aggregate, tiles: Tiles, phases: list[Phases]) -> Tiles:
    """One row a group, of the partial results of the tiles that have the group."""
    by_first = tiling.observed(op) and not op.sort
    first: str | None = None
    extra: tuple[tuple[str, AggregateCall], ...] = ()
    if by_first:
        tiles = await tiling.placed(op.input, tiles)
        first = hidden_name()
        extra = ((first, AggregateCall("min", (Column(tiles.order[0].name, pl.UInt64()),), pl.UInt64())),)
    below = _partial(op, phases, extra)
    names = tuple(name for name, _ in op.keys)
    keys = tuple((name, Column(name, dtype_of(expr))) for name, expr in op.keys)
    order = _order(tiling, op, first)
    if tiles.hashed is not None and _hashed_by(tiles, op):
        tiling.decide(op, "the rows of a group are in one tile already")
        made = tiles.then(lambda plan: _combined(op, below(plan), phases, keys, first))
        return replace(made, order=order, hashed=None)
    parts = tiling.parts(tiling.expected_bytes(op, tiles))
    tiles = tiles.then(below, order=(), hashed=None)
    ordered = any(phase.in_order for phase in phases)
    outputs = await tiling.run_all(op, tiles, ByHash(names, parts), ordered=False)
    columns = dict(tiles.schema)
    found = tiling.partitions(columns, outputs, tiling.grouped(outputs), hashed=(names, parts))
    if found.nbytes <= tiling.settings.collapse_bytes and len(found) > 1:
        tiling.decide(op, f"{found.rows:,} partial rows are combined by one task")
        found = tiling.gathered(found)
    assert not ordered or all(read.rows is None for tile in found.reads for read in tile)
    made = found.then(lambda plan: _combined(op, plan, phases, keys, first))
    if len(found) == 1 and first is None and op.sort:
        return replace(made, hashed=None)
    return replace(made, order=order, hashed=found.hashed if len(found) == parts else None)


def _order(tiling: Tiling, op: Aggregate, first: str | None) -> tuple[OrderKey, ...]:
    if not tiling.observed(op):
        return ()
    if first is not None:
        return (OrderKey(first),)
    return tuple(OrderKey(name) for name, _ in op.keys)


def _hashed_by(tiles: Tiles, op: Aggregate) -> bool:
    """Whether rows of equal keys are in one tile."""
    assert tiles.hashed is not None
    plain = {expr.name for _, expr in op.keys if isinstance(expr, Column)}
    return set(tiles.hashed[0]) <= plain


# ---- all rows of a group at once ----


async def _all_rows(tiling: Tiling, op: Aggregate, tiles: Tiles) -> Tiles:
    """Groups of rows that were exchanged as they are."""
    reads = set().union(*(roots(expr) for _, expr in op.keys), *(roots(a) for _, c in op.aggregates for a in c.args))
    by_order = any(call.ordered for _, call in op.aggregates)
    if not op.keys:
        wanted = [name for name in tiles.schema if name in reads] or [next(iter(tiles.schema))]
        tiles = tiles.then(lambda plan: selected(plan, dict.fromkeys([*wanted, *order_columns(tiles.order)])))
        found = await _one_tile(tiling, op, tiles, by_order)
        return found.then(lambda plan: replace(op, input=plan))
    observed = tiling.observed(op)
    first: str | None = None
    if observed and not op.sort:
        tiles = await tiling.placed(op.input, tiles)
        first = tiles.order[0].name
    names, tiles = keyed(tiles, [expr for _, expr in op.keys])
    if not (tiles.hashed is not None and set(tiles.hashed[0]) <= set(names)):
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        columns, outputs = await tiling.by_hash(op.input, tiles, names, parts, reads, ordered=by_order)
        tiles = tiling.partitions(columns, outputs, tiling.grouped(outputs), order=tiles.order)
    order = _order(tiling, op, None)

    def build(plan: Operator) -> Operator:
        if by_order and tiles.order:
            plan = sorted_by(plan, tiles.order)
        made = replace(op, input=plan, sort=op.sort and first is None)
        if first is None:
            return made
        least = AggregateCall("min", (plan.column(first),), pl.UInt64())
        return replace(made, aggregates=(*made.aggregates, (f"{first} first", least)))

    if first is not None:
        order = (OrderKey(f"{first} first"),)
    return replace(tiles.then(build), order=order, hashed=None)


async def _one_tile(tiling: Tiling, op: Aggregate, tiles: Tiles, by_order: bool) -> Tiles:
    if tiles.sizes is None:
        outputs = await tiling.run_all(op, tiles, Keep(), ordered=by_order and not tiles.order)
        tiles = tiling.resting(dict(tiles.schema), outputs, order=tiles.order)
    one = tiling.gathered(tiles)
    if by_order and tiles.order:
        one = one.then(lambda plan: sorted_by(plan, tiles.order))
    return replace(one, order=())


# ---- distinct rows ----


@tiles_of(Distinct)
async def _distinct(tiling: Tiling, op: Distinct) -> Tiles:
    tiles = await tiling(op.input)
    names = op.subset or tuple(schema(op.input))
    observed = tiling.observed(op)
    by_order = op.keep in ("first", "last")
    if observed:
        tiles = tiling.spelled(tiles)
    place = tiles.order
    if op.keep != "none" and not place:
        # Few are left of each tile; those of earlier tiles are read first.
        tiles = tiles.then(lambda plan: Distinct(plan, names, op.keep))
    if tiles.hashed is None or not set(tiles.hashed[0]) <= set(names):
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        columns, outputs = await tiling.by_hash(op.input, tiles, names, parts, names)
        tiles = tiling.partitions(columns, outputs, tiling.grouped(outputs), order=place, hashed=None)

    def build(plan: Operator) -> Operator:
        if by_order and place:
            plan = sorted_by(plan, place)
        return Distinct(plan, names, op.keep)

    return tiles.then(build, order=place if observed else ())
