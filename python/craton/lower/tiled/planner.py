"""Tiled lowering: a plan is cut into stages, run stage after stage, and planned on from what each has measured.

One rule an operator, ``rule(tiling, operator) -> Tiles``, registered with :func:`tiles_of`. A rule awaits the tiles of the
operator's inputs, grows their plans where rows need not move, and where they must asks for an exchange, which runs the stage:
then the exact size of every tile is known, and the rule decides by it. Independent inputs run at the same time.

The order of rows is carried as in :mod:`craton.lower.single_node`: tiles come in logical order, and so do the rows of each, until an
exchange would lose that; where somebody can observe it, hidden columns spell it out from there on.
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
from craton.lower.tiled.stage import Exchange, Keep, StageWork, copy_of, from_arrow, to_arrow
from craton.lower.tiled.tiles import (
    Ranges,
    Tiles,
    at_rest,
    kept,
    order_columns,
    selected,
)
from craton.plan.explain import describe
from craton.plan.memory import file_bytes
from craton.plan.operators import Operator, Scan, schema
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns
from craton.plan.size import column_bytes, estimated_rows
from craton.plan.visit import readers, topological
from craton.schedule.tasks import Band, Output, Read, Runner, Task, Traffic, new_key

#: Bytes of memory that the kernel has for each of a tile, at the most: what is decoded, hash tables, parts of an exchange.
KERNEL_FACTOR = 8
# Of a thread's memory, a tile may have such a part.
_SHARE = 24
#: Tiles are not smaller, whatever the memory: each part of an exchange of each has a page.
_LEAST_TILE = 128 << 10

_plans = itertools.count(1)

Rule = Callable[["Tiling", Any], Awaitable[Tiles]]
_T = TypeVar("_T", bound=Operator)

RULES: dict[type[Operator], Rule] = {}


def tiles_of(kind: type[Operator]) -> Callable[[Rule], Rule]:
    """Register the rule for a kind of operator."""

    def register(rule: Rule) -> Rule:
        if kind in RULES:
            raise ValueError(f"{kind.__name__} has a rule")
        RULES[kind] = rule
        return rule

    return register


@dataclass(frozen=True, slots=True)
class Settings:
    """What tiles are cut by.

    Parameters
    ----------
    tiles
        How many tiles scans and exchanges have; ``None``: as many as their bytes ask for.
    tile_bytes
        Bytes that a tile should have.
    broadcast_bytes
        The side of a join with no more bytes is read by every tile of the other.
    collapse_bytes
        Tiles that have no more bytes together become one.
    batch_bytes
        What a task has computed is distributed so many bytes at a time; 0: all at once.
    pinned_bytes
        Results of more bytes are copied out of the store tile by tile, as it may not have room for all; ``None``: none are.
    """

    tiles: int | None = None
    tile_bytes: int = 64 << 20
    broadcast_bytes: int = 16 << 20
    collapse_bytes: int = 4 << 20
    batch_bytes: int = 0
    pinned_bytes: int | None = None

    @classmethod
    def of_bands(cls, bands: Sequence[Band]) -> Settings:
        """Tiles for workers: large ones where there is much memory, as each has its own costs."""
        least = min((band.memory // band.threads for band in bands), default=0)
        return cls(tile_bytes=min(max(least // _SHARE, 16 << 20), 256 << 20))

    @classmethod
    def within(cls, memory: int) -> Settings:
        """Tiles of which the kernel can compute one at a time in so many bytes of memory."""
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
    """What is known of a stage that has run.

    Attributes
    ----------
    name : str
        Its number, and the kind of the operator whose rows it makes.
    operator : Operator
        The operator that asked for it: whose rule was going on, or the root.
    tiles, rows, nbytes : int
        How many tasks it had, and what they wrote.
    seconds : float
        How long its tasks ran, added up.
    exchange : str
        How its rows were distributed.
    began, ended : float
        Seconds since the plan began.
    moved : Traffic
        What stores have moved meanwhile, as far as that can be told apart from what other stages did at the same time.
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
        """Seconds of the task that ran for the longest time."""
        return max((output.seconds for output in self.outputs), default=0.0)

    @property
    def memory(self) -> int:
        """Bytes of the task that had the most beyond its inputs; 0 where none was measured."""
        return max((output.memory for output in self.outputs), default=0)

    @property
    def foreign(self) -> int:
        """Bytes that tasks have read of what other processes had made."""
        return sum(output.foreign for output in self.outputs)


#: The operator whose rule is going on.
_rule: ContextVar[Operator] = ContextVar("rule")


class Tiling:
    """One plan on its way through a runner.

    Parameters
    ----------
    root
        The plan, after the rewrite rules.
    runner
        Runs the tasks.
    ordered
        Whether the order of the result's rows is seen.
    settings
        What tiles are cut by.

    Attributes
    ----------
    stages : list of Stage
        What has run.
    decisions : list of (str, str)
        What was decided from measurements: the operator, and what was done.
    notes : dict of Operator to list of str
        The decisions beside the operators of the plan.
    number : int
        Of the plan, from 1, in this process; tasks are said to be of a stage of a plan, ``"2.7 Join"``.
    seconds : float or None
        How long the plan ran; None while it has not ended well.
    rows : int
        Rows of the result.
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
        self._observed = observed_order(root, ordered)
        self._needed = needed_columns(root)
        self._ranges: dict[Scan, tuple[str, Ranges]] | None = None
        self._readers = readers(root)
        self._running: dict[Operator, asyncio.Task[Tiles]] = {}
        self._keys: set[int] = set()
        self._numbers = iter(range(1, 1 << 30))

    # ---- the whole ----

    async def result(self) -> pl.DataFrame:
        """Run the plan."""
        try:
            tiles = await self.run_to_rest()
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

    async def run_to_rest(self) -> Tiles:
        """Run the plan; its rows at rest, tile after tile in order, until :meth:`close`."""
        tiles = await self.tied(self.root)
        if tiles.order and not self._small(tiles):
            tiles = await in_order(self, self.root, tiles)
        tiles = await self.rest(self.root, tiles)
        return gathered(tiles) if tiles.order else tiles  # few rows, which are sorted when they are looked at

    async def frame(self, tiles: Tiles, number: int) -> pl.DataFrame:
        """The rows of one tile of what :meth:`run_to_rest` gave, with the columns of the plan."""
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
        """Stop what runs, and drop what was made."""
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
        """The tiles of an operator, with columns that tell the order of any two rows, if they have an order."""
        tiles = await self.tied(op)
        return with_positions(tiles) if tiles.tied else tiles

    async def tied(self, op: Operator) -> Tiles:
        """The tiles of an operator, for who keeps ties as they are; those that several read are made once."""
        task = self._running.get(op)
        if task is None:
            task = self._running[op] = asyncio.ensure_future(self._made(op))
        return await asyncio.shield(task)

    async def all(self, ops: Iterable[Operator]) -> list[Tiles]:
        """The tiles of several operators, made at the same time."""
        return list(await asyncio.gather(*(self(op) for op in ops)))

    async def _made(self, op: Operator) -> Tiles:
        _rule.set(op)
        if self._moved is None:  # the first one
            self._began, self._moved = time.perf_counter(), await self.runner.traffic()
        tiles = await RULES[type(op)](self, op)
        if self._readers[op] < 2:
            return tiles
        return kept(tiles if isinstance(op, Scan) else await self.rest(op, tiles))

    # ---- what is known ----

    def ended(self, rows: int) -> None:
        """Take note that the plan has run, and how many rows it has."""
        self.seconds, self.rows = time.perf_counter() - self._began, rows

    @property
    def ranges(self) -> dict[Scan, tuple[str, Ranges]]:
        """By which column, and at which values, scans are cut; the others are cut by rows."""
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
        """Whether somebody sees the order of an operator's rows."""
        return self._observed.get(op, False)

    @contextlib.contextmanager
    def observing(self, op: Operator, needed: bool) -> Iterator[None]:
        """A block in which the order of an operator's rows is seen, if it is needed."""
        before = self.observed(op)
        self._observed[op] = before or needed
        try:
            yield
        finally:
            self._observed[op] = before

    def columns(self, op: Operator) -> tuple[str, ...]:
        """The columns of an operator that something above reads, one at least."""
        columns = schema(op)
        needed = self._needed.get(op, columns.keys())
        return tuple(name for name in columns if name in needed) or tuple(columns)[:1]

    def expected_bytes(self, op: Operator, tiles: Tiles, extra: Iterable[str] = ()) -> int:
        """The bytes of an operator's rows, with columns that are needed beside: exact if they are at rest, else estimated."""
        if tiles.sizes is not None:
            return tiles.nbytes
        there, plan = schema(op), tiles.segments[0].plan
        names = dict.fromkeys((*self.columns(op), *extra))
        return estimated_rows(op) * sum(column_bytes(op if name in there else plan, name) for name in names)

    def parts(self, nbytes: int) -> int:
        """How many parts an exchange of that many bytes has."""
        if self.settings.tiles is not None:
            return self.settings.tiles
        threads = sum(band.threads for band in self.runner.bands)
        wanted = max(-(-nbytes // (self.settings.tile_bytes // 2)), 2 * threads)
        if wanted < 8 * threads:
            wanted = -(-wanted // threads) * threads  # few parts are as many for each thread
        return min(wanted, 1024)

    def least_tiles(self) -> int:
        """How many tiles a large scan has at least."""
        return self.settings.tiles or 3 * sum(band.threads for band in self.runner.bands)

    def decide(self, op: Operator, what: str) -> None:
        """Note what was decided for an operator."""
        name, detail = describe(op)
        self.decisions.append((f"{name} {detail}", what))
        self.notes.setdefault(op if op in self.notes else _rule.get(self.root), []).append(what)

    def _small(self, tiles: Tiles) -> bool:
        return tiles.sizes is not None and tiles.nbytes <= max(self.settings.collapse_bytes, 1 << 16)

    # ---- stages ----

    async def run(
        self, op: Operator, tiles: Tiles, exchange: Exchange, *, ordered: bool, extra: Iterable[str] = ()
    ) -> list[Output]:
        """Run what is pending of some tiles into an exchange.

        Parameters
        ----------
        op
            The operator whose rows they are, of whose columns those are kept that something reads,
        extra
            and these, and those of the order.
        ordered
            Whether the rows of each tile are to be in logical order.
        """
        names = self.kept_columns(op, tiles, extra)
        return await self.run_all(op, tiles.then(lambda plan: selected(plan, names)), exchange, ordered=ordered)

    def kept_columns(self, op: Operator, tiles: Tiles, extra: Iterable[str] = ()) -> dict[str, pl.DataType]:
        """What tiles have of an operator's columns that something reads, of others, and of their order; one at least."""
        have = tiles.schema
        wanted = dict.fromkeys([*self.columns(op), *extra, *order_columns(tiles.order)])
        return {name: have[name] for name in wanted if name in have} or dict([next(iter(have.items()))])

    async def run_all(
        self, op: Operator, tiles: Tiles, exchange: Exchange, *, ordered: bool, batch_bytes: int | None = None
    ) -> list[Output]:
        """Run what is pending of some tiles, with all their columns, into an exchange.

        Parameters
        ----------
        batch_bytes
            Rows are distributed while they are computed, so many bytes at a time; ``None``: as the settings say.
        """
        batch_bytes = self.settings.batch_bytes if batch_bytes is None else batch_bytes
        number = next(self._numbers)
        name = f"{number} {type(op).__name__}"
        of_plan = f"{self.number}.{name}"
        tasks = []
        for segment in tiles.segments:
            for tile in range(len(segment)):
                plan, reads = segment.bound(tile)
                nbytes = file_bytes(plan)
                slots = tuple(slot for slot, found in reads.items() for _ in found)
                inputs = tuple(read for found in reads.values() for read in found)
                work = StageWork(plan, slots, exchange, ordered, batch_bytes)
                tasks.append(Task(new_key(), work, inputs, parts=exchange.parts, nbytes=nbytes, stage=of_plan))
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
        """Drop what only these tiles read: nothing reads them any more."""
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
        """Drop the outputs of some tasks: nothing reads them any more."""
        self.runner.release(keys)
        self._keys -= keys

    async def rest(self, op: Operator, tiles: Tiles) -> Tiles:
        """Run what is pending; the result is outputs, of known sizes."""
        if tiles.sizes is not None:
            return tiles
        outputs = await self.run(op, tiles, Keep(), ordered=self.observed(op) and tiles.in_place)
        columns = self.kept_columns(op, tiles)
        found = tiles.partitioning_as((name, name) for name in columns)
        return self.resting(columns, outputs, order=tiles.order, tied=tiles.tied, partitioning=found)

    def resting(self, columns: dict[str, pl.DataType], outputs: Sequence[Output], **changes: Any) -> Tiles:
        """Outputs of one part each as tiles."""
        return at_rest(
            columns, [(Read((output.key,)),) for output in outputs], [output.parts[0] for output in outputs], **changes
        )

    async def put(self, frame: pl.DataFrame) -> Output:
        """Rows that are in this process as an output; those in pages are shared."""
        output = await self.runner.put(to_arrow(frame))
        self._keys.add(output.key)
        return output


__all__ = ["RULES", "Settings", "Stage", "Tiling", "tiles_of"]
