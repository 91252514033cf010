"""Tiling rules of windows: values in a row that depend on other rows.

The strategy of a window says what it needs of other tiles: all rows of its partition in one tile, one value of all rows, the
totals of the tiles before (a running sum), or a few of their rows (a shift).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl

from craton.lower.tiled.aggregates import aggregated
from craton.lower.tiled.exchanges import (
    by_hash,
    coalesced,
    gathered,
    note_skew,
    partitioned,
    skewed_parts,
    sorted_within,
    with_positions,
)
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.prefix_scan import (
    Named,
    materialised_columns,
    materialised_in_order,
    ranks,
    renamed_copies,
    running,
    running_on,
    with_joined_rows,
    with_windows,
)
from craton.lower.tiled.stage import NoExchange
from craton.lower.tiled.tiles import (
    Leaf,
    Partitioning,
    Segment,
    Tiles,
    columns_of,
    kept,
    keyed,
    materialised,
    new_leaf,
    order_columns,
    selected,
    sliced,
    sorted_by,
)
from craton.plan.expr import Column, Expr, Literal, WindowCall
from craton.plan.functions.strategies import (
    AllRows,
    EqualValues,
    HashPartitioned,
    Neighbours,
    OneValue,
    RankByRange,
    Running,
    phases_of,
    strategy_of,
)
from craton.plan.names import hidden_name
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Filter,
    Operator,
    Project,
    Union,
    Window,
)
from craton.plan.registry import FUNCTIONS, Kind, Strategy
from craton.schedule.tasks import PartSize, Read


@tiling_rule(Window)
async def _windows(tiling: Tiling, op: Window) -> Tiles:
    """The tiles of the input with the needed windows as further columns."""
    tiles = await tiling(op.input)
    wanted = tiling.columns(op)
    calls = [(name, call) for name, call in op.columns if name in wanted]
    reads = set(tiling.columns(op.input)).union(order_columns(tiles.order))
    needed = [name for name in tiles.schema if name in reads] or list(tiles.schema)[:1]
    return await _computed(tiling, op, tiles.then(lambda plan: selected(plan, needed)), calls)


async def _computed(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    """Tiles with windows as further columns."""
    by_strategy: dict[tuple[type[Strategy], tuple[Expr, ...]], list[Named]] = {}
    for name, window in windows:
        by_strategy.setdefault((type(strategy_of(window)), window.partition or _values(window)), []).append(
            (name, window)
        )
    order = list(_RULES)
    left = sorted(by_strategy, key=lambda key: order.index(key[0]))
    while left:
        strategy, by = left.pop(0)
        # An exchange for this strategy must not lose the row order if windows of a later one depend on it.
        with tiling.observing(op, any(window.ordered for key in left for _, window in by_strategy[key])):
            tiles = await _RULES[strategy](tiling, op, tiles, by_strategy[strategy, by])
    return tiles


def _values(window: WindowCall) -> tuple[Expr, ...]:
    """The expressions by whose values a window's rows are exchanged."""
    strategy = strategy_of(window)
    if isinstance(strategy, RankByRange):
        return (*window.args, Literal(bool(window.option("descending", False)), pl.Boolean()))
    return window.args if isinstance(strategy, EqualValues) else ()


# ---- rows of a partition in one tile ----


async def _keyed(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    return await _by_keys(tiling, op, tiles, windows, windows[0][1].partition)


async def _equal(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    return await _by_keys(tiling, op, tiles, windows, windows[0][1].args)


async def _by_keys(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named], keys: tuple[Expr, ...]) -> Tiles:
    by_order = any(window.ordered for _, window in windows)
    is_positional = not tiles.order  # then a hash exchange keeps the rows of a part in order
    if tiling.observed(op):
        tiles = with_positions(tiles)
    names, tiles = keyed(tiles, keys)
    if not tiles.partitioned_by(names):
        parts = tiling.parts(tiling.expected_bytes(op.input, tiles))
        columns, outputs = await by_hash(tiling, op.input, tiles, names, parts, tuple(tiles.schema))
        groups = coalesced(tiling, outputs)
        found = Partitioning.of(names, parts) if len(groups) == parts else None
        tiles = partitioned(columns, outputs, groups, order=tiles.order, partitioning=found)
        skewed = skewed_parts(tiling, tiles.sizes or ())
        if skewed and all(_is_combined(w) or (is_positional and _is_running(w)) for _, w in windows):
            parted = await _without_skew(tiling, op, tiles, windows, names, skewed)
            return replace(parted, order=parted.order if tiling.observed(op) else ())
        note_skew(tiling, op, tiles.sizes or (), "a window needs all rows of its partition")
    order = tiles.order

    def build(plan: Operator) -> Operator:
        if by_order and order and not is_positional:
            plan = sorted_by(plan, order)
        return with_windows(windows)(plan)

    return tiles.then(build, order=order if tiling.observed(op) else ())


def _is_combined(window: WindowCall) -> bool:
    """Whether a window is an aggregate that can be combined from partial results."""
    if FUNCTIONS[window.function].kind is not Kind.AGGREGATE or window.ordered:
        return False
    return phases_of(_as_call(window)) is not None


def _as_call(window: WindowCall) -> AggregateCall:
    return AggregateCall(window.function, window.args, window.dtype, window.options)


async def _without_skew(
    tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named], names: tuple[str, ...], skewed: list[int]
) -> Tiles:
    """Windows over partitions with skewed tiles cut into slices, which get the totals of the other slices that they need."""
    segments: list[Segment] = []
    columns, sizes = dict(tiles.schema), tiles.sizes or ()
    goes_on = [(name, window) for name, window in windows if _is_running(window)]
    of_groups = [(name, window) for name, window in windows if not _is_running(window)]
    most = max(tiling.settings.tile_bytes // 2, 1)
    wanted = (*columns, *(name for name, _ in windows))
    for number, (reads, size) in enumerate(zip(tiles.reads, sizes, strict=True)):
        made = pieces = materialised(
            columns, *sliced(reads[0], size, -(-size.nbytes // most) if number in skewed else 1)
        )
        if number not in skewed:
            segments += pieces.then(with_windows(windows)).segments
            continue
        tiling.record_decision(
            op, f"{size.rows:,} of {tiles.rows:,} rows, of large partitions, were cut into {len(pieces)} tiles"
        )
        groups: Tiles | None = None
        if of_groups:
            on = renamed_copies(pieces, names)
            keys = tuple((theirs.name, ours) for ours, theirs in on)
            calls = tuple((name, _as_call(window)) for name, window in of_groups)
            total = Aggregate(pieces.segments[0].plan, keys, calls, sort=False)
            found = await aggregated(tiling, total, kept(pieces), ordered=False)
            outputs = await tiling.run_all(op, found, NoExchange(), ordered=False)
            groups = gathered(tiling.tiles_of_outputs(dict(found.schema), outputs))
        if goes_on:
            made = await running_on(tiling, op, pieces, goes_on, names)
        if groups is not None:
            made = with_joined_rows(made, groups.schema, groups.reads * len(made), (groups.sizes or ()) * len(made), on)
        segments += made.then(lambda plan: selected(plan, wanted)).segments
    return Tiles(tuple(segments), tiles.order)


def _is_running(window: WindowCall) -> bool:
    return isinstance(FUNCTIONS[window.function].tiling(window), Running)


# ---- one value of all rows ----


async def _one(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    tiles = await materialised_columns(tiling, op, tiles)
    calls = tuple((name, _as_call(window)) for name, window in windows)
    total = Aggregate(tiles.segments[0].plan, (), calls)
    found = await aggregated(tiling, total, kept(tiles), ordered=tiling.observed(op.input))
    outputs = await tiling.run_all(op, found, NoExchange(), ordered=False)
    value = tiling.tiles_of_outputs(dict(found.schema), outputs)
    return with_joined_rows(
        tiles, dict(found.schema), [value.reads[0]] * len(tiles), [PartSize(1, value.nbytes)] * len(tiles)
    )


# ---- a few rows of neighbouring tiles ----


async def _near(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    tiles = await materialised_in_order(tiling, op, tiles)
    if len(tiles) == 1:
        return tiles.then(with_windows(windows))
    before = max([0, *(_reach(window) for _, window in windows)])
    after = max([0, *(-_reach(window) for _, window in windows)])
    reads, sizes = [read for (read,) in tiles.reads], [size.rows for size in tiles.sizes or ()]
    columns = dict(tiles.schema)
    segments, number, flag = [], 0, hidden_name()
    for segment in tiles.segments:
        places = range(number, number + len(segment))
        head, first = _rows_near(tiles, [_last_rows(reads, sizes, i, before) for i in places])
        tail, last = _rows_near(tiles, [_first_rows(reads, sizes, i, after) for i in places])
        number += len(segment)

        def marked(plan: Operator, own: bool) -> Operator:
            kept_columns = columns_of(plan, columns)
            return Project(plan, (*kept_columns, (flag, Literal(own, pl.Boolean()))))

        every = Union((marked(head, False), marked(segment.plan, True), marked(tail, False)))
        plan = Filter(with_windows(windows)(every), Column(flag, pl.Boolean()))
        wanted = [*columns, *(name for name, _ in windows)]
        segments.append(replace(segment, plan=selected(plan, wanted), leaves=(*segment.leaves, first, last)))
    return replace(tiles, segments=tuple(segments))


def _reach(window: WindowCall) -> int:
    """The number of rows before its own that a window reads; negative for rows after its own."""
    strategy = strategy_of(window)
    assert isinstance(strategy, Neighbours)
    return strategy.before


def _rows_near(tiles: Tiles, reads: list[tuple[Read, ...]]) -> tuple[Operator, Leaf]:
    # All tiles run in one stage, so outputs are dropped only after the neighbouring tiles have read them too.
    return new_leaf(tiles.schema, reads=tuple(reads), sizes=(PartSize(0, 0),) * len(reads), kept=tiles.kept)


def _last_rows(reads: list[Read], sizes: list[int], tile: int, rows: int) -> tuple[Read, ...]:
    """The last rows of the tiles before a tile."""
    found: list[Read] = []
    for i in range(tile - 1, -1, -1):
        if rows <= 0:
            break
        taken = min(rows, sizes[i])
        if taken:
            found.insert(0, _part(reads[i], sizes[i] - taken, taken))
        rows -= taken
    return tuple(found) or (replace(reads[tile], rows=(0, 0)),)


def _part(read: Read, first: int, rows: int) -> Read:
    return replace(read, rows=((0 if read.rows is None else read.rows[0]) + first, rows))


def _first_rows(reads: list[Read], sizes: list[int], tile: int, rows: int) -> tuple[Read, ...]:
    """The first rows of the tiles after a tile."""
    found: list[Read] = []
    for i in range(tile + 1, len(reads)):
        if rows <= 0:
            break
        taken = min(rows, sizes[i])
        if taken:
            found.append(_part(reads[i], 0, taken))
        rows -= taken
    return tuple(found) or (replace(reads[tile], rows=(0, 0)),)


# ---- all rows in one task ----


async def _gather(tiling: Tiling, op: Window, tiles: Tiles, windows: list[Named]) -> Tiles:
    names = ", ".join(sorted({window.function for _, window in windows}))
    tiling.record_decision(op, f"by one task: {names} over all rows")
    tiles = gathered(await materialised_columns(tiling, op, tiles))
    return sorted_within(op.input, tiles, tiles.schema).then(with_windows(windows))


#: The rules in the order in which they are applied: first those that keep tiles and rows in order.
_RULES: dict[type[Strategy], Callable[..., Any]] = {
    Running: running,
    Neighbours: _near,
    AllRows: _gather,
    OneValue: _one,
    RankByRange: ranks,
    EqualValues: _equal,
    HashPartitioned: _keyed,
}
