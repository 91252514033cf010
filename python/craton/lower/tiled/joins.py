"""The rule of joins: one side to all tiles of the other, or both by the hash of their keys."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import replace

from craton.lower.tiled.planner import Tiling, part_sizes, tiles_of
from craton.lower.tiled.tiles import Leaf, Segment, Tiles, at_rest, hidden_name, keyed, new_leaf, sorted_by
from craton.lower.whole import OrderKey
from craton.plan.operators import Join, Operator, RowNumber
from craton.schedule.tasks import Output, Part, Read

#: Which side each kind of join can have broadcast: then the other's rows are all seen by exactly one task.
_RIGHT = ("inner", "left", "semi", "anti", "cross")
_LEFT = ("inner", "right", "cross")
#: Which side's rows of a partition can be split over several tasks.
_SPLIT_LEFT = ("inner", "left", "semi", "anti")
_SPLIT_RIGHT = ("inner", "right")
#: A partition is skewed from this many times the median partition on.
_SKEWED = 4


@tiles_of(Join)
async def _join(tiling: Tiling, op: Join) -> Tiles:
    left, right = await tiling.all(op.inputs)
    limit = tiling.settings.broadcast_bytes
    left_bytes, right_bytes = tiling.expected_bytes(op.left, left), tiling.expected_bytes(op.right, right)
    # Estimates may be wrong: what may be small is made, and its exact size decides.
    may = {side: nbytes <= 4 * limit for side, nbytes in (("left", left_bytes), ("right", right_bytes))}
    may["left"] &= op.how in _LEFT
    may["right"] = op.how == "cross" or (may["right"] and op.how in _RIGHT)
    if may["left"] and may["right"]:
        left, right = await asyncio.gather(tiling.rest(op.left, left), tiling.rest(op.right, right))
    elif may["left"]:
        left = await tiling.rest(op.left, left)
    elif may["right"]:
        right = await tiling.rest(op.right, right)
    if may["left"] and left.nbytes <= limit and not (may["right"] and right.nbytes <= left.nbytes):
        return _broadcast_left(tiling, op, left, right)
    if may["right"] and (right.nbytes <= limit or op.how == "cross"):
        return _broadcast_right(tiling, op, left, right)
    return await _by_keys(tiling, op, left, right)


def _for_all(tiling: Tiling, op: Operator, tiles: Tiles, others: Segment) -> tuple[Operator, Leaf]:
    """All rows of tiles at rest, in order if that is seen, as a leaf beside each tile of a segment."""
    read = tuple(read for tile in tiles.reads for read in tile)
    size = Part(tiles.rows, tiles.nbytes)
    scan, leaf = new_leaf(tiles.schema, reads=(read,) * len(others), sizes=(size,) * len(others), kept=tiles.kept)
    if not tiles.order or not tiling.observed(op):
        return scan, leaf
    return sorted_by(scan, tiles.order), leaf


def _broadcast_right(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    tiling.decide(op, f"the right side, {right.rows:,} rows, goes to each of {len(left)} tiles of the left")
    observed = tiling.observed(op)
    numbered = observed and bool(left.order) and op.how not in ("semi", "anti")
    segments, row = [], hidden_name()
    for segment in left.segments:
        theirs, leaf = _for_all(tiling, op.right, right, segment)
        if numbered:
            theirs = RowNumber(theirs, row)
        plan = replace(op, left=segment.plan, right=theirs)
        segments.append(replace(segment, plan=plan, leaves=(*segment.leaves, leaf)))
    order = left.order if observed else ()
    hashed = left.hashed if op.how in ("inner", "left", "semi", "anti") else None
    return Tiles(tuple(segments), (*order, OrderKey(row)) if numbered else order, hashed)


def _broadcast_left(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    tiling.decide(op, f"the left side, {left.rows:,} rows, goes to each of {len(right)} tiles of the right")
    observed = tiling.observed(op)
    numbered = observed and (op.how != "right" or bool(right.order))
    if observed and op.how != "right":
        right = tiling.spelled(right)
    segments, row = [], hidden_name()
    for segment in right.segments:
        ours, leaf = _for_all(tiling, op.left, left, segment)
        if numbered:
            ours = RowNumber(ours, row)
        plan = replace(op, left=ours, right=segment.plan)
        segments.append(replace(segment, plan=plan, leaves=(leaf, *segment.leaves)))
    order: tuple[OrderKey, ...] = ()
    if observed:
        order = (*right.order, OrderKey(row)) if op.how == "right" and right.order else ()
        if op.how != "right":
            order = (OrderKey(row), *right.order)
    return Tiles(tuple(segments), order)


# ---- by the hash of the keys ----


async def _by_keys(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    observed = tiling.observed(op)
    if observed:
        left = tiling.spelled(left)
        right = tiling.spelled(right) if op.how not in ("semi", "anti") else right
    ours, left = keyed(left, op.left_on)
    theirs, right = keyed(right, op.right_on)
    aligned = _aligned(left, right, ours, theirs)
    if aligned is not None:
        tiling.decide(op, f"both sides are partitioned by the keys already, into {len(left)} tiles")
        return _pairs(op, aligned[0], aligned[1], observed)
    nbytes = tiling.expected_bytes(op.left, left) + tiling.expected_bytes(op.right, right)
    parts = tiling.parts(nbytes)
    (left_columns, lefts), (right_columns, rights) = await asyncio.gather(
        tiling.by_hash(op.left, left, ours, parts, ours), tiling.by_hash(op.right, right, theirs, parts, theirs)
    )
    groups = tiling.grouped(lefts, rights)
    left_leaf, right_leaf, count, split = _split(tiling, op, lefts, rights, groups)
    tiling.decide(op, f"both sides by the hash of the keys into {parts} parts, read as {count} tiles{split}")
    hashed = (ours, parts) if not split and len(groups) == parts else None
    left_tiles = at_rest(left_columns, *left_leaf, order=left.order, hashed=hashed)
    right_tiles = at_rest(right_columns, *right_leaf, order=right.order)
    return _pairs(op, left_tiles, right_tiles, observed)


def _aligned(left: Tiles, right: Tiles, ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[Tiles, Tiles] | None:
    """Both sides, if they are partitioned by their keys alike."""
    if left.hashed is None or right.hashed is None or left.hashed[1] != right.hashed[1]:
        return None
    if (left.hashed[0], right.hashed[0]) != (ours, theirs) or len(left) != len(right):
        return None
    return (left, right) if len(left.segments) == len(right.segments) == 1 else None


def _pairs(op: Join, left: Tiles, right: Tiles, observed: bool) -> Tiles:
    (ours,), (theirs,) = left.segments, right.segments
    plan = replace(op, left=ours.plan, right=theirs.plan)
    segment = Segment(plan, (*ours.leaves, *theirs.leaves), {**ours.constants, **theirs.constants})
    order: tuple[OrderKey, ...] = ()
    if observed:
        order = right.order + left.order if op.how == "right" else left.order + right.order
        order = left.order if op.how in ("semi", "anti") else order
    return Tiles((segment,), order, left.hashed if op.how in ("inner", "left", "semi", "anti") else None)


def _split(
    tiling: Tiling, op: Join, lefts: list[Output], rights: list[Output], groups: list[tuple[int, ...]]
) -> tuple[tuple[list[tuple[Read, ...]], list[Part]], tuple[list[tuple[Read, ...]], list[Part]], int, str]:
    """The tiles of both sides; the rows of a skewed part are split, and joined with all of the other side's each."""
    sizes = [part_sizes(lefts), part_sizes(rights)]
    keys = [tuple(output.key for output in side) for side in (lefts, rights)]
    found = [[Part(sum(s[i].rows for i in g), sum(s[i].nbytes for i in g)) for g in groups] for s in sizes]
    usual = [max(statistics.median(part.nbytes for part in side), 1) for side in found]
    reads: tuple[list[tuple[Read, ...]], list[tuple[Read, ...]]] = ([], [])
    parts: tuple[list[Part], list[Part]] = ([], [])
    split = 0
    for number, group in enumerate(groups):
        pair = [found[0][number], found[1][number]]
        pieces = [1, 1]
        for side, kinds in ((0, _SPLIT_LEFT), (1, _SPLIT_RIGHT)):
            large = pair[side].nbytes > max(_SKEWED * usual[side], tiling.settings.tile_bytes)
            if large and op.how in kinds and pair[side].nbytes >= pair[1 - side].nbytes:
                pieces[side] = -(-pair[side].nbytes // max(int(usual[side]), tiling.settings.tile_bytes // 2))
        split += max(pieces) > 1
        for i in range(max(pieces)):
            for side in (0, 1):
                size, read = pair[side], Read(keys[side], group)
                if pieces[side] > 1:
                    start, stop = size.rows * i // pieces[side], size.rows * (i + 1) // pieces[side]
                    read = replace(read, rows=(start, stop - start))
                    size = Part(stop - start, size.nbytes // pieces[side])
                reads[side].append((read,))
                parts[side].append(size)
    text = f"; {split} skewed ones were split" if split else ""
    return (reads[0], parts[0]), (reads[1], parts[1]), len(reads[0]), text
