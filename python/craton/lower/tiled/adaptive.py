"""Exchanges before which tiles make few rows of many, if the first of them have shown that this pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from craton.lower.tiled.exchanges import SKEWED, coalesced, gathered, partitioned
from craton.lower.tiled.planner import Tiling
from craton.lower.tiled.stage import ByHash, Counted
from craton.lower.tiled.tiles import Partitioning, Segment, Tiles, selected
from craton.plan.names import hidden_name
from craton.plan.operators import Operator, Union
from craton.records import dataclass

#: From this share of a tile's rows on, what is left of them is not worth the work.
_MOST_LEFT = 0.7


@dataclass(frozen=True, slots=True)
class Lessening:
    """How a tile makes few rows of many.

    Parameters
    ----------
    few
        What a tile is then; given a name, with a column of how many rows each row is made of.
    plain
        What it is otherwise.
    single
        The rows of ``plain`` as those of ``few``, each of one row.
    each
        Whether the column has the number of all the tile's rows in each row.
    """

    few: Callable[[Operator, str | None], Operator]
    plain: Callable[[Operator], Operator]
    single: Callable[[Operator], Operator]
    each: bool = False


async def exchanged(
    tiling: Tiling, op: Operator, tiles: Tiles, exchange: ByHash, way: Lessening, *, ordered: bool
) -> Tiles:
    """Tiles by the hash of some columns, made few before where that pays.

    Parameters
    ----------
    op
        The operator that wants them so.
    ordered
        Whether rows of one key stay in order where they are exchanged as they are; few are of one tile each.
    """
    few = tiles.then(lambda plan: way.few(plan, None), order=(), partitioning=None)
    first, others = tiles.parted(_tried(tiling, op, tiles))
    if not len(first):
        outputs = await tiling.run_all(op, few, exchange, ordered=False)
        groups = coalesced(tiling, outputs)
        return _collapsed(tiling, op, partitioned(dict(few.schema), outputs, groups), (), exchange)
    counted = hidden_name()
    outputs = await tiling.run_all(
        op, first.then(lambda plan: way.few(plan, counted)), Counted(exchange, counted), ordered=False
    )
    left = sum(output.rows for output in outputs)
    rows = sum(output.value[1 if way.each else 0] for output in outputs)
    largest = 0 if way.each else max(output.value[1] for output in outputs)
    many = left > _MOST_LEFT * rows and largest * exchange.parts <= SKEWED * rows
    tiles_tried = "the first tile" if len(first) == 1 else f"the first {len(first)} tiles"
    tiling.decide(
        op,
        f"{tiles_tried} made {left:,} of {rows:,} rows before the exchange"
        + ("; those of the others are exchanged as they are" if many else ", and so do the others"),
    )
    if not many:
        outputs += await tiling.run_all(op, others.then(lambda plan: way.few(plan, None)), exchange, ordered=False)
        tiling.release(tiles)
        groups = coalesced(tiling, outputs)
        return _collapsed(tiling, op, partitioned(dict(few.schema), outputs, groups), (), exchange)
    nbytes = sum(output.nbytes for output in outputs) * rows // max(left, 1) * len(tiles) // len(first)
    parts = tiling.parts(nbytes)
    if parts >= 2 * exchange.parts:
        tiling.decide(op, f"{parts} parts instead of {exchange.parts}: more rows are exchanged than was expected")
        tiling.drop({output.key for output in outputs})
        exchange = replace(exchange, parts=parts)
        outputs = await tiling.run_all(op, first.then(lambda plan: way.few(plan, None)), exchange, ordered=False)
    plain = others.then(way.plain, order=(), partitioning=None)
    rest = await tiling.run_all(op, plain, exchange, ordered=ordered)
    tiling.release(tiles)
    groups = coalesced(tiling, outputs, rest)
    made = partitioned(dict(few.schema), outputs, groups)
    others = partitioned(dict(plain.schema), rest, groups)
    return _collapsed(tiling, op, made, (others, way), exchange)


def _tried(tiling: Tiling, op: Operator, tiles: Tiles) -> int:
    """How many tiles are tried first; none where there are few, or little is exchanged anyway."""
    if tiling.settings.tiles is not None:
        return min(1, len(tiles) // 3)
    if tiling.expected_bytes(op.inputs[0], tiles) <= tiling.settings.tile_bytes:
        return 0
    return min(sum(band.threads for band in tiling.runner.bands), len(tiles) // 3)


def _collapsed(
    tiling: Tiling,
    op: Operator,
    made: Tiles,
    plain: tuple[()] | tuple[Tiles, Lessening],
    exchange: ByHash,
) -> Tiles:
    """Partitions, or one tile if they have few bytes in all."""
    every = [made, *plain[:1]]
    if len(made) > 1 and sum(tiles.nbytes for tiles in every) <= tiling.settings.collapse_bytes:
        tiling.decide(op, f"{sum(tiles.rows for tiles in every):,} exchanged rows are put together by one task")
        every = [gathered(tiles) for tiles in every]
    found = Partitioning.of(exchange.names, exchange.parts) if len(every[0]) == exchange.parts else None
    if not plain:
        return replace(every[0], partitioning=found)
    (ours,), (theirs,) = every[0].segments, every[1].segments
    columns = tuple(every[0].schema)
    plan = Union((selected(ours.plan, columns), selected(plain[1].single(theirs.plan), columns)))
    return Tiles((Segment(plan, (*ours.leaves, *theirs.leaves)),), partitioning=found)
