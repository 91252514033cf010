"""Plans that the kernel cannot hold: they run as tiles in this process, one after another, and the store takes the rest to disk.

A plan runs as a whole where that is expected to need no more than its share of `craton.options.memory_limit`; that is faster,
as nothing goes through the store. Else half of the limit is for pages, and the other half for the kernel, which gets tiles of
a size that it can compute in it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from craton.config import options
from craton.lower.held import in_place
from craton.plan.memory import held_bytes
from craton.plan.operators import Operator, Scan
from craton.plan.size import scanned_bytes
from craton.plan.sources import FileSource, SharedSource
from craton.plan.stages import optimize
from craton.plan.visit import topological

if TYPE_CHECKING:
    from craton.engine.tiled import TiledEngine
    from craton.schedule.inline import InlineRunner

#: Of the memory limit: what a plan may be expected to hold that runs as a whole, and what is kept free of pages otherwise.
KERNEL_SHARE = 0.5


def bounded_engine(plans: list[Operator], ordered: bool = True) -> TiledEngine | None:
    """What runs plans within the memory limit; None if the kernel can hold them as a whole.

    Parameters
    ----------
    plans
        As the front end built them.
    ordered
        Whether the order of their rows is seen.
    """
    scans = [op for plan in plans for op in topological(plan) if isinstance(op, Scan)]
    sources = [scan.source for scan in scans]
    if not any(isinstance(source, FileSource) for source in sources):
        return None  # it is in memory, so what is made of it is expected to be
    if any(isinstance(source, SharedSource) for source in sources) or not in_place(sources):
        return None
    share = int(options.memory_limit * KERNEL_SHARE)
    if sum(map(scanned_bytes, scans)) <= share // 4:
        return None  # not worth a closer look
    if sum(held_bytes(optimize(plan), ordered) for plan in plans) <= share:
        return None
    from craton.cluster.sessions import run_here
    from craton.engine.tiled import TiledEngine
    from craton.lower.tiled.planner import Settings

    where = "in this process, to keep within the memory limit"
    return TiledEngine(
        _runner(share), run_here, Settings.within(share), least_bytes=0, where=where, bounded=True, spared=share
    )


@functools.lru_cache(4)
def _runner(kernel_memory: int) -> InlineRunner:
    """A runner; it has a thread that measures, so there is one for all plans."""
    from craton.schedule.inline import InlineRunner

    return InlineRunner(kernel_memory=kernel_memory)
