"""Prefix scans over tiles, for running windows and ranks.

Each tile computes its own values. One small task computes the prefix of each tile from the totals of the tiles before it, and
the prefix is then joined to the tile's values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from craton.lower.single_node import OrderKey
from craton.lower.tiled.exchanges import by_range, gathered, in_order, with_positions
from craton.lower.tiled.planner import Tiling
from craton.lower.tiled.stage import NoExchange
from craton.lower.tiled.tiles import Tiles, columns_of, kept, keyed, new_leaf, sorted_by
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal, WindowCall
from craton.plan.functions.running import after
from craton.plan.functions.strategies import RankByRange, Running, Step, strategy_of
from craton.plan.names import hidden_name
from craton.plan.operators import Aggregate, AggregateCall, Join, Operator, Project, Window, schema
from craton.plan.registry import FUNCTIONS
from craton.schedule.tasks import PartSize, Read

Named = tuple[str, WindowCall]


def with_windows(windows: Sequence[Named]) -> Callable[[Operator], Operator]:
    """Extends a plan with windows as further columns."""
    return lambda plan: Window(plan, tuple(windows))


def with_columns(values: Sequence[tuple[str, Expr]]) -> Callable[[Operator], Operator]:
    """Extends a plan with further columns, whose expressions may contain windows."""
    return lambda plan: build.project(plan, (*columns_of(plan, schema(plan)), *values))


async def materialised_columns(tiling: Tiling, op: Window, tiles: Tiles) -> Tiles:
    """Tiles that are materialised with all their columns, so that each is one read."""
    if tiles.sizes is not None and all(len(reads) == 1 for reads in tiles.reads):
        return tiles
    ordered = tiling.observed(op.input) and not tiles.order
    outputs = await tiling.run_all(op, tiles, NoExchange(), ordered=ordered)
    return tiling.tiles_of_outputs(dict(tiles.schema), outputs, order=tiles.order, partitioning=tiles.partitioning)


def with_joined_rows(
    tiles: Tiles,
    columns: Mapping[str, pl.DataType],
    reads: Sequence[tuple[Read, ...]],
    sizes: Sequence[PartSize],
    on: Sequence[tuple[Column, Column]] = (),
) -> Tiles:
    """Join each tile with the rows of another table's tile: with its only row, or by equal columns."""
    segments, start = [], 0
    for segment in tiles.segments:
        stop = start + len(segment)
        scan, leaf = new_leaf(columns, reads=tuple(reads[start:stop]), sizes=tuple(sizes[start:stop]))
        ours, theirs = tuple(column for column, _ in on), tuple(column for _, column in on)
        plan = Join(segment.plan, scan, "left" if on else "cross", ours, theirs)
        segments.append(replace(segment, plan=plan, leaves=(*segment.leaves, leaf)))
        start = stop
    return replace(tiles, segments=tuple(segments))


def renamed_copies(tiles: Tiles, names: Sequence[str]) -> list[tuple[Column, Column]]:
    """Pairs of columns of tiles and columns of the same dtypes with new names."""
    return [(Column(name, tiles.schema[name]), Column(hidden_name(), tiles.schema[name])) for name in names]


async def materialised_in_order(tiling: Tiling, op: Window, tiles: Tiles) -> Tiles:
    """Tiles that are sorted and materialised, with all their columns."""
    return await materialised_columns(tiling, op, await in_order(tiling, op.input, tiles, tiles.schema))


# ---- running windows ----


async def running(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    """Tiles with running windows over all rows as further columns."""
    tiles = await materialised_in_order(tiling, op, tiles)
    if len(tiles) == 1:
        return tiles.then(with_windows(windows))
    return await running_on(tiling, op, tiles, windows)


async def running_on(
    tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named], names: Sequence[str] = ()
) -> Tiles:
    """Materialised tiles in order, with running windows as further columns: over all rows, or over partitions by columns."""
    rules = [rule for _, window in windows if isinstance(rule := FUNCTIONS[window.function].tiling(window), Running)]
    totals = tuple((hidden_name(), rule.total(window)) for rule, (_, window) in zip(rules, windows, strict=True))
    columns = [Column(name, call.dtype) for name, call in totals]
    on = renamed_copies(tiles, names)
    reads, sizes = await _prefixes(tiling, op, tiles, totals, [rule.carry for rule in rules], on)
    within = [Column(hidden_name(), window.dtype) for _, window in windows]
    given = {column.name: column.dtype for column in (*(theirs for _, theirs in on), *columns)}
    local = [(column.name, window) for column, (_, window) in zip(within, windows, strict=True)]
    found = with_joined_rows(tiles.then(with_windows(local)), given, reads, sizes, on)
    joined = zip(rules, windows, within, columns, strict=True)
    values = [(name, rule.join(value, carried)) for rule, (name, _), value, carried in joined]
    kept_columns = tuple(tiles.schema)
    return found.then(lambda plan: Project(plan, (*columns_of(plan, kept_columns), *values)))


async def _prefixes(
    tiling: Tiling,
    op: Window,
    tiles: Tiles,
    totals: tuple[tuple[str, AggregateCall], ...],
    carries: Sequence[tuple[Step, ...]],
    on: Sequence[tuple[Column, Column]] = (),
) -> tuple[list[tuple[Read, ...]], list[PartSize]]:
    """The prefixes of materialised tiles, from the totals of all tiles or of their groups."""
    keys = tuple((theirs.name, ours) for ours, theirs in on)
    each = kept(tiles).then(lambda plan: Aggregate(plan, keys, totals, sort=False))
    outputs = await tiling.run_all(op, each, NoExchange(), ordered=True)
    every = gathered(tiling.tiles_of_outputs(dict(each.schema), outputs))
    partition = tuple(theirs for _, theirs in on)

    def stepped(plan: Operator) -> Operator:
        for steps in itertools.zip_longest(*carries):
            values = []
            for (name, call), step in zip(totals, steps, strict=True):
                before = Column(name, call.dtype)
                values.append(
                    (name, before if step is None else WindowCall(step[0], (before,), call.dtype, partition, step[1]))
                )
            plan = build.project(plan, (*columns_of(plan, [name for name, _ in keys]), *values))
        return plan

    every = every.then(stepped)
    (prefixes,) = await tiling.run_all(op, every, NoExchange(), ordered=True)
    ends = list(itertools.accumulate(output.rows for output in outputs))
    reads: list[tuple[Read, ...]] = []
    for end, output in zip(ends, outputs, strict=True):
        reads.append((Read((prefixes.key,), rows=(end - output.rows, output.rows)),))
    return reads, [PartSize(output.rows, output.nbytes) for output in outputs]


# ---- ranks ----


async def ranks(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    """Tiles by ranges of a value, with its ranks as further columns: ranks in the range plus the count of ranges before."""
    window = windows[0][1]
    is_positional = not tiles.order  # then a range exchange keeps equal values in order
    by_order = any(window.ordered for _, window in windows)
    if tiling.observed(op):
        tiles = with_positions(tiles)
    (name,), tiles = keyed(tiles, window.args)
    key = OrderKey(name, bool(window.option("descending", False)))
    tiles = await by_range(tiling, op.input, tiles, (key,), tiles.schema)
    order, values = tiles.order, list[tuple[str, Expr]](windows)
    if len(tiles) > 1:
        column = Column(name, tiles.schema[name])
        counted, distinct = Column(hidden_name(), pl.Int64()), Column(hidden_name(), pl.Int64())
        totals = (
            (counted.name, AggregateCall("count", (column,), pl.Int64())),
            (distinct.name, AggregateCall("n_unique", (column,), pl.Int64())),
        )
        reads, sizes = await _prefixes(tiling, op, tiles, totals, [after("cum_sum")] * 2)
        tiles = with_joined_rows(tiles, {counted.name: counted.dtype, distinct.name: distinct.dtype}, reads, sizes)
        values = []
        for new, rank in windows:
            rule = strategy_of(rank)
            of_distinct = isinstance(rule, RankByRange) and rule.distinct
            before = Call("cast", (distinct if of_distinct else counted,), rank.dtype)
            values.append(
                (new, Call("add", (rank, Call("coalesce", (before, Literal(0, rank.dtype)), rank.dtype)), rank.dtype))
            )

    def build(plan: Operator) -> Operator:
        return with_columns(values)(sorted_by(plan, order) if by_order and order and not is_positional else plan)

    return tiles.then(build, order=order if tiling.observed(op) else ())
