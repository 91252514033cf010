"""The tiling rule of sorts.

NumPy's order of rows with equal keys depends on the keys of all rows, so one task sorts them if there are at most :data:`MOST_ROWS`, in at
most the bytes of a tile. More rows are sorted stably. If only the first rows are wanted, the task gets the keys alone.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from craton.lower.single_node import OrderKey
from craton.lower.tiled.exchanges import gathered, sorted_within, with_positions
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.stage import NoExchange
from craton.lower.tiled.tiles import Tiles, kept, keyed, new_leaf, order_columns, selected
from craton.plan.names import hidden_name
from craton.plan.operators import Join, Operator, Project, RowNumber, Slice, Sort, schema
from craton.plan.size import estimated_rows
from craton.schedule.tasks import Read

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
        first = tiling.first_rows.get(op)
        if first is not None and tiles.rows <= MOST_ROWS and tiles.nbytes > tiling.settings.collapse_bytes:
            return await _first_rows(tiling, op, tiles, first)
        if tiles.rows <= MOST_ROWS and tiles.nbytes <= tiling.settings.tile_bytes:
            return sorted_within(op.input, gathered(tiles)).then(lambda plan: replace(op, input=plan))
    names, tiles = keyed(tiles, [key.expr for key in op.keys])
    keys: dict[str, OrderKey] = {}  # repetitions of a key have no effect
    for name, key in zip(names, op.keys, strict=True):
        keys.setdefault(name, OrderKey(name, key.descending, key.nulls_last))
    rest = tuple(key for key in tiles.order if key.name not in names)
    return replace(tiles, order=(*keys.values(), *rest), has_ties=tiles.is_positional)


async def _first_rows(tiling: Tiling, op: Sort, tiles: Tiles, count: int) -> Tiles:
    """The first rows of a sort in NumPy's order, where they are: one task finds their positions in the order of the keys."""
    (key,) = op.keys
    (name,), keys = keyed(tiles, [key.expr])
    # Also rows with unique order columns get a position: one number, that is never missing, names each row.
    keys = kept(with_positions(replace(keys, has_ties=True)))
    place = keys.order[-1].name
    names = dict.fromkeys([name, *order_columns(keys.order)])
    columns = {column: keys.schema[column] for column in names}
    outputs = await tiling.run_all(op.input, keys.then(lambda plan: selected(plan, names)), NoExchange(), ordered=True)
    one = gathered(tiling.tiles_of_outputs(columns, outputs, order=keys.order))
    rank, found = hidden_name(), hidden_name()

    def sort(plan: Operator) -> Operator:
        rows = Sort(plan, (replace(key, expr=plan.column(name)),), op.ties)
        numbered = RowNumber(Slice(rows, 0, count), rank)
        return Project(numbered, ((found, numbered.column(place)), (rank, numbered.column(rank))))

    (output,) = await tiling.run_all(op, sorted_within(op.input, one, names).then(sort), NoExchange(), ordered=True)
    tiling.record_decision(op, f"one task sorts the keys of {tiles.rows:,} rows, and finds the first {output.rows:,}")
    wanted = [column for column in schema(op) if column in keys.schema]
    positions = {found: keys.schema[place], rank: pl.UInt32()}
    segments = []
    for segment in keys.segments:
        scan, leaf = new_leaf(
            positions,
            reads=((Read((output.key,)),),) * len(segment),
            sizes=(output.parts[0],) * len(segment),
            kept=True,
        )
        plan = Join(segment.plan, scan, "inner", (segment.plan.column(place),), (scan.column(found),))
        segments.append(replace(segment, plan=selected(plan, [*wanted, rank]), leaves=(*segment.leaves, leaf)))
    return Tiles(tuple(segments), (OrderKey(rank),))
