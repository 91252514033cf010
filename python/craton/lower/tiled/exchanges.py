"""Hash and range exchanges between tiles, and order columns for rows that lose their order in them."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from craton.lower.single_node import OrderKey
from craton.lower.tiled.stage import ByHash, ByRange, Sampled
from craton.lower.tiled.tiles import (
    Segment,
    Tiles,
    kept,
    materialised,
    new_leaf,
    order_columns,
    selected,
    sorted_by,
)
from craton.plan.expr import Call
from craton.plan.names import HIDDEN, hidden_name
from craton.plan.operators import Operator, Project, RowNumber, schema
from craton.schedule.tasks import Output, PartSize, Read

#: A row's position has the number of its tile above this bit, and the row's number in the tile below it.
_ROW_BITS = 40
#: A part is skewed if it is larger than this many times the median part.
SKEWED = 4
#: Rows to sample for each range of a sort: at most from each tile, and times the second number from all tiles together.
_SAMPLES, _OVERSAMPLED = 64, 4
#: The number of possible cuts between ranges of positions of materialised rows.
_CUTS = 240

_WEIGHT, _SHARE_OF = f"{HIDDEN}weight", f"{HIDDEN}share"

if TYPE_CHECKING:
    from craton.lower.tiled.planner import Tiling


def gathered(tiles: Tiles) -> Tiles:
    """Materialised tiles as one tile, in which the rows of the tiles are concatenated."""
    if len(tiles) == 1:
        return tiles
    scan, leaf = new_leaf(
        tiles.schema,
        reads=(tuple(read for tile in tiles.reads for read in tile),),
        sizes=(PartSize(tiles.rows, tiles.nbytes),),
        kept=tiles.kept,
    )
    return Tiles((Segment(scan, (leaf,)),), tiles.order, has_ties=tiles.has_ties)


def sorted_within(op: Operator, tiles: Tiles, extra: Iterable[str] = ()) -> Tiles:
    """Sort each tile by its order columns, which are then not needed any more.

    Order columns that are in the schema of ``op`` or in ``extra`` are kept, the others are dropped.
    """
    if not tiles.order:
        return tiles
    keys = tiles.order
    dropped = set(order_columns(keys)).difference(schema(op), extra)
    names = [name for name in tiles.schema if name not in dropped]
    return tiles.then(lambda plan: selected(sorted_by(plan, keys), names), order=(), has_ties=False)


async def by_hash(
    tiling: Tiling,
    op: Operator,
    tiles: Tiles,
    names: tuple[str, ...],
    parts: int,
    extra: Iterable[str] = (),
    *,
    ordered: bool | None = None,
) -> tuple[dict[str, pl.DataType], list[Output]]:
    """Run the pending plans with a hash exchange; rows with equal keys keep their order if it is observed."""
    columns = tiling.kept_columns(op, tiles, (*extra, *names))
    ordered = (tiling.observed(op) if ordered is None else ordered) and tiles.is_positional
    exchange = ByHash(names, parts)
    outputs = await tiling.run_all(op, tiles.then(lambda p: selected(p, columns)), exchange, ordered=ordered)
    return columns, outputs


def partitioned(
    columns: dict[str, pl.DataType],
    outputs: Sequence[Output],
    groups: Sequence[tuple[int, ...]],
    **changes: Any,
) -> Tiles:
    """Tiles of parts of outputs; each group of parts becomes one tile."""
    keys = tuple(output.key for output in outputs)
    sizes = part_sizes(outputs)
    return materialised(
        columns,
        [(Read(keys, group),) for group in groups],
        [PartSize(sum(sizes[i].rows for i in g), sum(sizes[i].nbytes for i in g)) for g in groups],
        **changes,
    )


def coalesced(tiling: Tiling, *outputs: Sequence[Output]) -> list[tuple[int, ...]]:
    """Group neighbouring parts until they have the size of a tile; the groups are the same for all outputs."""
    every = [part_sizes(one) for one in outputs]
    total = [sum(sizes[i].nbytes for sizes in every) for i in range(len(every[0]))]
    if tiling.settings.tiles is not None:
        return [(i,) for i in range(len(total))]
    wanted = max(sum(total) // (2 * sum(band.threads for band in tiling.runner.bands)), 1 << 20)
    most = min(tiling.settings.tile_bytes, wanted)
    groups: list[tuple[int, ...]] = []
    filled = most + 1
    for i, nbytes in enumerate(total):
        if filled + nbytes > most:
            groups.append(())
            filled = 0
        groups[-1] += (i,)
        filled += nbytes
    return groups


def skewed_parts(tiling: Tiling, sizes: Sequence[PartSize]) -> list[int]:
    """The numbers of parts that are much larger than the median part and than the target size of a tile."""
    least = max(SKEWED * statistics.median(size.nbytes for size in sizes), tiling.settings.tile_bytes)
    return [number for number, size in enumerate(sizes) if size.nbytes > least]


def note_skew(tiling: Tiling, op: Operator, sizes: Sequence[PartSize], why: str) -> None:
    """Record that a task has far more rows than the others, and why they are not distributed."""
    total = sum(size.rows for size in sizes)
    for number in skewed_parts(tiling, sizes):
        tiling.record_decision(op, f"{sizes[number].rows:,} of {total:,} rows are in one task: {why}")


async def in_order(tiling: Tiling, op: Operator, tiles: Tiles, extra: Iterable[str] = ()) -> Tiles:
    """Sort tiles by their order columns, so that the rows are in order tile after tile.

    The result has the needed columns of ``op`` and those of ``extra``.
    """
    if not tiles.order:
        return tiles
    extra = tuple(extra)
    found = await by_range(tiling, op, tiles, tiles.order, extra)
    return sorted_within(op, found, extra)


async def by_range(
    tiling: Tiling, op: Operator, tiles: Tiles, keys: tuple[OrderKey, ...], extra: Iterable[str] = ()
) -> Tiles:
    """Exchange rows by ranges of some columns; rows with equal keys are in one tile and keep their order."""
    by = tuple(key.name for key in keys)
    columns = tiling.kept_columns(op, tiles, (*extra, *by))
    wanted = tiles.then(lambda plan: selected(plan, columns))
    ordered = tiling.observed(op) and tiles.is_positional
    read = tiles.read
    nbytes = sum(size.nbytes for size in read) if read else tiling.expected_bytes(op, tiles, by)
    parts = tiling.parts(nbytes)
    known = keys == tiles.order and not tiling.settings.batch_bytes
    boundaries = _known_boundaries(tiles, parts) if known else None
    if boundaries is not None:
        ranged = await tiling.run_all(op, wanted, ByRange(keys[:1], boundaries), ordered=ordered)
        found = _ranged(tiling, columns, ranged, tiles)
        if not skewed_parts(tiling, part_sizes(ranged)):
            return found
        tiling.record_decision(op, "some ranges of the order have far more rows than others: the order is sampled")
        order = tuple(replace(key, cuts=()) for key in tiles.order)
        return await by_range(tiling, op, replace(found, order=order), order, extra)
    if read and nbytes > tiling.settings.collapse_bytes:
        # A plan that only renames and numbers rows is cheaper to compute twice than to write before the exchange.
        sampled = Sampled(by, _samples(len(tiles), parts), kept=False)
        outputs = await tiling.run_all(op, kept(tiles.then(lambda plan: selected(plan, by))), sampled, ordered=ordered)
        boundaries = _boundaries([output.value for output in outputs], [size.rows for size in read], keys, parts)
    else:
        outputs = await tiling.run_all(op, wanted, Sampled(by, _samples(len(tiles), parts)), ordered=ordered)
        wanted = tiling.tiles_of_outputs(columns, outputs, order=tiles.order, has_ties=tiles.has_ties)
        if wanted.nbytes <= tiling.settings.collapse_bytes:
            return gathered(wanted)
        parts = tiling.parts(wanted.nbytes)
        boundaries = _boundaries([output.value for output in outputs], [output.rows for output in outputs], keys, parts)
        if not boundaries.height:
            return gathered(wanted)
    ranged = await tiling.run_all(op, wanted, ByRange(keys, boundaries), ordered=ordered)
    return _ranged(tiling, columns, ranged, tiles)


def _ranged(tiling: Tiling, columns: dict[str, pl.DataType], outputs: Sequence[Output], tiles: Tiles) -> Tiles:
    """Tiles of the parts of a range exchange, in the order of the ranges."""
    few = sum(output.nbytes for output in outputs) <= tiling.settings.collapse_bytes
    groups = [tuple(range(len(outputs[0].parts)))] if few else coalesced(tiling, outputs)
    return partitioned(columns, outputs, groups, order=tiles.order, has_ties=tiles.has_ties)


def with_positions(tiles: Tiles) -> Tiles:
    """The same rows with a position column, if needed, so that the order columns order all rows without ties."""
    if not tiles.is_positional:
        return tiles
    name, segments, before = hidden_name(), [], 0
    sizes = tiles.sizes
    rows = None if sizes is None else list(itertools.accumulate((size.rows for size in sizes), initial=0))
    for segment in tiles.segments:
        at = range(before, before + len(segment))
        numbers = [i << _ROW_BITS if rows is None else rows[i] for i in at]
        grown, number = segment.with_constant(pl.UInt64(), numbers)
        row = hidden_name()
        plan = RowNumber(segment.plan, row)
        place = Call("add", (Call("cast", (plan.column(row),), pl.UInt64()), number), pl.UInt64())
        others = tuple((column, plan.column(column)) for column in schema(segment.plan))
        segments.append(replace(grown, plan=Project(plan, (*others, (name, place)))))
        before += len(segment)
    last = rows[-1] if rows else 0
    cuts = [i << _ROW_BITS for i in range(1, before)] if rows is None else [last * i // _CUTS for i in range(1, _CUTS)]
    key = OrderKey(name, cuts=() if tiles.order else tuple(dict.fromkeys(cuts)))
    return Tiles(tuple(segments), (*tiles.order, key), tiles.partitioning)


async def with_one_position(tiling: Tiling, op: Operator, tiles: Tiles) -> Tiles:
    """The same rows with one order column of ascending distinct integers."""
    unique = len(tiles.order) == 1 and not tiles.has_ties
    if unique and not tiles.order[0].descending and tiles.schema[tiles.order[0].name] == pl.UInt64():
        return tiles
    return with_positions(await in_order(tiling, op, tiles))


def part_sizes(outputs: Sequence[Output]) -> list[PartSize]:
    """The size of each part over all outputs."""
    return [
        PartSize(sum(part.rows for part in parts), sum(part.nbytes for part in parts))
        for parts in zip(*(output.parts for output in outputs), strict=True)
    ]


def _known_boundaries(tiles: Tiles, parts: int) -> pl.DataFrame | None:
    """Values of the first order column that cut tiles into about equal parts, if they are known without sampling."""
    key = tiles.order[0]
    if len(key.cuts) + 1 < parts:
        return None
    count = len(key.cuts) + 1
    picked = [key.cuts[count * i // parts - 1] for i in range(1, parts)]
    return pl.DataFrame({key.name: picked}, schema={key.name: tiles.schema[key.name]})


def _samples(tiles: int, parts: int) -> int:
    """The number of rows to sample from each tile: enough if one tile has all rows of a range, and for all together."""
    return max(min(_SAMPLES * parts, _OVERSAMPLED * _SAMPLES * parts // tiles), _SAMPLES)


def _boundaries(
    samples: Sequence[pl.DataFrame], rows: Sequence[int], keys: tuple[OrderKey, ...], parts: int
) -> pl.DataFrame:
    """The rows that cut the sampled tiles into parts of about equal size; each sample is weighted by its tile's rows."""
    weights = [number / max(sample.height, 1) for sample, number in zip(samples, rows, strict=True)]
    heaviest = max(statistics.median(weights), 1.0) if weights else 1.0
    found = [
        sample.with_columns(pl.lit(weight / heaviest).alias(_WEIGHT))
        for sample, weight in zip(samples, weights, strict=True)
        if sample.height
    ]
    by = [key.name for key in keys]
    if not found or parts < 2:
        return pl.DataFrame(schema=samples[0].schema if samples else {}).head(0)
    every = pl.concat(found).sort(
        by, descending=[key.descending for key in keys], nulls_last=[key.nulls_last for key in keys]
    )
    share = (pl.col(_WEIGHT).cum_sum() * parts / pl.col(_WEIGHT).sum()).floor()
    picked = every.with_columns(share.alias(_SHARE_OF)).filter(pl.col(_SHARE_OF).diff().fill_null(0) > 0)
    return picked.select(by).unique(maintain_order=True).head(parts - 1)
