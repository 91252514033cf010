"""Tiles: a dataset as a list of slices, each of which one task makes.

What has been planned and not run yet is a :class:`Segment`: a plan over *leaves*, and for each tile what its leaves are. So
operators that need no exchange only grow the plan, and run in one task with what comes before and after them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import polars as pl

from craton.lower.single_node import OrderKey
from craton.plan.expr import Call, Column, Expr, Literal, rebuild
from craton.plan.names import hidden_name
from craton.plan.operators import Attach, Join, Operator, Project, RowNumber, Scan, Sort, SortKey, schema
from craton.plan.sources import Source
from craton.records import dataclass
from craton.schedule.tasks import PartSize, Read

_slots = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class TileSource(Source):
    """What a tile's leaf is read from: whatever the task binds to the slot."""

    slot: int

    def __repr__(self) -> str:
        return f"tile of #{self.slot}"


@dataclass(frozen=True, slots=True, eq=False)
class TileConstant(Expr):
    """A value that is another one in each tile."""

    number: int
    dtype: pl.DataType

    def __repr__(self) -> str:
        return f"constant #{self.number}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where the tiles of one leaf are.

    Parameters
    ----------
    slot
        Its number in plans.
    scans
        For each tile a plan that reads files; or none, and
    reads
        for each tile the outputs that it reads, one after another.
    sizes
        For each tile its size, if it is known.
    kept
        Whether others read the outputs, too.
    """

    slot: int
    scans: tuple[Operator, ...] = ()
    reads: tuple[tuple[Read, ...], ...] = ()
    sizes: tuple[PartSize, ...] = ()
    kept: bool = False

    def __len__(self) -> int:
        return len(self.scans) or len(self.reads)


@dataclass(frozen=True, slots=True)
class Segment:
    """Tiles that are made in one way.

    Parameters
    ----------
    plan
        What a tile is, over scans of :class:`TileSource`.
    leaves
        One a slot, all with as many tiles as the segment has.
    constants
        By number of a :class:`TileConstant`, its value in each tile.
    """

    plan: Operator
    leaves: tuple[Leaf, ...]
    constants: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.leaves[0])

    def then(self, build: Callable[[Operator], Operator]) -> Segment:
        """The tiles with something done to each."""
        return replace(self, plan=build(self.plan))

    def with_constant(self, dtype: pl.DataType, values: Iterable[Any]) -> tuple[Segment, Expr]:
        """The segment, and an expression that has one value in each tile, for projections over its plan."""
        number = next(_slots)
        grown = replace(self, constants={**self.constants, number: tuple(values)})
        return grown, TileConstant(number, dtype)

    @property
    def at_rest(self) -> bool:
        """Whether the tiles are outputs as they are."""
        return isinstance(self.plan, Scan) and isinstance(self.plan.source, TileSource) and bool(self.leaves[0].reads)

    def some(self, start: int, stop: int) -> Segment:
        """A run of the tiles."""
        leaves = tuple(
            replace(
                leaf,
                scans=leaf.scans[start:stop],
                reads=leaf.reads[start:stop],
                sizes=leaf.sizes[start:stop],
            )
            for leaf in self.leaves
        )
        return replace(self, leaves=leaves, constants={n: values[start:stop] for n, values in self.constants.items()})

    def bound(self, tile: int) -> tuple[Operator, dict[int, tuple[Read, ...]]]:
        """The plan of one tile, and what its slots read."""
        scans: dict[int, Operator] = {}
        reads: dict[int, tuple[Read, ...]] = {}
        for leaf in self.leaves:
            if leaf.scans:
                scans[leaf.slot] = leaf.scans[tile]
            else:
                reads[leaf.slot] = leaf.reads[tile]
        values = {number: found[tile] for number, found in self.constants.items()}
        return _bound(self.plan, scans, values), reads


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of one column, one a tile.

    Parameters
    ----------
    starts
        The least value of each but the first, ascending.
    """

    starts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """That rows of equal keys are in one tile, and in which.

    Parameters
    ----------
    keys
        For each key the columns that have its value: any of them tells it.
    by
        As many partitions by the hash of the keys; or ranges of the only one.
    """

    keys: tuple[frozenset[str], ...]
    by: int | Ranges

    @classmethod
    def of(cls, names: Iterable[str], by: int | Ranges) -> Partitioning:
        """By columns."""
        return cls(tuple(frozenset([name]) for name in names), by)

    def within(self, names: Collection[str]) -> bool:
        """Whether rows that agree in these columns are in one tile."""
        return all(not key.isdisjoint(names) for key in self.keys)

    def renamed(self, names: Iterable[tuple[str, str]]) -> Partitioning | None:
        """With columns called otherwise, by pairs of the old and the new name; None if a key is not among them."""
        pairs = list(names)
        keys = tuple(frozenset(new for old, new in pairs if old in key) for key in self.keys)
        return replace(self, keys=keys) if all(keys) else None

    def beside(self, ours: Sequence[str], theirs: Sequence[str]) -> Partitioning:
        """Where each row has the values of `ours` in the columns `theirs`, too."""
        more = [{new for old, new in zip(ours, theirs, strict=True) if old in key} for key in self.keys]
        return replace(self, keys=tuple(key | found for key, found in zip(self.keys, more, strict=True)))

    def meets(self, other: Partitioning, ours: Sequence[str], theirs: Sequence[str]) -> bool:
        """Whether rows of another dataset, whose columns `theirs` are equal to `ours` here, are in the tile of the same number."""
        pairs = list(zip(ours, theirs, strict=True))
        return (self.by, len(self.keys)) == (other.by, len(other.keys)) and all(
            any(left in mine and right in yours for left, right in pairs)
            for mine, yours in zip(self.keys, other.keys, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Tiles:
    """A dataset.

    Parameters
    ----------
    segments
        Its tiles, one after another.
    order
        The columns by which its rows are in logical order; empty if tile after tile they are, or if nobody sees it.
    partitioning
        How its tiles are partitions, if they are.
    tied
        Whether rows may agree in all columns of the order: those are in logical order tile after tile, as all rows are where
        there is no order.
    """

    segments: tuple[Segment, ...]
    order: tuple[OrderKey, ...] = ()
    partitioning: Partitioning | None = None
    tied: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @property
    def schema(self) -> Mapping[str, pl.DataType]:
        """Names and types of the columns, hidden ones included."""
        return schema(self.segments[0].plan)

    @property
    def in_place(self) -> bool:
        """Whether the logical order is seen in where rows are: it must not change when they are computed or exchanged."""
        return self.tied or not self.order

    @property
    def sizes(self) -> tuple[PartSize, ...] | None:
        """The size of each tile, if they are outputs as they are."""
        if not all(segment.at_rest for segment in self.segments):
            return None
        return tuple(size for segment in self.segments for size in segment.leaves[0].sizes)

    @property
    def read(self) -> tuple[PartSize, ...]:
        """The size of what each tile reads, if that are outputs whose rows are only renamed, picked and numbered."""
        if not all(_only_named(segment.plan) and segment.leaves[0].sizes for segment in self.segments):
            return ()
        return tuple(size for segment in self.segments for size in segment.leaves[0].sizes)

    @property
    def kept(self) -> bool:
        """Whether others read some of the outputs, too."""
        return any(leaf.kept for segment in self.segments for leaf in segment.leaves)

    @property
    def rows(self) -> int:
        """Rows of outputs at rest."""
        return sum(size.rows for size in self.sizes or ())

    @property
    def nbytes(self) -> int:
        """Bytes of outputs at rest."""
        return sum(size.nbytes for size in self.sizes or ())

    @property
    def reads(self) -> tuple[tuple[Read, ...], ...]:
        """What each tile at rest reads."""
        return tuple(read for segment in self.segments for read in segment.leaves[0].reads)

    def parted(self, count: int) -> tuple[Tiles, Tiles]:
        """The first so many tiles, and the others; both may be run, because no output is dropped."""
        parts: tuple[list[Segment], list[Segment]] = ([], [])
        for segment in kept(self).segments:
            taken = min(count, len(segment))
            count -= taken
            parts[0].extend([segment.some(0, taken)] if taken else [])
            parts[1].extend([segment.some(taken, len(segment))] if taken < len(segment) else [])
        return replace(self, segments=tuple(parts[0])), replace(self, segments=tuple(parts[1]))

    def partitioned_by(self, names: Collection[str]) -> bool:
        """Whether rows that agree in these columns are in one tile."""
        return self.partitioning is not None and self.partitioning.within(names)

    def partitioning_as(self, names: Iterable[tuple[str, str]]) -> Partitioning | None:
        """How the tiles are partitions where columns are called otherwise, by pairs of the old and the new name."""
        return None if self.partitioning is None else self.partitioning.renamed(names)

    def then(self, build: Callable[[Operator], Operator], **changes: Any) -> Tiles:
        """The same tiles with something done to each."""
        return replace(self, segments=tuple(segment.then(build) for segment in self.segments), **changes)


def _only_named(plan: Operator) -> bool:
    """Whether a plan has the rows of its one leaf, with nothing computed but sums of numbers."""
    while isinstance(plan, Project | RowNumber):
        if isinstance(plan, Project) and not all(_is_light(expr) for _, expr in plan.columns):
            return False
        plan = plan.input
    return isinstance(plan, Scan) and isinstance(plan.source, TileSource)


def _is_light(expr: Expr) -> bool:
    if isinstance(expr, Call):
        return expr.function in ("add", "cast") and expr.dtype.is_numeric() and all(map(_is_light, expr.args))
    return isinstance(expr, Column | Literal | TileConstant)


def kept(tiles: Tiles) -> Tiles:
    """Tiles that several read: their outputs stay until someone releases them, or to the end."""
    segments = tuple(
        replace(segment, leaves=tuple(replace(leaf, kept=True) for leaf in segment.leaves))
        for segment in tiles.segments
    )
    return replace(tiles, segments=segments)


def side_by_side(pieces: Sequence[Tiles]) -> Tiles:
    """Datasets of one tile and one row each as one row."""
    segment = pieces[0].segments[0]
    for piece in pieces[1:]:
        (other,) = piece.segments
        plan = Join(segment.plan, other.plan, "cross", (), ())
        segment = Segment(plan, (*segment.leaves, *other.leaves), {**segment.constants, **other.constants})
    return Tiles((segment,))


def new_leaf(columns: Mapping[str, pl.DataType], **what: Any) -> tuple[Scan, Leaf]:
    """A leaf, and the scan by which a plan reads it."""
    slot = next(_slots)
    return Scan(TileSource(tuple(columns.items()), slot), tuple(columns)), Leaf(slot, **what)


def at_rest(
    columns: Mapping[str, pl.DataType], reads: Iterable[tuple[Read, ...]], sizes: Iterable[PartSize], **changes: Any
) -> Tiles:
    """Tiles that are outputs as they are."""
    kept = changes.pop("kept", False)
    scan, leaf = new_leaf(columns, reads=tuple(reads), sizes=tuple(sizes), kept=kept)
    return Tiles((Segment(scan, (leaf,)),), **changes)


def sliced(read: Read, size: PartSize, wanted: int) -> tuple[list[tuple[Read, ...]], list[PartSize]]:
    """A read cut into about equal runs of rows."""
    count = max(min(wanted, size.rows), 1)
    cuts = [size.rows * i // count for i in range(count + 1)]
    runs = [(start, stop - start) for start, stop in itertools.pairwise(cuts)]
    sizes = [PartSize(rows, size.nbytes * rows // max(size.rows, 1)) for _, rows in runs]
    before = 0 if read.rows is None else read.rows[0]
    return [(replace(read, rows=(before + start, rows)),) for start, rows in runs], sizes


def _bound(plan: Operator, scans: Mapping[int, Operator], values: Mapping[int, Any]) -> Operator:
    done: dict[Operator, Operator] = {}

    def constant(expr: Expr) -> Expr:
        if isinstance(expr, TileConstant):
            return Literal(values[expr.number], expr.dtype)
        return rebuild(expr, constant)

    def visit(op: Operator) -> Operator:
        if op not in done:
            done[op] = made(op)
        return done[op]

    def made(op: Operator) -> Operator:
        if isinstance(op, Scan):
            found = scans.get(op.source.slot) if isinstance(op.source, TileSource) else None
            return op if found is None else selected(found, op.columns)
        inputs = tuple(map(visit, op.inputs))
        if not values:
            return op.with_inputs(inputs)
        return op.with_expressions([tuple(map(constant, exprs)) for exprs in op.expressions], inputs)

    return visit(plan)


def bind(plan: Operator, frames: Mapping[int, Source]) -> Operator:
    """A tile's plan with its slots read from data."""
    done: dict[Operator, Operator] = {}

    def visit(op: Operator) -> Operator:
        if op not in done:
            if isinstance(op, Scan):
                done[op] = replace(op, source=frames[op.source.slot]) if isinstance(op.source, TileSource) else op
            else:
                made = op.with_inputs(tuple(map(visit, op.inputs)))
                if isinstance(made, Attach) and isinstance(made.source, TileSource):
                    made = replace(made, source=frames[made.source.slot])
                done[op] = made
        return done[op]

    return visit(plan)


def columns_of(plan: Operator, names: Iterable[str]) -> list[tuple[str, Expr]]:
    """Some columns of a plan as they are, for a projection."""
    return [(name, plan.column(name)) for name in names]


def selected(plan: Operator, names: Iterable[str]) -> Operator:
    """A plan with these columns of it, in this order."""
    wanted = tuple(names)
    return plan if tuple(schema(plan)) == wanted else Project(plan, tuple(columns_of(plan, wanted)))


def order_columns(order: Iterable[OrderKey]) -> list[str]:
    """The names of the columns that order is kept in."""
    return [key.name for key in order]


def sorted_by(plan: Operator, order: Iterable[OrderKey]) -> Sort:
    """A plan's rows by the columns that order is kept in."""
    return Sort(plan, tuple(SortKey(plan.column(key.name), key.descending, key.nulls_last) for key in order))


def keyed(tiles: Tiles, keys: Sequence[Expr]) -> tuple[tuple[str, ...], Tiles]:
    """The name of the column that each key is, and the tiles with those that are computed as more columns."""
    names = tuple(key.name if isinstance(key, Column) else hidden_name() for key in keys)
    computed = [(name, key) for name, key in zip(names, keys, strict=True) if not isinstance(key, Column)]
    if not computed:
        return names, tiles
    return names, tiles.then(lambda plan: Project(plan, (*columns_of(plan, schema(plan)), *computed)))
