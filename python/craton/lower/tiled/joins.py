"""The rule of joins: one side to all tiles of the other, or both by the hash of their keys."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from craton.lower.tiled.planner import Tiling, part_sizes, tiles_of
from craton.lower.tiled.tiles import Leaf, Segment, Tiles, hidden_name, keyed, new_leaf, sliced, sorted_by
from craton.lower.whole import OrderKey
from craton.plan.expr import Expr, Literal
from craton.plan.operators import Join, Operator, Project, RowNumber, schema
from craton.schedule.tasks import Output, Part, Read

#: Which side each kind of join can have broadcast: then the other's rows are all seen by exactly one task.
_RIGHT = ("inner", "left", "semi", "anti", "cross")
_LEFT = ("inner", "right", "cross")


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
    sides = (_Side(left_columns, lefts, left.order), _Side(right_columns, rights, right.order))
    return _parted(tiling, op, *sides, (ours, parts), observed)


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
    hashed = left.hashed if op.how in ("inner", "left", "semi", "anti") else None
    return Tiles((segment,), _order(op, left.order, right.order) if observed else (), hashed)


def _order(op: Join, left: tuple[OrderKey, ...], right: tuple[OrderKey, ...]) -> tuple[OrderKey, ...]:
    if op.how in ("semi", "anti"):
        return left
    return right + left if op.how == "right" else left + right


# ---- parts far larger than the others ----


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a join, parted by the hash of its keys."""

    columns: dict[str, pl.DataType]
    outputs: list[Output]
    order: tuple[OrderKey, ...]

    def sizes(self, groups: Sequence[tuple[int, ...]]) -> list[Part]:
        """The size of each group of parts."""
        every = part_sizes(self.outputs)
        return [Part(sum(every[i].rows for i in g), sum(every[i].nbytes for i in g)) for g in groups]

    def read(self, group: tuple[int, ...]) -> Read:
        """The rows of a group of parts."""
        return Read(tuple(output.key for output in self.outputs), group)


def _parted(
    tiling: Tiling, op: Join, left: _Side, right: _Side, hashed: tuple[tuple[str, ...], int], observed: bool
) -> Tiles:
    """The tiles of a join of parts. A part far larger than the others is cut on both sides, and each piece meets each."""
    groups = tiling.grouped(left.outputs, right.outputs)
    sizes = (left.sizes(groups), right.sizes(groups))
    large = [set(tiling.skewed(of_side)) for of_side in sizes]
    if op.how in ("semi", "anti"):
        large[1] = set()  # its rows are only looked up
    met: dict[str, list[tuple[tuple[Read, Part], tuple[Read, Part]]]] = {op.how: []}
    for number, group in enumerate(groups):
        pieces = []
        for side, of_side, cut in ((left, sizes[0], large[0]), (right, sizes[1], large[1])):
            size = of_side[number]
            count = -(-size.nbytes // max(tiling.settings.tile_bytes // 2, 1)) if number in cut else 1
            reads, parts = sliced(side.read(group), size, count) if count > 1 else ([(side.read(group),)], [size])
            pieces.append([(read, part) for (read,), part in zip(reads, parts, strict=True)])
        for how, ours, theirs in _meetings(op, *pieces):
            met.setdefault(how, []).extend(itertools.product(ours, theirs))
    segments = [_meeting(op, how, pairs, left, right) for how, pairs in met.items() if pairs]
    count, split = sum(map(len, segments)), large[0] | large[1]
    text = f"; {len(split)} skewed ones were cut" if split else ""
    tiling.decide(op, f"both sides by the hash of the keys into {hashed[1]} parts, read as {count} tiles{text}")
    order = _order(op, left.order, right.order) if observed else ()
    whole = not split and len(groups) == hashed[1] and op.how in ("inner", "left", "semi", "anti")
    return Tiles(tuple(segments), order, hashed if whole else None)


Pieces = list[tuple[Read, Part]]


def _meetings(op: Join, left: Pieces, right: Pieces) -> Iterator[tuple[str, Pieces, Pieces]]:
    """How pieces of one part are joined: the kind of join, and the pieces of both sides of which each meets each.

    A side whose rows without a match are kept may be cut, if the other is not; else those are found by joins of their own, each
    piece with all of the other side.
    """
    lefts, rights = len(left) > 1, len(right) > 1
    keeps = (op.how in ("left", "outer"), op.how in ("right", "outer"))
    if op.how in ("inner", "semi", "anti") or not (lefts or rights):
        yield op.how, left, right
        return
    whole = (_together(left), _together(right))
    if not rights and keeps[0]:
        yield "left", left, right
        keeps = (False, keeps[1])
    elif not lefts and keeps[1]:
        yield "right", left, right
        keeps = (keeps[0], False)
    else:
        yield "inner", left, right
    if keeps[0]:
        yield "left only", left, whole[1]
    if keeps[1]:
        yield "right only", whole[0], right


def _together(pieces: Pieces) -> Pieces:
    read, size = pieces[0][0], Part(sum(part.rows for _, part in pieces), sum(part.nbytes for _, part in pieces))
    return pieces if len(pieces) == 1 else [(replace(read, rows=None), size)]


def _meeting(
    op: Join, how: str, pairs: Sequence[tuple[tuple[Read, Part], tuple[Read, Part]]], left: _Side, right: _Side
) -> Segment:
    leaves = []
    for number, side in enumerate((left, right)):
        reads = tuple((pair[number][0],) for pair in pairs)
        leaves.append(new_leaf(side.columns, reads=reads, sizes=tuple(pair[number][1] for pair in pairs)))
    (ours, left_leaf), (theirs, right_leaf) = leaves
    return Segment(_joined(op, how, ours, theirs), (left_leaf, right_leaf))


def _joined(op: Join, how: str, left: Operator, right: Operator) -> Operator:
    """A join of pieces, with all columns of both sides."""
    if how not in ("left only", "right only"):
        return replace(op, left=left, right=right, how=how)  # type: ignore[arg-type]
    if how == "left only":
        found = Join(left, right, "anti", op.left_on, op.right_on, op.nulls_equal)
    else:
        found = Join(right, left, "anti", op.right_on, op.left_on, op.nulls_equal)
    there = schema(found)
    columns: dict[str, Expr] = {
        name: found.column(name) if name in there else Literal(None, dtype)
        for name, dtype in (schema(left) | schema(right)).items()
    }
    return Project(found, tuple(columns.items()))
