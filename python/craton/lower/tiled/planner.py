"""Tiled lowering with dynamic planning: each stage runs before the rest of the plan is tiled, by the sizes that it measured.

Each kind of operator has one rule, ``rule(tiling, operator) -> Tiles``, registered with :func:`tiling_rule`. A rule awaits the
tiles of the operator's inputs. Where rows need not move it extends their plans; where they must, it runs them as a stage with
an exchange, after which the exact size of every tile is known. Independent inputs run concurrently.

As in :mod:`craton.lower.single_node`, the row order is kept only where it can be observed. Tiles, and the rows of each, are in
order until an exchange would lose the order; hidden columns hold it from there on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import polars as pl

from craton.lower.tiled.exchanges import gathered, in_order, with_positions
from craton.lower.tiled.ranges import common_ranges
from craton.lower.tiled.sources import file_folders
from craton.lower.tiled.stage import Exchange, NoExchange, StageWork, copy_of, from_arrow, to_arrow
from craton.lower.tiled.tiles import (
    KeyRanges,
    Tiles,
    kept,
    materialised,
    order_columns,
    selected,
)
from craton.plan.explain import describe
from craton.plan.memory import file_bytes
from craton.plan.operators import Operator, Project, Scan, schema
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns
from craton.plan.size import column_bytes, estimated_rows
from craton.plan.visit import readers, topological
from craton.schedule.tasks import Band, Output, Read, Runner, Task, Traffic, new_key

#: Bytes of memory that the kernel uses at most for each byte of a tile: decoded columns, hash tables, parts of an exchange.
KERNEL_FACTOR = 8
# A tile has at most the memory of a thread divided by this.
_SHARE = 24
#: The least size of a tile in bytes, however little memory there is: every part of an exchange takes a page.
_LEAST_TILE = 128 << 10

_plans = itertools.count(1)

Rule = Callable[["Tiling", Any], Awaitable[Tiles]]
_T = TypeVar("_T", bound=Operator)

RULES: dict[type[Operator], Rule] = {}


def tiling_rule(kind: type[Operator]) -> Callable[[Rule], Rule]:
    """Register the rule for a kind of operator."""

    def register(rule: Rule) -> Rule:
        if kind in RULES:
            raise ValueError(f"{kind.__name__} has a tiling rule already")
        RULES[kind] = rule
        return rule

    return register


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes by which a plan is tiled.

    Parameters
    ----------
    tiles
        The number of tiles of scans and exchanges; ``None``: by their size.
    tile_bytes
        The target size of a tile in bytes.
    broadcast_bytes
        A side of a join of at most this many bytes is broadcast to every tile of the other.
    collapse_bytes
        Tiles of at most this many bytes in all are gathered into one.
    batch_bytes
        A task exchanges its rows in batches of this many bytes while it computes them; 0: in one batch.
    pinned_bytes
        A result of more bytes is copied out of the store tile by tile, since the store may not have memory to pin all of it;
        ``None``: results are never copied.
    """

    tiles: int | None = None
    tile_bytes: int = 64 << 20
    broadcast_bytes: int = 16 << 20
    collapse_bytes: int = 4 << 20
    batch_bytes: int = 0
    pinned_bytes: int | None = None

    @classmethod
    def of_bands(cls, bands: Sequence[Band]) -> Settings:
        """Settings for workers: the more memory they have, the larger the tiles, since every tile has a fixed cost."""
        least = min((band.memory // band.threads for band in bands), default=0)
        return cls(tile_bytes=min(max(least // _SHARE, 16 << 20), 256 << 20))

    @classmethod
    def within(cls, memory: int) -> Settings:
        """Settings with which the kernel can compute one tile at a time in ``memory`` bytes."""
        tile = min(max(memory // KERNEL_FACTOR, _LEAST_TILE), 64 << 20)
        broadcast, collapse = min(tile // 2, 16 << 20), min(tile // 4, 4 << 20)
        return cls(
            tile_bytes=tile,
            broadcast_bytes=broadcast,
            collapse_bytes=collapse,
            batch_bytes=tile,
            pinned_bytes=memory // 4,
        )


@dataclass(slots=True)
class Stage:
    """Measurements of a stage that has run.

    Attributes
    ----------
    name : str
        Its number, and the kind of the operator whose rows it computes.
    operator : Operator
        The operator whose rule ran the stage, or the root.
    tiles, rows, nbytes : int
        The number of its tasks, and the rows and bytes that they wrote.
    seconds : float
        The sum of the run times of its tasks.
    exchange : str
        How its rows were exchanged.
    began, ended : float
        Seconds since the plan began.
    moved : Traffic
        The traffic of the stores meanwhile. Traffic of stages that overlap is attributed to the one that ends first.
    """

    name: str
    operator: Operator = field(repr=False)
    tiles: int
    rows: int
    nbytes: int
    seconds: float
    exchange: str
    began: float = 0.0
    ended: float = 0.0
    moved: Traffic = field(default_factory=Traffic)
    outputs: list[Output] = field(default_factory=list, repr=False)

    @property
    def longest(self) -> float:
        """The run time of the slowest task, in seconds."""
        return max((output.seconds for output in self.outputs), default=0.0)

    @property
    def memory(self) -> int:
        """The largest memory of a task beyond its inputs, in bytes; 0 if it was not measured."""
        return max((output.memory for output in self.outputs), default=0)

    @property
    def foreign(self) -> int:
        """Bytes that tasks have read from the outputs of other processes."""
        return sum(output.foreign for output in self.outputs)


#: The operator whose rule is running in this context.
_rule: ContextVar[Operator] = ContextVar("rule")


class Tiling:
    """The tiled run of one plan.

    Parameters
    ----------
    root
        The plan, after the rewrite rules.
    runner
        Runs the tasks.
    ordered
        Whether the order of the result's rows is observed.
    settings
        Sizes by which the plan is tiled.

    Attributes
    ----------
    stages : list of Stage
        The stages that have run.
    decisions : list of (str, str)
        The decisions made from measurements: the operator, and what was decided.
    notes : dict of Operator to list of str
        The decisions by operator of the plan.
    number : int
        The number of the plan in this process, from 1. Tasks are named after plan, stage and operator, as in ``"2.7 Join"``.
    seconds : float or None
        The run time of the plan; None unless it has run successfully.
    rows : int
        Rows of the result.
    first_rows : dict of Operator to int
        Operators of which only so many first rows are read.
    """

    def __init__(self, root: Operator, runner: Runner, ordered: bool = True, settings: Settings | None = None) -> None:
        self.root, self.runner, self.settings = root, runner, settings or Settings()
        self.stages: list[Stage] = []
        self.decisions: list[tuple[str, str]] = []
        self.notes: dict[Operator, list[str]] = {op: [] for op in topological(root)}
        self.number = next(_plans)
        self.seconds: float | None = None
        self.rows = 0
        self._began = 0.0
        self._moved: Traffic | None = None
        self.first_rows: dict[Operator, int] = {}
        self._observed = observed_order(root, ordered)
        self._needed = needed_columns(root)
        self._ranges: dict[Scan, tuple[str, KeyRanges]] | None = None
        self._readers = readers(root)
        self._running: dict[Operator, asyncio.Task[Tiles]] = {}
        self._keys: set[int] = set()
        self._numbers = iter(range(1, 1 << 30))

    # ---- results ----

    async def result(self) -> pl.DataFrame:
        """Run the plan and return its rows."""
        try:
            tiles = await self.materialised_result()
            frames = []
            most = self.settings.pinned_bytes
            copied = most is not None and tiles.nbytes > most
            left = Counter(key for tile in tiles.reads for read in tile for key in read.tasks)
            for number, tile in enumerate(tiles.reads):
                frame = await self.frame(tiles, number)
                frames.append(copy_of(frame) if copied else frame)
                del frame
                left.subtract(key for read in tile for key in read.tasks)
                if copied and not tiles.kept:
                    self.runner.release([key for read in tile for key in read.tasks if not left[key]])
            found = [frame for frame in frames if frame.height] or frames[:1]
            return pl.concat(found, rechunk=False) if found else pl.DataFrame(schema=dict(schema(self.root)))
        finally:
            await self.close()

    async def materialised_result(self) -> Tiles:
        """Run the plan and materialise its rows, in order tile after tile; they are kept until :meth:`close`."""
        tiles = await self.tiles_with_ties(self.root)
        if tiles.order and not self._small(tiles):
            tiles = await in_order(self, self.root, tiles)
        tiles = await self.materialise(self.root, tiles)
        return gathered(tiles) if tiles.order else tiles  # small results are sorted when they are read

    async def frame(self, tiles: Tiles, number: int) -> pl.DataFrame:
        """The rows of one tile of the result of :meth:`materialised_result`, with the columns of the plan."""
        frames = [await self._fetched(tiles, read) for read in tiles.reads[number]]
        found = [frame for frame in frames if frame.height]
        frame = pl.concat(found, rechunk=False) if found else pl.DataFrame(schema=dict(tiles.schema))
        if tiles.order:
            by = [key.name for key in tiles.order]
            descending = [key.descending for key in tiles.order]
            nulls_last = [key.nulls_last for key in tiles.order]
            frame = frame.sort(by, descending=descending, nulls_last=nulls_last, maintain_order=True)
        return frame.select(list(schema(self.root)))

    async def close(self) -> None:
        """Cancel running stages, and drop all outputs."""
        for task in self._running.values():
            task.cancel()
        self.runner.release(self._keys)

    async def _fetched(self, tiles: Tiles, read: Read) -> pl.DataFrame:
        columns = dict(tiles.schema)
        tables = [await self.runner.fetch(key, part) for key in read.tasks for part in read.parts]
        found = [from_arrow(table, columns) for table in tables if table.num_rows]
        frame = pl.concat(found, rechunk=False) if found else pl.DataFrame(schema=columns)
        return frame if read.rows is None else frame.slice(*read.rows)

    async def __call__(self, op: Operator) -> Tiles:
        """The tiles of an operator; their order columns, if they have any, order all rows without ties."""
        tiles = await self.tiles_with_ties(op)
        return with_positions(tiles) if tiles.has_ties else tiles

    async def tiles_with_ties(self, op: Operator) -> Tiles:
        """The tiles of an operator, whose order columns may have ties; shared operators are computed once.

        The caller must keep rows that tie in their relative order.
        """
        task = self._running.get(op)
        if task is None:
            task = self._running[op] = asyncio.ensure_future(self._made(op))
        return await asyncio.shield(task)

    async def all(self, ops: Iterable[Operator]) -> list[Tiles]:
        """The tiles of several operators, which run concurrently."""
        return list(await asyncio.gather(*(self(op) for op in ops)))

    async def _made(self, op: Operator) -> Tiles:
        _rule.set(op)
        if self._moved is None:  # the first operator
            self._began, self._moved = time.perf_counter(), await self.runner.traffic()
        tiles = await RULES[type(op)](self, op)
        if self._readers[op] < 2:
            return tiles
        return kept(tiles if isinstance(op, Scan) else await self.materialise(op, tiles))

    # ---- sizes and decisions ----

    def ended(self, rows: int) -> None:
        """Record that the plan has run, and the number of its rows."""
        self.seconds, self.rows = time.perf_counter() - self._began, rows

    @property
    def ranges(self) -> dict[Scan, tuple[str, KeyRanges]]:
        """The column and the values at which scans are cut into ranges; scans that are not listed are cut by rows."""
        if self._ranges is None:
            self._ranges = common_ranges(
                self.root,
                self._observed,
                least_tiles=self.least_tiles(),
                tile_bytes=self.settings.tile_bytes,
                exactly=self.settings.tiles,
            )
        return self._ranges

    def observed(self, op: Operator) -> bool:
        """Whether the order of an operator's rows is observed."""
        return self._observed.get(op, False)

    @contextlib.contextmanager
    def observing(self, op: Operator, needed: bool) -> Iterator[None]:
        """A context in which the order of an operator's rows counts as observed, if it is needed."""
        before = self.observed(op)
        self._observed[op] = before or needed
        try:
            yield
        finally:
            self._observed[op] = before

    def reads_first(self, op: Operator, count: int) -> None:
        """Record that only the first rows of an operator are read, and so of those below it that have its rows."""
        while self._readers[op] < 2:
            self.first_rows[op] = count
            if not isinstance(op, Project):
                return
            op = op.input

    def columns(self, op: Operator) -> tuple[str, ...]:
        """The columns of an operator that something above it reads; at least one."""
        columns = schema(op)
        needed = self._needed.get(op, columns.keys())
        return tuple(name for name in columns if name in needed) or tuple(columns)[:1]

    def expected_bytes(self, op: Operator, tiles: Tiles, extra: Iterable[str] = ()) -> int:
        """The bytes of an operator's rows with ``extra`` columns: exact if the tiles are materialised, else estimated."""
        if tiles.sizes is not None:
            return tiles.nbytes
        there, plan = schema(op), tiles.segments[0].plan
        names = dict.fromkeys((*self.columns(op), *extra))
        return estimated_rows(op) * sum(column_bytes(op if name in there else plan, name) for name in names)

    def parts(self, nbytes: int) -> int:
        """The number of parts of an exchange of that many bytes."""
        if self.settings.tiles is not None:
            return self.settings.tiles
        threads = sum(band.threads for band in self.runner.bands)
        wanted = max(-(-nbytes // (self.settings.tile_bytes // 2)), 2 * threads)
        if wanted < 8 * threads:
            wanted = -(-wanted // threads) * threads  # the same number of parts for each thread
        return min(wanted, 1024)

    def least_tiles(self) -> int:
        """The least number of tiles of a large scan."""
        return self.settings.tiles or 3 * sum(band.threads for band in self.runner.bands)

    def record_decision(self, op: Operator, what: str) -> None:
        """Record a decision on an operator."""
        name, detail = describe(op)
        self.decisions.append((f"{name} {detail}", what))
        self.notes.setdefault(op if op in self.notes else _rule.get(self.root), []).append(what)

    def _small(self, tiles: Tiles) -> bool:
        return tiles.sizes is not None and tiles.nbytes <= max(self.settings.collapse_bytes, 1 << 16)

    # ---- stages ----

    async def run(
        self, op: Operator, tiles: Tiles, exchange: Exchange, *, ordered: bool, extra: Iterable[str] = ()
    ) -> list[Output]:
        """Run the pending plans of tiles as a stage with an exchange.

        Parameters
        ----------
        op
            The operator whose rows the tiles contain. Its needed columns and the order columns are kept.
        extra
            Further columns to keep.
        ordered
            Whether the rows of each tile must be in order.
        """
        names = self.kept_columns(op, tiles, extra)
        return await self.run_all(op, tiles.then(lambda plan: selected(plan, names)), exchange, ordered=ordered)

    def kept_columns(self, op: Operator, tiles: Tiles, extra: Iterable[str] = ()) -> dict[str, pl.DataType]:
        """The columns of tiles to keep: the operator's needed ones, ``extra``, and the order columns; at least one."""
        have = tiles.schema
        wanted = dict.fromkeys([*self.columns(op), *extra, *order_columns(tiles.order)])
        return {name: have[name] for name in wanted if name in have} or dict([next(iter(have.items()))])

    async def run_all(
        self, op: Operator, tiles: Tiles, exchange: Exchange, *, ordered: bool, batch_bytes: int | None = None
    ) -> list[Output]:
        """Run the pending plans of tiles as a stage with an exchange, and keep all columns.

        Parameters
        ----------
        batch_bytes
            The bytes of a batch in which rows are exchanged while they are computed; ``None``: that of the settings.
        """
        batch_bytes = self.settings.batch_bytes if batch_bytes is None else batch_bytes
        number = next(self._numbers)
        name = f"{number} {type(op).__name__}"
        of_plan = f"{self.number}.{name}"
        tasks = []
        apart = len({band.node for band in self.runner.bands}) > 1
        for segment in tiles.segments:
            for tile in range(len(segment)):
                plan, reads = segment.bound(tile)
                nbytes = file_bytes(plan)
                slots = tuple(slot for slot, found in reads.items() for _ in found)
                inputs = tuple(read for found in reads.values() for read in found)
                work = StageWork(plan, slots, exchange, ordered, batch_bytes)
                folders = file_folders(plan) if apart else ()
                tasks.append(Task(new_key(), work, inputs, exchange.parts, nbytes, stage=of_plan, folders=folders))
        keys = {task.key for task in tasks}
        self._keys |= keys
        began = time.perf_counter() - self._began
        outputs = await self.runner.run(tasks)
        ended = time.perf_counter() - self._began
        self.release(tiles)
        rows, nbytes = sum(output.rows for output in outputs), sum(output.nbytes for output in outputs)
        seconds = sum(output.seconds for output in outputs)
        now, asked = await self.runner.traffic(), _rule.get(self.root)
        before = self._moved or Traffic()
        moved, self._moved = now.since(before), Traffic(*map(max, now, before))
        self.stages.append(
            Stage(name, asked, len(tasks), rows, nbytes, seconds, str(exchange), began, ended, moved, outputs)
        )
        return outputs

    def release(self, tiles: Tiles) -> None:
        """Drop the outputs that only these tiles read, after they were read for the last time."""
        done = {
            key
            for segment in tiles.segments
            for leaf in segment.leaves
            if not leaf.kept
            for tile in leaf.reads
            for read in tile
            for key in read.tasks
        }
        self.drop(done)

    def drop(self, keys: set[int]) -> None:
        """Drop the outputs of tasks, which nothing reads any more."""
        self.runner.release(keys)
        self._keys -= keys

    async def materialise(self, op: Operator, tiles: Tiles) -> Tiles:
        """Materialise tiles: run their pending plans, so that their sizes are known."""
        if tiles.sizes is not None:
            return tiles
        outputs = await self.run(op, tiles, NoExchange(), ordered=self.observed(op) and tiles.is_positional)
        columns = self.kept_columns(op, tiles)
        found = tiles.partitioning_as((name, name) for name in columns)
        return self.tiles_of_outputs(columns, outputs, order=tiles.order, has_ties=tiles.has_ties, partitioning=found)

    def tiles_of_outputs(self, columns: dict[str, pl.DataType], outputs: Sequence[Output], **changes: Any) -> Tiles:
        """Tiles of outputs that have one part each."""
        return materialised(
            columns, [(Read((output.key,)),) for output in outputs], [output.parts[0] for output in outputs], **changes
        )

    async def put(self, frame: pl.DataFrame) -> Output:
        """Store rows of this process as an output; rows that are in the store's pages already are shared."""
        output = await self.runner.put(to_arrow(frame))
        self._keys.add(output.key)
        return output


__all__ = ["RULES", "Settings", "Stage", "Tiling", "tiling_rule"]
