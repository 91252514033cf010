"""Adaptive pre-aggregation: the first tiles show whether reducing rows before an exchange is worth it for the others."""

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

#: The reduction is not worth its work if more than this share of the rows remains.
_MOST_LEFT = 0.7


@dataclass(frozen=True, slots=True)
class PreAggregation:
    """How the rows of a tile are reduced before an exchange.

    Parameters
    ----------
    few
        Extends a tile's plan with the reduction. Given a name, it adds a column with the number of rows that each row stands for.
    plain
        Extends a tile's plan to exchange the rows without the reduction.
    single
        Turns each row of ``plain`` into a row of the form of ``few``, which stands for that row only.
    each
        Whether the column that ``few`` adds has the number of all rows of the tile in every row, instead.
    """

    few: Callable[[Operator, str | None], Operator]
    plain: Callable[[Operator], Operator]
    single: Callable[[Operator], Operator]
    each: bool = False


async def exchanged(
    tiling: Tiling, op: Operator, tiles: Tiles, exchange: ByHash, reduction: PreAggregation, *, ordered: bool
) -> Tiles:
    """A hash exchange of tiles, whose rows are reduced first if a trial with the first tiles shows that this pays.

    Parameters
    ----------
    op
        The operator for which the rows are exchanged.
    ordered
        Whether rows with equal keys must keep their order if they are exchanged without the reduction.
    """
    few = tiles.then(lambda plan: reduction.few(plan, None), order=(), partitioning=None)
    first, others = tiles.split_at(_tried(tiling, op, tiles))
    if not len(first):
        outputs = await tiling.run_all(op, few, exchange, ordered=False)
        groups = coalesced(tiling, outputs)
        return _collapsed(tiling, op, partitioned(dict(few.schema), outputs, groups), (), exchange)
    counted = hidden_name()
    outputs = await tiling.run_all(
        op, first.then(lambda plan: reduction.few(plan, counted)), Counted(exchange, counted), ordered=False
    )
    left = sum(output.rows for output in outputs)
    rows = sum(output.value[1 if reduction.each else 0] for output in outputs)
    largest = 0 if reduction.each else max(output.value[1] for output in outputs)
    many = left > _MOST_LEFT * rows and largest * exchange.parts <= SKEWED * rows
    tiles_tried = "the first tile" if len(first) == 1 else f"the first {len(first)} tiles"
    tiling.record_decision(
        op,
        f"pre-aggregation of {tiles_tried} left {left:,} of {rows:,} rows; the others are "
        + ("not pre-aggregated" if many else "pre-aggregated too"),
    )
    if not many:
        outputs += await tiling.run_all(
            op, others.then(lambda plan: reduction.few(plan, None)), exchange, ordered=False
        )
        tiling.release(tiles)
        groups = coalesced(tiling, outputs)
        return _collapsed(tiling, op, partitioned(dict(few.schema), outputs, groups), (), exchange)
    nbytes = sum(output.nbytes for output in outputs) * rows // max(left, 1) * len(tiles) // len(first)
    parts = tiling.parts(nbytes)
    if parts >= 2 * exchange.parts:
        tiling.record_decision(
            op, f"{parts} parts instead of {exchange.parts}: more rows are exchanged than was expected"
        )
        tiling.drop({output.key for output in outputs})
        exchange = replace(exchange, parts=parts)
        outputs = await tiling.run_all(op, first.then(lambda plan: reduction.few(plan, None)), exchange, ordered=False)
    plain = others.then(reduction.plain, order=(), partitioning=None)
    rest = await tiling.run_all(op, plain, exchange, ordered=ordered)
    tiling.release(tiles)
    groups = coalesced(tiling, outputs, rest)
    made = partitioned(dict(few.schema), outputs, groups)
    others = partitioned(dict(plain.schema), rest, groups)
    return _collapsed(tiling, op, made, (others, reduction), exchange)


def _tried(tiling: Tiling, op: Operator, tiles: Tiles) -> int:
    """The number of tiles to reduce first as a trial; 0 if there are few tiles, or few bytes to exchange."""
    if tiling.settings.tiles is not None:
        return min(1, len(tiles) // 3)
    if tiling.expected_bytes(op.inputs[0], tiles) <= tiling.settings.tile_bytes:
        return 0
    return min(sum(band.threads for band in tiling.runner.bands), len(tiles) // 3)


def _collapsed(
    tiling: Tiling,
    op: Operator,
    made: Tiles,
    plain: tuple[()] | tuple[Tiles, PreAggregation],
    exchange: ByHash,
) -> Tiles:
    """The exchanged tiles with their partitioning, gathered into one tile if they have few bytes in all."""
    every = [made, *plain[:1]]
    if len(made) > 1 and sum(tiles.nbytes for tiles in every) <= tiling.settings.collapse_bytes:
        tiling.record_decision(op, f"{sum(tiles.rows for tiles in every):,} exchanged rows are gathered by one task")
        every = [gathered(tiles) for tiles in every]
    found = Partitioning.of(exchange.names, exchange.parts) if len(every[0]) == exchange.parts else None
    if not plain:
        return replace(every[0], partitioning=found)
    (ours,), (theirs,) = every[0].segments, every[1].segments
    columns = tuple(every[0].schema)
    plan = Union((selected(ours.plan, columns), selected(plain[1].single(theirs.plan), columns)))
    return Tiles((Segment(plan, (*ours.leaves, *theirs.leaves)),), partitioning=found)
