"""Results of plans that were run, so that they are not run again.

Keyed by content (:class:`craton.plan.node.Node`), bounded by ``craton.options.result_memory``, the least recently used
dropped first, and all of them when the machine's memory gets short. A result may hold only some of the operator's columns,
or its rows in no particular order; it stands in for the operator where no more than that is asked of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import polars as pl
import psutil

from craton.config import options
from craton.plan.operators import AggregateCall, Attach, Operator, Scan, schema
from craton.plan.order import observed_order, topological
from craton.plan.rules.prune import prune_columns
from craton.plan.rules.unnest import nested_plans
from craton.plan.sources import MemorySource

#: Results of single aggregates that are kept.
MOST_VALUES = 4096


@dataclass(frozen=True, slots=True)
class _Remembered:
    frame: pl.DataFrame
    size: int
    source: MemorySource
    ordered: bool

    def gives(self, columns: set[str], ordered: bool) -> bool:
        return (self.ordered or not ordered) and columns <= set(self.frame.columns)


class ResultMemory:
    """A bounded map from operators to their results."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._values: OrderedDict[tuple[bytes, bytes], pl.Series] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, plan: Operator, ordered: bool = True) -> pl.DataFrame | None:
        """The result of a plan, if all of it is remembered.

        Parameters
        ----------
        plan
            The plan.
        ordered
            Whether the rows must be in the plan's order.
        """
        with self._lock:
            found = self._known.get(plan.digest)
            if found is None or not found.gives(set(schema(plan)), ordered):
                return None
            self._known.move_to_end(plan.digest)
            return found.frame.select(list(schema(plan)))

    def covers(self, plan: Operator, columns: set[str]) -> bool:
        """Whether these columns of an operator are remembered, in whatever order."""
        with self._lock:
            found = self._known.get(plan.digest)
            return found is not None and found.gives(columns, ordered=False)

    def put(self, plan: Operator, frame: pl.DataFrame, ordered: bool = True, *, over_memory: bool = False) -> None:
        """Remember a result, unless it alone is over a quarter of the bound, or the plan reads data in memory.

        A plan over data in memory can't be built again once the data is gone.

        Parameters
        ----------
        plan
            What was run.
        frame
            Its result, or some of the columns.
        ordered
            Whether the rows are in the plan's order.
        over_memory
            Remember it although the plan reads data in memory.
        """
        if not over_memory and _reads_memory(plan):
            return
        size = int(frame.estimated_size())
        if size > options.result_memory // 4:
            return
        with self._lock:
            before = self._known.get(plan.digest)
            if before is not None and before.gives(set(frame.columns), ordered):
                return
            self._forget(plan.digest)
            self._known[plan.digest] = _Remembered(frame, size, MemorySource.of(frame), ordered or frame.height < 2)
            self._bytes += size
            short = psutil.virtual_memory().percent > 90 if size > 1 << 20 else False
            bound = size if short else options.result_memory
            while self._bytes > bound and len(self._known) > 1:
                self._forget(next(iter(self._known)))

    def value(self, plan: Operator, call: AggregateCall) -> pl.Series | None:
        """The result of one aggregate over all rows of a plan, if it is remembered."""
        with self._lock:
            return self._values.get((plan.digest, call.digest))

    def note(self, plan: Operator, call: AggregateCall, result: pl.Series) -> None:
        """Remember the result of one aggregate over all rows of a plan.

        So a run that computes many (all that ``describe`` needs) serves those who ask for one. Keyed by digests: neither
        the plan nor its data is kept alive.
        """
        with self._lock:
            self._values[plan.digest, call.digest] = result
            while len(self._values) > MOST_VALUES:
                self._values.popitem(last=False)

    def substitute(self, plan: Operator, ordered: bool = True) -> Operator:
        """The plan with subplans whose results are remembered replaced by scans of these.

        Parameters
        ----------
        plan
            The plan.
        ordered
            Whether the order of its result is seen.
        """
        with self._lock:
            operators = topological(plan) if self._known else []
            if not any(op.digest in self._known for op in operators):
                return plan
            observed = observed_order(plan, ordered)

            def remembered(op: Operator, needed: set[str]) -> Operator | None:
                found = self._known.get(op.digest)
                if found is None or isinstance(op, Scan) or not found.gives(needed, observed[op]):
                    return None
                columns = tuple(name for name in schema(op) if name in needed) or tuple(found.frame.columns)[:1]
                return Scan(found.source, columns)

            return prune_columns(plan, remembered)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
            self._values.clear()
            self._bytes = 0

    def _forget(self, digest: bytes) -> None:
        found = self._known.pop(digest, None)
        if found is not None:
            self._bytes -= found.size

    def __len__(self) -> int:
        return len(self._known)


def _reads_memory(plan: Operator) -> bool:
    return any(
        (isinstance(op, (Scan, Attach)) and isinstance(op.source, MemorySource))
        or any(_reads_memory(nested) for nested in nested_plans(op))
        for op in topological(plan)
    )


results = ResultMemory()
