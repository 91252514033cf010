"""The engine of tiled runs: runs optimized plans on a runner, and blocks until they are done."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from craton.cluster.sessions import Session, current
from craton.command import format_bytes
from craton.kernel.progress import progress
from craton.lower.file_versions import in_place
from craton.lower.tiled.planner import Settings, Tiling
from craton.lower.tiled.stage import compact, copy_of
from craton.plan.operators import Operator, Scan, schema
from craton.plan.size import scanned_bytes
from craton.plan.sources import SharedSource
from craton.plan.visit import topological
from craton.schedule.tasks import Runner
from craton.store import default_store

Call = Callable[[Coroutine[Any, Any, Any]], Any]

#: Rows are passed to the kernel in slices of its memory divided by this; it reads about ten before the first is processed.
_UNDERWAY = 40


@dataclass(slots=True)
class TiledEngine:
    """Runs plans as tiles on a runner.

    Parameters
    ----------
    runner
        Runs the tasks.
    call
        Runs a coroutine in the event loop of the runner and returns its result.
    settings
        Sizes by which plans are tiled.
    least_bytes
        Plans that read fewer bytes run on a single node in this process.
    where
        Where the runner runs tasks, as text.
    last
        The last runs.
    digests
        For each of the last runs the digests of plans, before the rewrite rules, that have the same rows.
    runs
        The number of runs.
    bounded
        Whether it runs plans in this process because memory is short; it then keeps as few frames as possible.
    reserved_bytes
        Bytes of the store's memory to reserve while rows are read.
    """

    runner: Runner
    call: Call = asyncio.run
    settings: Settings = field(default_factory=Settings)
    least_bytes: int = 32 << 20
    where: str = "in this process"
    last: list[Tiling] = field(default_factory=list)
    digests: list[set[bytes]] = field(default_factory=list)
    runs: int = 0
    bounded: bool = False
    reserved_bytes: int = 0

    def takes(self, plans: list[Operator]) -> bool:
        """Whether to run plans as tiles."""
        return self.refusal(plans) is None

    def refusal(self, plans: list[Operator]) -> str | None:
        """The reason not to run plans as tiles; None if there is none."""
        scans = {op for plan in plans for op in topological(plan) if isinstance(op, Scan)}
        if any(isinstance(op.source, SharedSource) for op in scans):
            return "it continues from rows that this process computes"
        if not in_place(scan.source for scan in scans):
            return "a file that it reads was replaced or removed, and only this process still has it"
        nbytes = sum(map(scanned_bytes, scans))
        if nbytes >= self.least_bytes:
            return None
        return f"it reads about {format_bytes(nbytes)}, and plans are cut into tiles from {format_bytes(self.least_bytes)} on"

    def collect(self, plans: list[Operator], ordered: bool, digests: Sequence[set[bytes]] = ()) -> list[pl.DataFrame]:
        """Run plans.

        Parameters
        ----------
        plans
            The plans, after the rewrite rules.
        ordered
            Whether the order of their rows is observed.
        digests
            For each plan the digests by which :meth:`find_run` finds its run.
        """
        with progress(self._describe_progress, memory=False):
            found: list[pl.DataFrame] = self.call(self._collect(plans, ordered))
        self.digests = list(digests)
        return found

    def find_run(self, digest: bytes) -> Tiling | None:
        """The run of a plan, if it is among the last ones and has succeeded.

        Parameters
        ----------
        digest
            The digest of the plan before the rewrite rules.
        """
        found = zip(self.digests, self.last, strict=False)
        return next((tiling for digests, tiling in found if digest in digests and tiling.seconds is not None), None)

    def _describe_progress(self) -> str:
        """A description of the running stages, for the progress line; called in another thread."""
        done = sum(len(tiling.stages) for tiling in list(self.last))
        runs = [f"{run.stage or 'tasks'} {run.done}/{run.tasks} tiles" for run in self.runner.progress()]
        stages = f"{done} stage{'s' * (done != 1)} done"
        return " · ".join([*runs[:3], *[f"{len(runs) - 3} more"] * (len(runs) > 3), stages, self.where])

    @contextlib.contextmanager
    def rows(self, plan: Operator, ordered: bool = True) -> Iterator[pl.LazyFrame]:
        """Run a plan; within the context, a lazy frame reads its rows tile by tile, so that one tile is in memory at a time.

        Parameters
        ----------
        plan
            The plan, after the rewrite rules.
        ordered
            Whether the order of its rows is observed.
        """
        self.runs += 1
        tiling = Tiling(plan, self.runner, ordered, self.settings)
        self.last = [tiling]
        try:
            tiles = self.call(tiling.materialised_result())

            failed: list[BaseException] = []

            def read(
                columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _size: int | None
            ) -> Iterator[pl.DataFrame]:
                try:
                    for number in range(len(tiles)):
                        frame = self.call(tiling.frame(tiles, number))
                        frame = frame if columns is None else frame.select(columns)
                        frame = frame if predicate is None else frame.filter(predicate)
                        if rows is not None:
                            frame = frame.head(rows)
                            rows -= frame.height
                        if self.bounded:
                            yield from _copies(frame, self.reserved_bytes // _UNDERWAY)
                        else:
                            yield frame
                        if rows == 0:
                            return
                except Exception as error:
                    failed.append(error)  # raised after the kernel's run, which ends normally with the rows that it has

            with (
                default_store().reserve(self.reserved_bytes, at_least=0)
                if self.reserved_bytes
                else contextlib.nullcontext()
            ):
                yield register_io_source(read, schema=dict(schema(plan)))
            if failed:
                raise failed[0]
        finally:
            self.call(tiling.close())

    async def _collect(self, plans: list[Operator], ordered: bool) -> list[pl.DataFrame]:
        self.runs += 1
        self.digests = []
        self.last = [Tiling(plan, self.runner, ordered, self.settings) for plan in plans]
        frames = []
        for tiling in self.last:
            frames.append(await tiling.result())
            tiling.ended(frames[-1].height)
        return frames


def _copies(frame: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
    """Copies of a frame's slices of about ``most`` bytes, so that the store can evict the pages of the original."""
    count = -(-int(frame.estimated_size()) // max(most, 1))
    rows = max(frame.height // max(count, 1), 1)
    for start in range(0, frame.height, rows):
        yield copy_of(compact(frame.slice(start, rows)))


_current: TiledEngine | None = None


_of_session: weakref.WeakKeyDictionary[Session, TiledEngine] = weakref.WeakKeyDictionary()


def current_engine() -> TiledEngine | None:
    """The engine that was set, or the session's; None if plans run on a single node in this process."""
    if _current is not None:
        return _current
    session = current()
    if session is None or session.host == "embedded":
        return None
    engine = _of_session.get(session)
    if engine is None:
        settings = Settings.of_bands(session.runner.bands)
        engine = _of_session[session] = TiledEngine(session.runner, session.call, settings, where=f"on {session.where}")
    return engine


def set_engine(engine: TiledEngine | None) -> None:
    """Set the engine that later plans run on; ``None`` for the session's."""
    global _current
    _current = engine


@contextlib.contextmanager
def using(engine: TiledEngine | None) -> Iterator[TiledEngine | None]:
    """Set the engine of plans that run within the context."""
    before = _current
    set_engine(engine)
    try:
        yield engine
    finally:
        set_engine(before)
