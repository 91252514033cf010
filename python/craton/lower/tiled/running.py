"""Runs optimized plans as tiles, for callers that wait."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from craton.cluster.sessions import Session, current
from craton.lower.tiled.planner import Settings, Tiling
from craton.plan.operators import Operator, Scan
from craton.plan.order import topological
from craton.plan.size import scanned_bytes
from craton.plan.sources import SharedSource
from craton.schedule.tasks import Runner

Call = Callable[[Coroutine[Any, Any, Any]], Any]


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
    last
        What became of the plans that ran last.
    runs
        How often plans were run.
    """

    runner: Runner
    call: Call = asyncio.run
    settings: Settings = field(default_factory=Settings)
    least_bytes: int = 32 << 20
    last: list[Tiling] = field(default_factory=list)
    runs: int = 0

    def takes(self, plans: list[Operator]) -> bool:
        """Whether plans are worth it."""
        scans = {op for plan in plans for op in topological(plan) if isinstance(op, Scan)}
        if any(isinstance(op.source, SharedSource) for op in scans):
            return False
        return sum(map(scanned_bytes, scans)) >= self.least_bytes

    def collect(self, plans: list[Operator], ordered: bool) -> list[pl.DataFrame]:
        """Run plans."""
        return self.call(self._collect(plans, ordered))  # type: ignore[no-any-return]

    async def _collect(self, plans: list[Operator], ordered: bool) -> list[pl.DataFrame]:
        self.runs += 1
        self.last = [Tiling(plan, self.runner, ordered, self.settings) for plan in plans]
        return [await tiling.result() for tiling in self.last]


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
        engine = _of_session[session] = TiledEngine(session.runner, session.call)
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
