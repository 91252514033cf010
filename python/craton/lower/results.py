"""Results of plans that were run, so that they are not run again.

Keyed by content (:class:`craton.plan.node.Node`), bounded by ``craton.options.result_memory``, the least recently used
dropped first, and all of them when the machine's memory gets short.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import polars as pl
import psutil

from craton.config import options
from craton.plan.operators import Operator, Scan
from craton.plan.order import topological
from craton.plan.rules.unnest import nested_plans
from craton.plan.sources import MemorySource


class ResultMemory:
    """A bounded map from plans to their results."""

    def __init__(self) -> None:
        self._frames: OrderedDict[Operator, tuple[pl.DataFrame, int, MemorySource]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, plan: Operator) -> pl.DataFrame | None:
        """The result of a plan, if it is remembered."""
        with self._lock:
            found = self._frames.get(plan)
            if found is None:
                return None
            self._frames.move_to_end(plan)
            return found[0]

    def put(self, plan: Operator, frame: pl.DataFrame) -> None:
        """Remember a result, unless it alone is over a quarter of the bound, or the plan reads data in memory.

        A plan over data in memory can't be built again once the data is gone, and would keep the data alive.
        """
        if _reads_memory(plan):
            return
        size = int(frame.estimated_size())
        if size > options.result_memory // 4:
            return
        with self._lock:
            self._forget(plan)
            self._frames[plan] = (frame, size, MemorySource.of(frame))
            self._bytes += size
            short = psutil.virtual_memory().percent > 90 if size > 1 << 20 else False
            bound = size if short else options.result_memory
            while self._bytes > bound and len(self._frames) > 1:
                self._forget(next(iter(self._frames)))

    def substitute(self, plan: Operator) -> Operator:
        """The plan with subplans whose results are remembered replaced by scans of these."""
        if not self._frames:
            return plan
        done: dict[Operator, Operator] = {}

        def visit(op: Operator) -> Operator:
            if op not in done:
                found = self._frames.get(op)
                if found is not None and not isinstance(op, Scan):
                    done[op] = Scan(found[2], tuple(found[0].columns))
                else:
                    done[op] = op.with_inputs(tuple(visit(child) for child in op.inputs)) if op.inputs else op
            return done[op]

        with self._lock:
            return visit(plan)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._frames.clear()
            self._bytes = 0

    def _forget(self, plan: Operator) -> None:
        found = self._frames.pop(plan, None)
        if found is not None:
            self._bytes -= found[1]

    def __len__(self) -> int:
        return len(self._frames)


def _reads_memory(plan: Operator) -> bool:
    return any(
        (isinstance(op, Scan) and isinstance(op.source, MemorySource))
        or any(_reads_memory(nested) for nested in nested_plans(op))
        for op in topological(plan)
    )


results = ResultMemory()
