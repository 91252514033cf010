"""Tiling rules of scans, of row-wise operators, and of operators that select or concatenate rows by position."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from craton.lower.single_node import OrderKey
from craton.lower.tiled.exchanges import gathered, in_order, sorted_within, with_positions
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.sources import cut, cut_by_partitions, cut_by_ranges
from craton.lower.tiled.stage import NoExchange
from craton.lower.tiled.tiles import (
    Partitioning,
    Segment,
    Tiles,
    materialised,
    new_leaf,
    selected,
    sliced,
    sorted_by,
)
from craton.plan.expr import Call, Column, Literal, roots
from craton.plan.names import hidden_name
from craton.plan.operators import (
    Attach,
    Explode,
    Filter,
    Operator,
    Project,
    RowNumber,
    Scan,
    Slice,
    Union,
    Unpivot,
    schema,
)
from craton.plan.size import value_bytes
from craton.plan.sources import FileSource, KeptSource, MemorySource
from craton.schedule.tasks import PartSize, Read

#: The approximate bytes of the batches in which a single reading task writes its rows.
_WRITTEN_BYTES = 4 << 20


@tiling_rule(Scan)
async def _scan(tiling: Tiling, op: Scan) -> Tiles:
    source = op.source
    if isinstance(source, FileSource):
        if op in tiling.ranges:
            name, ranges = tiling.ranges[op]
            found = _of_scans(op, cut_by_ranges(op, name, ranges))
            tiling.record_decision(op, f"cut into {len(found)} ranges of {name}: row groups have narrow ranges of it")
            return replace(found, partitioning=Partitioning.of([name], ranges))
        partitions = cut_by_partitions(op, tiling.settings.tile_bytes)
        if partitions is not None and source.layout is not None:
            tiling.record_decision(op, f"read as {len(partitions)} partitions by the hash of {source.layout.keys}")
            by = Partitioning.of(source.layout.keys, source.layout.parts)
            return replace(_of_scans(op, partitions), partitioning=by if by.within(schema(op).keys()) else None)
        plans = cut(op, tiling.least_tiles(), tiling.settings.tile_bytes)
        if plans is None:
            return await _read_by_one(tiling, op, source)
        return _of_scans(op, plans)
    assert isinstance(source, (MemorySource, KeptSource))
    read = [name for name, _ in source.columns if name in _read_columns(op)]
    # Even if the rows are only numbered or counted, some column is needed.
    held = source if isinstance(source, MemorySource) else source.kept.read()
    some = held.select(read) if read else pl.select(pl.repeat(0, source.rows, dtype=pl.Int8).alias(hidden_name()))
    tiles = await in_memory(tiling, some)
    if op.row_number is not None:
        tiles = _numbered(tiles, op.row_number)
    if op.predicate is not None:
        predicate = op.predicate
        tiles = tiles.then(lambda plan: Filter(plan, predicate))
    return tiles.then(lambda plan: selected(plan, schema(op)))


def _of_scans(op: Scan, plans: list[Operator]) -> Tiles:
    scan, leaf = new_leaf(schema(op), scans=tuple(plans))
    return Tiles((Segment(scan, (leaf,)),))


async def _read_by_one(tiling: Tiling, op: Scan, source: FileSource) -> Tiles:
    """A scan that cannot be cut: one task reads it and writes it in batches, and its output is then cut by rows."""
    tiles = _of_scans(op, [replace(op, source=replace(source, held=None, reopen=None))])
    if not _is_large(source, tiling.settings.tile_bytes):
        tiling.record_decision(op, f"read by one task: {source.format} is not read in pieces")
        return tiles
    names = tiling.columns(op)
    wanted = tiles.then(lambda plan: selected(plan, names))
    (output,) = await tiling.run_all(op, wanted, NoExchange(), ordered=tiling.observed(op), batch_bytes=_WRITTEN_BYTES)
    count = max(tiling.least_tiles(), -(-output.nbytes // tiling.settings.tile_bytes))
    tiling.record_decision(
        op, f"read by one task: {source.format} is not read in pieces; cut into {count} tiles from there on"
    )
    return materialised(dict(wanted.schema), *sliced(Read((output.key,)), output.parts[0], count))


def _is_large(source: FileSource, nbytes: int) -> bool:
    """Whether files are estimated to be larger than a tile; files of unknown size count as large."""
    try:
        return sum(os.stat(path).st_size for path in source.paths) > nbytes // 4
    except OSError:
        return True


def _read_columns(op: Scan) -> set[str]:
    return set(op.columns) | (set() if op.predicate is None else roots(op.predicate))


async def in_memory(tiling: Tiling, frame: pl.DataFrame) -> Tiles:
    """Tiles of a frame in this process, cut by rows."""
    output = await tiling.put(frame)
    nbytes = output.nbytes
    wanted = max(tiling.least_tiles(), -(-nbytes // tiling.settings.tile_bytes))
    if tiling.settings.tiles is None and nbytes <= tiling.settings.collapse_bytes:
        wanted = 1
    reads, sizes = sliced(Read((output.key,)), PartSize(frame.height, nbytes), wanted)
    return materialised(dict(frame.schema), reads, sizes)


def _numbered(tiles: Tiles, name: str) -> Tiles:
    """Materialised tiles in order, with a first column that numbers their rows from 0."""
    segments, before = [], 0
    for segment in tiles.segments:
        starts = []
        for size in segment.leaves[0].sizes:
            starts.append(before)
            before += size.rows
        grown, start = segment.with_constant(pl.UInt32(), starts)
        row = hidden_name()
        plan = RowNumber(segment.plan, row)
        number = Call("add", (plan.column(row), start), pl.UInt32())
        others = tuple((column, plan.column(column)) for column in schema(segment.plan))
        segments.append(replace(grown, plan=Project(plan, ((name, number), *others))))
    return replace(tiles, segments=tuple(segments))


@tiling_rule(Project)
async def _project(tiling: Tiling, op: Project) -> Tiles:
    tiles = await tiling.tiles_with_ties(op.input)
    wanted = set(tiling.columns(op))
    columns = tuple((name, expr) for name, expr in op.columns if name in wanted)
    order = tiles.order if tiling.observed(op) else ()
    names: dict[str, str] = {}
    for key in order:
        same = next((n for n, expr in columns if expr == _as_column(tiles, key.name)), None)
        names[key.name] = same or hidden_name()
    given = {name for name, _ in columns}
    carried = tuple((new, _as_column(tiles, old)) for old, new in names.items() if new not in given)
    # Order columns must stay with the rows.
    return tiles.then(
        lambda plan: Project(plan, (*columns, *carried)),
        order=tuple(replace(key, name=names[key.name]) for key in order),
        has_ties=tiles.has_ties and bool(order),
        partitioning=tiles.partitioning_as((expr.name, name) for name, expr in columns if isinstance(expr, Column)),
    )


def _as_column(tiles: Tiles, name: str) -> Column:
    return Column(name, tiles.schema[name])


@tiling_rule(Filter)
async def _filter(tiling: Tiling, op: Filter) -> Tiles:
    tiles = await tiling.tiles_with_ties(op.input)
    return tiles.then(lambda plan: Filter(plan, op.predicate))


@tiling_rule(RowNumber)
async def _row_number(tiling: Tiling, op: RowNumber) -> Tiles:
    tiles = await in_order(tiling, op.input, await tiling.tiles_with_ties(op.input))
    return _numbered(await tiling.materialise(op.input, tiles), op.name)


@tiling_rule(Attach)
async def _attach(tiling: Tiling, op: Attach) -> Tiles:
    tiles = await in_order(tiling, op.input, await tiling.tiles_with_ties(op.input))
    tiles = await tiling.materialise(op.input, tiles)
    assert isinstance(op.source, MemorySource)
    names = tuple(name for name in op.columns if name in tiling.columns(op)) or op.columns[:1]
    output = await tiling.put(op.source.select(names))
    if output.rows != tiles.rows:
        raise pl.exceptions.ShapeError(f"columns of {output.rows} rows cannot be attached to {tiles.rows} rows")
    segments: list[Segment] = []
    before = 0
    for segment in tiles.segments:
        reads = []
        for size in segment.leaves[0].sizes:
            reads.append((Read((output.key,), rows=(before, size.rows)),))
            before += size.rows
        scan, leaf = new_leaf({name: dict(op.source.columns)[name] for name in names}, reads=tuple(reads))
        plan = Attach(segment.plan, scan.source, names)
        segments.append(replace(segment, plan=plan, leaves=(*segment.leaves, leaf)))
    return Tiles(tuple(segments))


@tiling_rule(Slice)
async def _slice(tiling: Tiling, op: Slice) -> Tiles:
    most = op.offset + (op.length or 0)
    if op.length is not None and op.offset >= 0:
        tiling.reads_first(op.input, most)
    tiles = await tiling(op.input)
    row_bytes = sum(map(value_bytes, tiles.schema.values()))
    few = op.length is not None and op.offset >= 0 and most * row_bytes <= tiling.settings.tile_bytes
    if few and tiles.order:
        # The first rows in sort order are among the first rows of each tile.
        order = tiles.order
        first = tiles.then(lambda plan: Slice(sorted_by(plan, order), 0, most))
        tiles = await tiling.materialise(op.input, first)
        if tiles.nbytes <= tiling.settings.tile_bytes:
            tiling.record_decision(
                op, f"one task selects the first rows from the first rows of each tile, {tiles.rows:,} in all"
            )
            one = sorted_within(op.input, gathered(tiles))
            return one.then(lambda plan: Slice(plan, op.offset, op.length))
    tiles = await in_order(tiling, op.input, tiles)
    if op.offset >= 0 and op.length is not None and tiles.sizes is None:
        tiles = tiles.then(lambda plan: Slice(plan, 0, most))
    tiles = await tiling.materialise(op.input, tiles)
    start = op.offset if op.offset >= 0 else max(tiles.rows + op.offset, 0)
    if op.offset < 0 and op.length is not None:
        stop = max(tiles.rows + op.offset + op.length, 0)
    else:
        stop = tiles.rows if op.length is None else start + op.length
    return _cut_to(tiles, start, min(stop, tiles.rows))


def _cut_to(tiles: Tiles, start: int, stop: int) -> Tiles:
    """The rows of materialised tiles from ``start`` up to ``stop``."""
    segments: list[Segment] = []
    before = 0
    for read, size in zip(tiles.reads, tiles.sizes or (), strict=True):
        low, high = max(start, before) - before, min(stop, before + size.rows) - before
        before += size.rows
        if low >= high and (segments or before < tiles.rows):
            continue
        scan, leaf = new_leaf(tiles.schema, reads=(read,), sizes=(size,), kept=tiles.kept)
        whole = (low, high) == (0, size.rows)
        segments.append(Segment(scan if whole else Slice(scan, low, max(high - low, 0)), (leaf,)))
    return replace(tiles, segments=tuple(segments), partitioning=None)


@tiling_rule(Union)
async def _union(tiling: Tiling, op: Union) -> Tiles:
    parts = await tiling.all(op.parts)
    names = tiling.columns(op)
    if not tiling.observed(op) or not any(part.order for part in parts):
        return _one_after_another(parts, names)
    # Rows are ordered by the number of their input, then by their position in it.
    positioned = [with_positions(part) for part in parts]
    longest = max(len(part.order) for part in positioned)
    kinds = {(part.schema[key.name], key.descending, key.nulls_last) for part in positioned for key in part.order}
    if longest > 1 or len(kinds) > 1:
        parts = [await in_order(tiling, below, part) for below, part in zip(op.parts, parts, strict=True)]
        return _one_after_another(parts, names)
    which, place = hidden_name(), hidden_name()
    segments: list[Segment] = []
    for number, part in enumerate(positioned):
        (key,) = part.order

        def build(plan: Operator, number: int = number, name: str = key.name) -> Operator:
            kept = [(column, plan.column(column)) for column in names]
            return Project(plan, (*kept, (which, Literal(number, pl.UInt32())), (place, plan.column(name))))

        segments += part.then(build).segments
    last = positioned[0].order[0]
    return Tiles(tuple(segments), (OrderKey(which), replace(last, name=place)))


def _one_after_another(parts: Sequence[Tiles], names: Sequence[str]) -> Tiles:
    """The tiles of several tables, one after another, with these columns."""
    return Tiles(tuple(segment for part in parts for segment in part.then(lambda p: selected(p, names)).segments))


@tiling_rule(Unpivot)
async def _unpivot(tiling: Tiling, op: Unpivot) -> Tiles:
    tiles = await tiling.tiles_with_ties(op.input)
    observed = tiling.observed(op)
    if observed:
        tiles = await in_order(tiling, op.input, tiles)
    tiles = await tiling.materialise(op.input, tiles)
    segments: list[Segment] = []
    for number, name in enumerate(op.values):

        def build(plan: Operator, number: int = number, name: str = name) -> Operator:
            kept = [(column, plan.column(column)) for column in op.keep if column in schema(plan)]
            value = plan.column(name) if name in schema(plan) else plan.column(next(iter(schema(plan))))
            return Project(plan, (*kept, (op.variable, Literal(number, pl.UInt32())), (op.value, value)))

        segments += tiles.then(build).segments
    return Tiles(tuple(segments))


@tiling_rule(Explode)
async def _explode(tiling: Tiling, op: Explode) -> Tiles:
    tiles = await tiling.tiles_with_ties(op.input)
    if tiling.observed(op):  # order columns cannot restore the order of the items
        tiles = await in_order(tiling, op.input, tiles)
    else:
        names = tiling.columns(op.input)
        tiles = tiles.then(lambda plan: selected(plan, names), order=(), has_ties=False)
    return tiles.then(lambda plan: Explode(plan, op.lists), partitioning=None)
