"""Runs optimized plans as tiles, for callers that wait."""

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
from craton.lower.held import in_place
from craton.lower.tiled.planner import Settings, Tiling
from craton.lower.tiled.stage import compact, copy_of
from craton.plan.operators import Operator, Scan, schema
from craton.plan.size import scanned_bytes
from craton.plan.sources import SharedSource
from craton.plan.visit import topological
from craton.schedule.tasks import Runner
from craton.store import default_store

Call = Callable[[Coroutine[Any, Any, Any]], Any]

#: Of rows that the kernel is given, so many pieces fit into its memory: it takes about ten before it is done with the first.
_UNDERWAY = 40


@dataclass(slots=True)
class TiledEngine:
    """What runs plans on a runner.

    Parameters
    ----------
    runner
        Where tasks run.
    call
        Runs a coroutine in the event loop of the runner, and waits for what it returns.
    settings
        What tiles are cut by.
    least_bytes
        Plans that read less run in this process as a whole.
    where
        Where the runner runs tasks, for people.
    last
        What became of the plans that ran last.
    asked
        For each of these the digests of plans, before they were optimized, of which it has computed the rows.
    runs
        How often plans were run.
    bounded
        Whether it runs them in this process because memory is short: then no frame is kept that need not be.
    spared
        Bytes that the store keeps free of pages while rows are read.
    """

    runner: Runner
    call: Call = asyncio.run
    settings: Settings = field(default_factory=Settings)
    least_bytes: int = 32 << 20
    where: str = "in this process"
    last: list[Tiling] = field(default_factory=list)
    asked: list[set[bytes]] = field(default_factory=list)
    runs: int = 0
    bounded: bool = False
    spared: int = 0

    def takes(self, plans: list[Operator]) -> bool:
        """Whether plans are worth it."""
        return self.refusal(plans) is None

    def refusal(self, plans: list[Operator]) -> str | None:
        """Why plans are not worth it; None if they are."""
        scans = {op for plan in plans for op in topological(plan) if isinstance(op, Scan)}
        if any(isinstance(op.source, SharedSource) for op in scans):
            return "it goes on from what is computed in this process"
        if not in_place(scan.source for scan in scans):
            return "a file that it reads was replaced or removed, and only this process still has it"
        nbytes = sum(map(scanned_bytes, scans))
        if nbytes >= self.least_bytes:
            return None
        return f"it reads about {format_bytes(nbytes)}, and plans are cut into tiles from {format_bytes(self.least_bytes)} on"

    def collect(self, plans: list[Operator], ordered: bool, asked: Sequence[set[bytes]] = ()) -> list[pl.DataFrame]:
        """Run plans.

        Parameters
        ----------
        plans
            After the rewrite rules.
        ordered
            Whether the order of their rows is seen.
        asked
            For each the digests by which :meth:`ran` finds it.
        """
        with progress(self._underway, memory=False):
            found: list[pl.DataFrame] = self.call(self._collect(plans, ordered))
        self.asked = list(asked)
        return found

    def ran(self, digest: bytes) -> Tiling | None:
        """What became of a plan, if it was among the last ones.

        Parameters
        ----------
        digest
            Of the plan as it was before it was optimized.
        """
        found = zip(self.asked, self.last, strict=False)
        return next((tiling for digests, tiling in found if digest in digests and tiling.seconds is not None), None)

    def _underway(self) -> str:
        """What is being done, in some words; called in a thread of its own."""
        done = sum(len(tiling.stages) for tiling in list(self.last))
        runs = [f"{run.stage or 'tasks'} {run.done}/{run.tasks} tiles" for run in self.runner.progress()]
        stages = f"{done} stage{'s' * (done != 1)} done"
        return " · ".join([*runs[:3], *[f"{len(runs) - 3} more"] * (len(runs) > 3), stages, self.where])

    @contextlib.contextmanager
    def rows(self, plan: Operator, ordered: bool = True) -> Iterator[pl.LazyFrame]:
        """Run a plan; within the block a lazy frame gives its rows, of which a tile at a time is in memory.

        Parameters
        ----------
        plan
            The plan, after the rewrite rules.
        ordered
            Whether the order of its rows is seen.
        """
        self.runs += 1
        tiling = Tiling(plan, self.runner, ordered, self.settings)
        self.last = [tiling]
        try:
            tiles = self.call(tiling.run_to_rest())

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
                            yield from _copies(frame, self.spared // _UNDERWAY)
                        else:
                            yield frame
                        if rows == 0:
                            return
                except Exception as error:
                    failed.append(error)  # raised behind the kernel's run, which is not kept waiting for rows

            with default_store().reserve(self.spared, at_least=0) if self.spared else contextlib.nullcontext():
                yield register_io_source(read, schema=dict(schema(plan)))
            if failed:
                raise failed[0]
        finally:
            self.call(tiling.close())

    async def _collect(self, plans: list[Operator], ordered: bool) -> list[pl.DataFrame]:
        self.runs += 1
        self.asked = []
        self.last = [Tiling(plan, self.runner, ordered, self.settings) for plan in plans]
        frames = []
        for tiling in self.last:
            frames.append(await tiling.result())
            tiling.ended(frames[-1].height)
        return frames


def _copies(frame: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
    """Pieces of about so many bytes, in memory of their own: the store has its own back for what is still to be read."""
    count = -(-int(frame.estimated_size()) // max(most, 1))
    rows = max(frame.height // max(count, 1), 1)
    for start in range(0, frame.height, rows):
        yield copy_of(compact(frame.slice(start, rows)))


_current: TiledEngine | None = None


_of_session: weakref.WeakKeyDictionary[Session, TiledEngine] = weakref.WeakKeyDictionary()


def current_engine() -> TiledEngine | None:
    """What runs plans now: the engine that was set, or the session's; None where they run as a whole in this process."""
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
    """Run plans so from now on."""
    global _current
    _current = engine


@contextlib.contextmanager
def using(engine: TiledEngine | None) -> Iterator[TiledEngine | None]:
    """Run plans so within the block."""
    before = _current
    set_engine(engine)
    try:
        yield engine
    finally:
        set_engine(before)
