"""The rule of sorts."""

from __future__ import annotations

from craton.lower.tiled.planner import Tiling, tiles_of
from craton.lower.tiled.tiles import Tiles, columns_of, hidden_name
from craton.lower.whole import OrderKey
from craton.plan.expr import Column
from craton.plan.operators import Project, Sort, schema


@tiles_of(Sort)
async def _sort(tiling: Tiling, op: Sort) -> Tiles:
    """The rows, with the keys as what spells their order out: who sees the order puts them in it."""
    tiles = await tiling(op.input)
    if not tiling.observed(op):
        return tiles
    tiles = tiling.spelled(tiles)
    computed = []
    keys = []
    for key in op.keys:
        name = key.expr.name if isinstance(key.expr, Column) else hidden_name()
        if not isinstance(key.expr, Column):
            computed.append((name, key.expr))
        keys.append(OrderKey(name, key.descending, key.nulls_last))
    if computed:
        tiles = tiles.then(lambda plan: Project(plan, (*columns_of(plan, schema(plan)), *computed)))
    known = {key.name for key in keys}
    rest = tuple(key for key in tiles.order if key.name not in known)
    return tiles.then(lambda plan: plan, order=(*keys, *rest))
