"""Out-of-core runs: plans that exceed the memory limit run as tiles in this process, one after another.

A plan runs on a single node without tiles if that is estimated to need at most a share of `craton.options.memory_limit`, which
is faster, since no rows go through the store. Otherwise half of the limit is for pages of the store, which spills to disk, and
the other half for the kernel, which gets tiles small enough for it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from craton.config import options
from craton.lower.file_versions import in_place
from craton.plan.memory import held_bytes
from craton.plan.operators import Operator, Scan
from craton.plan.size import scanned_bytes
from craton.plan.sources import FileSource, SharedSource
from craton.plan.stages import optimize
from craton.plan.visit import topological

if TYPE_CHECKING:
    from craton.engine.tiled import TiledEngine
    from craton.schedule.inline import InlineRunner

#: The share of the memory limit that a plan without tiles may be estimated to need, and that tiled runs reserve for the kernel.
KERNEL_SHARE = 0.5


def bounded_engine(plans: list[Operator], ordered: bool = True) -> TiledEngine | None:
    """The engine that runs plans within the memory limit; None if they need no tiles for that.

    Parameters
    ----------
    plans
        The plans, before the rewrite rules.
    ordered
        Whether the order of their rows is observed.
    """
    scans = [op for plan in plans for op in topological(plan) if isinstance(op, Scan)]
    sources = [scan.source for scan in scans]
    if not any(isinstance(source, FileSource) for source in sources):
        return None  # the data is in memory, so its results are assumed to fit too
    if any(isinstance(source, SharedSource) for source in sources) or not in_place(sources):
        return None
    share = int(options.memory_limit * KERNEL_SHARE)
    if sum(map(scanned_bytes, scans)) <= share // 4:
        return None  # too small to be worth the estimate below
    if sum(held_bytes(optimize(plan), ordered) for plan in plans) <= share:
        return None
    from craton.cluster.sessions import run_here
    from craton.engine.tiled import TiledEngine
    from craton.lower.tiled.planner import Settings

    where = "in this process, to keep within the memory limit"
    return TiledEngine(
        _runner(share), run_here, Settings.within(share), least_bytes=0, where=where, bounded=True, reserved_bytes=share
    )


@functools.lru_cache(4)
def _runner(kernel_memory: int) -> InlineRunner:
    """The runner for a memory size. It has a thread that measures memory, so plans share one."""
    from craton.schedule.inline import InlineRunner

    return InlineRunner(kernel_memory=kernel_memory)
