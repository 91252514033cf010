"""The tiling rule of sorts.

NumPy's order of rows with equal keys depends on all rows, so one task sorts them if there are at most :data:`MOST_ROWS`, in at most
the bytes of a tile. More rows are sorted stably.
"""

from __future__ import annotations

from dataclasses import replace

from craton.lower.single_node import OrderKey
from craton.lower.tiled.exchanges import gathered, sorted_within
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.tiles import Tiles, keyed
from craton.plan.operators import Sort
from craton.plan.size import estimated_rows

#: The most rows that are sorted in one task, so that NumPy decides the order of rows with equal keys.
MOST_ROWS = 1 << 20
#: Rows are counted before they are sorted if at most this many are estimated.
_MOST_EXPECTED = 4 * MOST_ROWS


@tiling_rule(Sort)
async def _sort(tiling: Tiling, op: Sort) -> Tiles:
    """The unsorted rows, with the sort keys as their order columns; an operator that needs the order sorts by these."""
    tiles = await tiling.tiles_with_ties(op.input)
    if not tiling.observed(op):
        return tiles
    if op.ties is not None and estimated_rows(op.input) <= _MOST_EXPECTED:
        tiles = await tiling.materialise(op.input, tiles)
        if tiles.rows <= MOST_ROWS and tiles.nbytes <= tiling.settings.tile_bytes:
            return sorted_within(op.input, gathered(tiles)).then(lambda plan: replace(op, input=plan))
    names, tiles = keyed(tiles, [key.expr for key in op.keys])
    keys: dict[str, OrderKey] = {}  # repetitions of a key have no effect
    for name, key in zip(names, op.keys, strict=True):
        keys.setdefault(name, OrderKey(name, key.descending, key.nulls_last))
    rest = tuple(key for key in tiles.order if key.name not in names)
    return replace(tiles, order=(*keys.values(), *rest), has_ties=tiles.is_positional)
