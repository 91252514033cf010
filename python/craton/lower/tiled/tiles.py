"""Tiled tables: lists of horizontal slices, each of which one task computes.

Tiles that have not been computed yet are described by a :class:`Segment`: a plan over *leaves*, and for each tile the inputs
of its leaves. An operator that needs no exchange only extends the plan, and so runs in one task with its neighbours.
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
    """The source of a leaf in a tile's plan; the task binds its slot to data."""

    slot: int

    def __repr__(self) -> str:
        return f"tile of #{self.slot}"


@dataclass(frozen=True, slots=True, eq=False)
class TileConstant(Expr):
    """A constant that has its own value in each tile."""

    number: int
    dtype: pl.DataType

    def __repr__(self) -> str:
        return f"constant #{self.number}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """The inputs of one leaf, tile by tile.

    Parameters
    ----------
    slot
        The number of its source in plans.
    scans
        For each tile a plan that reads files; empty if the leaf reads outputs of tasks.
    reads
        For each tile the outputs that it reads, one after another; empty if the leaf reads files.
    sizes
        For each tile the size of its input, if it is known.
    kept
        Whether the outputs must stay after this leaf has read them, because others read them too.
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
    """Consecutive tiles that are computed by the same plan.

    Parameters
    ----------
    plan
        The plan of each tile, over scans of :class:`TileSource`.
    leaves
        One for each slot; all have as many tiles as the segment.
    constants
        The values of each :class:`TileConstant` by its number, one for each tile.
    """

    plan: Operator
    leaves: tuple[Leaf, ...]
    constants: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.leaves[0])

    def then(self, build: Callable[[Operator], Operator]) -> Segment:
        """The tiles with an extended plan."""
        return replace(self, plan=build(self.plan))

    def with_constant(self, dtype: pl.DataType, values: Iterable[Any]) -> tuple[Segment, Expr]:
        """The segment with a new :class:`TileConstant`, and the expression, for projections over the segment's plan."""
        number = next(_slots)
        grown = replace(self, constants={**self.constants, number: tuple(values)})
        return grown, TileConstant(number, dtype)

    @property
    def is_materialised(self) -> bool:
        """Whether the tiles are materialised: outputs of tasks with no pending plan."""
        return isinstance(self.plan, Scan) and isinstance(self.plan.source, TileSource) and bool(self.leaves[0].reads)

    def some(self, start: int, stop: int) -> Segment:
        """The tiles from ``start`` up to ``stop``."""
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
        """The plan of one tile, and the outputs that each of its slots reads."""
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
class KeyRanges:
    """The range of values of one column in each tile.

    Parameters
    ----------
    starts
        The least value of each range but the first, ascending.
    """

    starts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """States that rows with equal keys are in one tile, and which tile that is.

    Parameters
    ----------
    keys
        For each key the columns that contain its value; they are equal in every row.
    by
        The number of partitions by the hash of the keys; or the ranges of the only key.
    """

    keys: tuple[frozenset[str], ...]
    by: int | KeyRanges

    @classmethod
    def of(cls, names: Iterable[str], by: int | KeyRanges) -> Partitioning:
        """A partitioning by columns."""
        return cls(tuple(frozenset([name]) for name in names), by)

    def within(self, names: Collection[str]) -> bool:
        """Whether rows that are equal in these columns are in one tile."""
        return all(not key.isdisjoint(names) for key in self.keys)

    def renamed(self, names: Iterable[tuple[str, str]]) -> Partitioning | None:
        """The partitioning under new names, from pairs of old and new names; None if a key is not among them."""
        pairs = list(names)
        keys = tuple(frozenset(new for old, new in pairs if old in key) for key in self.keys)
        return replace(self, keys=keys) if all(keys) else None

    def with_equal_columns(self, ours: Sequence[str], theirs: Sequence[str]) -> Partitioning:
        """The partitioning if the columns `theirs` are equal to the columns `ours` in every row, as after an inner join."""
        more = [{new for old, new in zip(ours, theirs, strict=True) if old in key} for key in self.keys]
        return replace(self, keys=tuple(key | found for key, found in zip(self.keys, more, strict=True)))

    def is_copartitioned(self, other: Partitioning, ours: Sequence[str], theirs: Sequence[str]) -> bool:
        """Whether two tables are co-partitioned: rows with `ours` equal to the other's `theirs` are in tiles of equal number."""
        pairs = list(zip(ours, theirs, strict=True))
        return (self.by, len(self.keys)) == (other.by, len(other.keys)) and all(
            any(left in mine and right in yours for left, right in pairs)
            for mine, yours in zip(self.keys, other.keys, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Tiles:
    """A tiled table: its tiles, how its rows are ordered, and how they are partitioned.

    Parameters
    ----------
    segments
        Its tiles, in segments one after another.
    order
        The columns by which to sort to restore the row order. Empty if the rows are in order, tile after tile, or if the order
        is not observed.
    partitioning
        The keys by which rows were distributed over the tiles; None if by none.
    has_ties
        Whether rows may be equal in all order columns. Such rows are in order by their positions, tile after tile, as all rows
        are if there are no order columns.
    """

    segments: tuple[Segment, ...]
    order: tuple[OrderKey, ...] = ()
    partitioning: Partitioning | None = None
    has_ties: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @property
    def schema(self) -> Mapping[str, pl.DataType]:
        """Names and dtypes of the columns, including hidden ones."""
        return schema(self.segments[0].plan)

    @property
    def is_positional(self) -> bool:
        """Whether the row order depends on the rows' positions, so that computing and exchanging rows must preserve these."""
        return self.has_ties or not self.order

    @property
    def sizes(self) -> tuple[PartSize, ...] | None:
        """The size of each tile, if they are materialised."""
        if not all(segment.is_materialised for segment in self.segments):
            return None
        return tuple(size for segment in self.segments for size in segment.leaves[0].sizes)

    @property
    def read(self) -> tuple[PartSize, ...]:
        """The size of each tile's input, if the tiles only rename, select or number columns of an output."""
        if not all(_only_named(segment.plan) and segment.leaves[0].sizes for segment in self.segments):
            return ()
        return tuple(size for segment in self.segments for size in segment.leaves[0].sizes)

    @property
    def kept(self) -> bool:
        """Whether some of the outputs must stay because others read them too."""
        return any(leaf.kept for segment in self.segments for leaf in segment.leaves)

    @property
    def rows(self) -> int:
        """The number of rows of materialised tiles."""
        return sum(size.rows for size in self.sizes or ())

    @property
    def nbytes(self) -> int:
        """The bytes of materialised tiles."""
        return sum(size.nbytes for size in self.sizes or ())

    @property
    def reads(self) -> tuple[tuple[Read, ...], ...]:
        """The outputs of each materialised tile."""
        return tuple(read for segment in self.segments for read in segment.leaves[0].reads)

    def split_at(self, count: int) -> tuple[Tiles, Tiles]:
        """The first ``count`` tiles, and the others. Outputs are kept, so that both can be run."""
        parts: tuple[list[Segment], list[Segment]] = ([], [])
        for segment in kept(self).segments:
            taken = min(count, len(segment))
            count -= taken
            parts[0].extend([segment.some(0, taken)] if taken else [])
            parts[1].extend([segment.some(taken, len(segment))] if taken < len(segment) else [])
        return replace(self, segments=tuple(parts[0])), replace(self, segments=tuple(parts[1]))

    def partitioned_by(self, names: Collection[str]) -> bool:
        """Whether rows that are equal in these columns are in one tile."""
        return self.partitioning is not None and self.partitioning.within(names)

    def partitioning_as(self, names: Iterable[tuple[str, str]]) -> Partitioning | None:
        """The partitioning under new column names, from pairs of old and new names."""
        return None if self.partitioning is None else self.partitioning.renamed(names)

    def then(self, build: Callable[[Operator], Operator], **changes: Any) -> Tiles:
        """The tiles with extended plans, and other attributes as given."""
        return replace(self, segments=tuple(segment.then(build) for segment in self.segments), **changes)


def _only_named(plan: Operator) -> bool:
    """Whether a plan has the rows of its one leaf, and computes nothing but sums of numbers."""
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
    """Tiles whose outputs are not dropped when a stage has read them, because several stages read them."""
    segments = tuple(
        replace(segment, leaves=tuple(replace(leaf, kept=True) for leaf in segment.leaves))
        for segment in tiles.segments
    )
    return replace(tiles, segments=segments)


def cross_joined(slices: Sequence[Tiles]) -> Tiles:
    """Tables of one tile and one row each, joined into one row."""
    segment = slices[0].segments[0]
    for piece in slices[1:]:
        (other,) = piece.segments
        plan = Join(segment.plan, other.plan, "cross", (), ())
        segment = Segment(plan, (*segment.leaves, *other.leaves), {**segment.constants, **other.constants})
    return Tiles((segment,))


def new_leaf(columns: Mapping[str, pl.DataType], **what: Any) -> tuple[Scan, Leaf]:
    """A new leaf, and the scan by which a plan reads it."""
    slot = next(_slots)
    return Scan(TileSource(tuple(columns.items()), slot), tuple(columns)), Leaf(slot, **what)


def materialised(
    columns: Mapping[str, pl.DataType], reads: Iterable[tuple[Read, ...]], sizes: Iterable[PartSize], **changes: Any
) -> Tiles:
    """Materialised tiles: outputs of tasks."""
    kept = changes.pop("kept", False)
    scan, leaf = new_leaf(columns, reads=tuple(reads), sizes=tuple(sizes), kept=kept)
    return Tiles((Segment(scan, (leaf,)),), **changes)


def sliced(read: Read, size: PartSize, wanted: int) -> tuple[list[tuple[Read, ...]], list[PartSize]]:
    """Cut a read into slices of about equally many rows, and return these and their sizes."""
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
    """A tile's plan with its slots bound to data."""
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
    """References to columns of a plan under their own names, for a projection."""
    return [(name, plan.column(name)) for name in names]


def selected(plan: Operator, names: Iterable[str]) -> Operator:
    """A plan with only these columns, in this order."""
    wanted = tuple(names)
    return plan if tuple(schema(plan)) == wanted else Project(plan, tuple(columns_of(plan, wanted)))


def order_columns(order: Iterable[OrderKey]) -> list[str]:
    """The names of order columns."""
    return [key.name for key in order]


def sorted_by(plan: Operator, order: Iterable[OrderKey]) -> Sort:
    """A plan sorted by order columns."""
    return Sort(plan, tuple(SortKey(plan.column(key.name), key.descending, key.nulls_last) for key in order))


def keyed(tiles: Tiles, keys: Sequence[Expr]) -> tuple[tuple[str, ...], Tiles]:
    """The column name of each key, and the tiles with keys that are not columns computed as hidden columns."""
    names = tuple(key.name if isinstance(key, Column) else hidden_name() for key in keys)
    computed = [(name, key) for name, key in zip(names, keys, strict=True) if not isinstance(key, Column)]
    if not computed:
        return names, tiles
    return names, tiles.then(lambda plan: Project(plan, (*columns_of(plan, schema(plan)), *computed)))
