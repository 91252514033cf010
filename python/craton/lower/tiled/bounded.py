"""Plans that the kernel cannot hold: they run as tiles in this process, one after another, and the store takes the rest to disk.

A plan runs as a whole where that is expected to need no more than its share of `craton.options.memory_limit`; that is faster,
as nothing goes through the store. Else half of the limit is for pages, and the other half for the kernel, which gets tiles of
a size that it can compute in it.
"""

from __future__ import annotations

from craton.cluster.sessions import run_here
from craton.config import options
from craton.lower.tiled.planner import Settings
from craton.lower.tiled.running import TiledEngine
from craton.plan.memory import held_bytes
from craton.plan.operators import Operator, Scan
from craton.plan.order import topological
from craton.plan.size import scanned_bytes
from craton.plan.sources import FileSource, SharedSource
from craton.plan.stages import optimize
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
    share = int(options.memory_limit * KERNEL_SHARE)
    scans = {op for plan in plans for op in topological(plan) if isinstance(op, Scan)}
    if not any(isinstance(op.source, FileSource) for op in scans):
        return None  # it is in memory, so what is made of it is expected to be
    if any(isinstance(op.source, SharedSource) for op in scans):
        return None
    if sum(map(scanned_bytes, scans)) <= share // 4:
        return None  # not even worth a look
    if sum(held_bytes(optimize(plan), ordered) for plan in plans) <= share:
        return None
    runner = InlineRunner(kernel_memory=share)
    return TiledEngine(runner, run_here, Settings.within(share), least_bytes=0, bounded=True)
