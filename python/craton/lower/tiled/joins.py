"""The tiling rule of joins: broadcast of a small side, co-partitioned sides tile by tile, or a hash exchange of both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from craton.lower.algorithms import joins_in_order
from craton.lower.single_node import OrderKey
from craton.lower.tiled.exchanges import by_hash, coalesced, part_sizes, partitioned, skewed_parts, with_positions
from craton.lower.tiled.planner import Tiling, tiling_rule
from craton.lower.tiled.stage import NoExchange
from craton.lower.tiled.tiles import (
    KeyRanges,
    Leaf,
    Partitioning,
    Segment,
    Tiles,
    keyed,
    new_leaf,
    sliced,
    sorted_by,
)
from craton.plan.expr import Column, Expr, Literal
from craton.plan.names import hidden_name
from craton.plan.operators import Join, Operator, Project, RowNumber, schema
from craton.records import dataclass
from craton.schedule.tasks import Output, PartSize, Read

#: The kinds of joins whose right or left side can be broadcast; each row of the other side is then in exactly one task.
_RIGHT = ("inner", "left", "semi", "anti", "cross")
_LEFT = ("inner", "right", "cross")
#: A broadcast side of more output parts than this is gathered into one output first.
_MOST_PARTS = 64


@tiling_rule(Join)
async def _join(tiling: Tiling, op: Join) -> Tiles:
    left, right = await tiling.all(op.inputs)
    if op.how == "cross":
        return _broadcast_right(tiling, op, left, await tiling.materialise(op.right, right))
    if _are_copartitioned(op, left, right):
        return _join_copartitioned(tiling, op, left, right)
    few_left = op.how in _LEFT and _is_small(tiling, left)
    if op.how in _RIGHT and _is_small(tiling, right) and not (few_left and left.nbytes < right.nbytes):
        return _broadcast_right(tiling, op, left, right)
    if few_left:
        return _broadcast_left(tiling, op, left, right)
    return await _by_keys(tiling, op, left, right)


def _is_small(tiling: Tiling, tiles: Tiles) -> bool:
    """Whether tiles are materialised and small enough to be broadcast."""
    return tiles.sizes is not None and tiles.nbytes <= tiling.settings.broadcast_bytes


def _broadcast_leaf(tiling: Tiling, op: Operator, tiles: Tiles, others: Segment) -> tuple[Operator, Leaf]:
    """All rows of materialised tiles as a leaf for each tile of a segment, sorted if their order is observed."""
    read = tuple(read for tile in tiles.reads for read in tile)
    size = PartSize(tiles.rows, tiles.nbytes)
    scan, leaf = new_leaf(tiles.schema, reads=(read,) * len(others), sizes=(size,) * len(others), kept=tiles.kept)
    if not tiles.order or not tiling.observed(op):
        return scan, leaf
    return sorted_by(scan, tiles.order), leaf


def _broadcast_right(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    tiling.record_decision(op, f"the right side, {right.rows:,} rows, goes to each of {len(left)} tiles of the left")
    observed = tiling.observed(op)
    numbered = observed and bool(left.order) and op.how not in ("semi", "anti")
    segments, row = [], hidden_name()
    for segment in left.segments:
        theirs, leaf = _broadcast_leaf(tiling, op.right, right, segment)
        if numbered:
            theirs = RowNumber(theirs, row)
        plan = replace(op, left=segment.plan, right=theirs)
        segments.append(replace(segment, plan=plan, leaves=(*segment.leaves, leaf)))
    order = left.order if observed else ()
    found = _partitioning(op, left, None)
    return Tiles(tuple(segments), (*order, OrderKey(row)) if numbered else order, found)


def _broadcast_left(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    tiling.record_decision(op, f"the left side, {left.rows:,} rows, goes to each of {len(right)} tiles of the right")
    observed = tiling.observed(op)
    numbered = observed and (op.how != "right" or bool(right.order))
    if observed and op.how != "right":
        right = with_positions(right)
    segments, row = [], hidden_name()
    for segment in right.segments:
        ours, leaf = _broadcast_leaf(tiling, op.left, left, segment)
        if numbered:
            ours = RowNumber(ours, row)
        plan = replace(op, left=ours, right=segment.plan)
        segments.append(replace(segment, plan=plan, leaves=(leaf, *segment.leaves)))
    order: tuple[OrderKey, ...] = ()
    if observed:
        order = (*right.order, OrderKey(row)) if op.how == "right" and right.order else ()
        if op.how != "right":
            order = (OrderKey(row), *right.order)
    return Tiles(tuple(segments), order, _partitioning(op, None, right))


def _partitioning(op: Join, left: Tiles | None, right: Tiles | None) -> Partitioning | None:
    """The partitioning of a join's tiles: that of a side whose rows are each read by exactly one task."""
    ours, theirs = _plain_keys(op) if op.how == "inner" else ([], [])
    if left is not None and left.partitioning is not None and op.how in ("inner", "left", "semi", "anti", "cross"):
        return left.partitioning.with_equal_columns(ours, theirs)
    if right is not None and right.partitioning is not None and op.how in ("inner", "right", "cross"):
        return right.partitioning.with_equal_columns(theirs, ours)
    return None


def _plain_keys(op: Join) -> tuple[list[str], list[str]]:
    """The key pairs in which both keys are columns: the left columns, and the right ones."""
    keys = zip(op.left_on, op.right_on, strict=True)
    plain = [
        (ours.name, theirs.name) for ours, theirs in keys if isinstance(ours, Column) and isinstance(theirs, Column)
    ]
    return [ours for ours, _ in plain], [theirs for _, theirs in plain]


# ---- tile by tile ----


def _are_copartitioned(op: Join, left: Tiles, right: Tiles) -> bool:
    """Whether both sides are co-partitioned by the join's keys."""
    if left.partitioning is None or right.partitioning is None or len(left) != len(right):
        return False
    copartitioned = left.partitioning.is_copartitioned(right.partitioning, *_plain_keys(op))
    return copartitioned and len(left.segments) == len(right.segments) == 1


def _join_copartitioned(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    by_ranges = left.partitioning is not None and isinstance(left.partitioning.by, KeyRanges)
    how = "cut by ranges of the keys" if by_ranges else "partitioned by the keys already"
    tiling.record_decision(op, f"both sides are {how}, into {len(left)} tiles")
    left, right, order = _with_positions(tiling, op, left, right)
    (ours,), (theirs,) = left.segments, right.segments
    plan = replace(op, left=ours.plan, right=theirs.plan)
    segment = Segment(plan, (*ours.leaves, *theirs.leaves), {**ours.constants, **theirs.constants})
    return Tiles((segment,), order, _partitioning(op, left, right))


def _with_positions(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> tuple[Tiles, Tiles, tuple[OrderKey, ...]]:
    """Both sides with position columns, and the order columns of the join; no order columns if the order is not observed."""
    if not tiling.observed(op):
        return left, right, ()
    left = with_positions(left)
    if op.how in ("semi", "anti"):
        return left, right, left.order
    right = with_positions(right)
    return left, right, right.order + left.order if op.how == "right" else left.order + right.order


# ---- by the hash of the keys ----


async def _by_keys(tiling: Tiling, op: Join, left: Tiles, right: Tiles) -> Tiles:
    before = (left, right)
    left, right, order = _with_positions(tiling, op, left, right)
    ours, left = keyed(left, op.left_on)
    theirs, right = keyed(right, op.right_on)
    sizes = tiling.expected_bytes(op.left, left), tiling.expected_bytes(op.right, right)
    parts = tiling.parts(sum(sizes))
    # If the tiles are joined in order, the order columns of the leading side are enough, since the matches of a row come in
    # order. The side that is exchanged first may be broadcast after all, and then needs order columns too.
    leads, follows = (1, 0) if op.how == "right" else (0, 1)
    has_ties = tiling.observed(op) and joins_in_order(op) and before[follows].is_positional
    if has_ties:
        order = (left, right)[leads].order
        if follows == 1 and sizes[0] <= sizes[1]:
            theirs, right = keyed(before[1], op.right_on)
        elif follows == 0 and sizes[0] > sizes[1]:
            ours, left = keyed(before[0], op.left_on)
    # Sizes are estimates: the side that is estimated to be smaller is exchanged first, and broadcast if it turns out small.
    if sizes[0] <= sizes[1]:
        lefts = await _exchanged(tiling, op.left, left, ours, parts)
        if op.how in _LEFT and (few := await _as_broadcast(tiling, op.left, lefts)) is not None:
            return _broadcast_left(tiling, op, few, right)
        rights = await _exchanged(tiling, op.right, right, theirs, parts)
    else:
        rights = await _exchanged(tiling, op.right, right, theirs, parts)
        if op.how in _RIGHT and (few := await _as_broadcast(tiling, op.right, rights)) is not None:
            return _broadcast_right(tiling, op, left, few)
        lefts = await _exchanged(tiling, op.left, left, ours, parts)
    return replace(_join_parts(tiling, op, lefts, rights, order), has_ties=has_ties)


# ---- skewed parts ----


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a join after the hash exchange by its keys."""

    columns: dict[str, pl.DataType]
    outputs: list[Output]
    order: tuple[OrderKey, ...]
    names: tuple[str, ...]

    def sizes(self, groups: Sequence[tuple[int, ...]]) -> list[PartSize]:
        """The size of each group of parts."""
        every = part_sizes(self.outputs)
        return [PartSize(sum(every[i].rows for i in g), sum(every[i].nbytes for i in g)) for g in groups]

    def read(self, group: tuple[int, ...]) -> Read:
        """The rows of a group of parts."""
        return Read(tuple(output.key for output in self.outputs), group)


async def _exchanged(tiling: Tiling, op: Operator, tiles: Tiles, names: tuple[str, ...], parts: int) -> _Side:
    columns, outputs = await by_hash(tiling, op, tiles, names, parts, names)
    return _Side(columns, outputs, tiles.order, names)


async def _as_broadcast(tiling: Tiling, op: Operator, side: _Side) -> Tiles | None:
    """All parts as one tile to broadcast, if they are small; in one output, if they are in many."""
    every = tuple(range(len(side.outputs[0].parts)))
    tiles = partitioned(side.columns, side.outputs, [every], order=side.order)
    if not _is_small(tiling, tiles):
        return None
    if len(side.outputs) * len(every) <= _MOST_PARTS:
        return tiles
    outputs = await tiling.run_all(op, tiles, NoExchange(), ordered=False)
    return tiling.tiles_of_outputs(side.columns, outputs, order=side.order)


def _join_parts(tiling: Tiling, op: Join, left: _Side, right: _Side, order: tuple[OrderKey, ...]) -> Tiles:
    """The tiles of a join of parts. Skewed parts are cut into slices, and each left slice is joined with each right slice."""
    groups, parts = coalesced(tiling, left.outputs, right.outputs), len(left.outputs[0].parts)
    sizes = (left.sizes(groups), right.sizes(groups))
    large = [set(skewed_parts(tiling, of_side)) for of_side in sizes]
    if op.how in ("semi", "anti"):
        large[1] = set()  # the right side must be complete in each task
    pairs_of: dict[str, list[tuple[tuple[Read, PartSize], tuple[Read, PartSize]]]] = {op.how: []}
    for number, group in enumerate(groups):
        slices = []
        for side, of_side, cut in ((left, sizes[0], large[0]), (right, sizes[1], large[1])):
            size = of_side[number]
            count = -(-size.nbytes // max(tiling.settings.tile_bytes // 2, 1)) if number in cut else 1
            reads, cuts = sliced(side.read(group), size, count) if count > 1 else ([(side.read(group),)], [size])
            slices.append([(read, part) for (read,), part in zip(reads, cuts, strict=True)])
        for how, ours, theirs in _slice_joins(op, *slices):
            pairs_of.setdefault(how, []).extend(itertools.product(ours, theirs))
    segments = [_join_slices(op, how, pairs, left, right) for how, pairs in pairs_of.items() if pairs]
    count, split = sum(map(len, segments)), large[0] | large[1]
    text = f"; {len(split)} skewed ones were cut" if split else ""
    tiling.record_decision(op, f"both sides are hashed by the keys into {parts} parts, read as {count} tiles{text}")
    whole = not split and len(groups) == parts and op.how in ("inner", "left", "semi", "anti")
    if not whole:
        return Tiles(tuple(segments), order)
    found = Partitioning.of(left.names, parts)
    return Tiles(
        tuple(segments), order, found.with_equal_columns(left.names, right.names) if op.how == "inner" else found
    )


Slices = list[tuple[Read, PartSize]]


def _slice_joins(op: Join, left: Slices, right: Slices) -> Iterator[tuple[str, Slices, Slices]]:
    """The joins of one part's slices: the kind of join, and the slices of both sides, to be joined each with each.

    A side whose unmatched rows are kept may be cut if the other side is not. If both are cut, further joins find the unmatched
    rows: each slice against all rows of the other side.
    """
    lefts, rights = len(left) > 1, len(right) > 1
    keeps = (op.how in ("left", "outer"), op.how in ("right", "outer"))
    if op.how in ("inner", "semi", "anti") or not (lefts or rights):
        yield op.how, left, right
        return
    whole = (_whole(left), _whole(right))
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


def _whole(slices: Slices) -> Slices:
    read, size = slices[0][0], PartSize(sum(part.rows for _, part in slices), sum(part.nbytes for _, part in slices))
    return slices if len(slices) == 1 else [(replace(read, rows=None), size)]


def _join_slices(
    op: Join, how: str, pairs: Sequence[tuple[tuple[Read, PartSize], tuple[Read, PartSize]]], left: _Side, right: _Side
) -> Segment:
    leaves = []
    for number, side in enumerate((left, right)):
        reads = tuple((pair[number][0],) for pair in pairs)
        leaves.append(new_leaf(side.columns, reads=reads, sizes=tuple(pair[number][1] for pair in pairs)))
    (ours, left_leaf), (theirs, right_leaf) = leaves
    return Segment(_joined(op, how, ours, theirs), (left_leaf, right_leaf))


def _joined(op: Join, how: str, left: Operator, right: Operator) -> Operator:
    """A join of two slices, with all columns of both sides."""
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
