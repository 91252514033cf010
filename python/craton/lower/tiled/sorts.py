"""The tiling rule of sorts."""

from __future__ import annotations

from dataclasses import replace

from craton.lower.single_node import OrderKey
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.tiles import Tiles, keyed
from craton.plan.operators import Sort


@tiling_rule(Sort)
async def _sort(tiling: Tiling, op: Sort) -> Tiles:
    """The unsorted rows, with the sort keys as their order columns; an operator that needs the order sorts by these."""
    tiles = await tiling.tiles_with_ties(op.input)
    if not tiling.observed(op):
        return tiles
    names, tiles = keyed(tiles, [key.expr for key in op.keys])
    keys: dict[str, OrderKey] = {}  # repetitions of a key have no effect
    for name, key in zip(names, op.keys, strict=True):
        keys.setdefault(name, OrderKey(name, key.descending, key.nulls_last))
    rest = tuple(key for key in tiles.order if key.name not in names)
    return replace(tiles, order=(*keys.values(), *rest), has_ties=tiles.is_positional)
