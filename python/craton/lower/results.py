"""Results of plans that were run, so that they are not run again.

Keyed by content (:class:`craton.plan.node.Node`), bounded by ``craton.options.result_memory``, the least recently used
dropped first, and all of them when the machine's memory gets short. A result may hold only some of the operator's columns,
or its rows in no particular order; it stands in for the operator where no more than that is asked of it.

Large results are pages of the store, which evicts them to disk when memory is needed and nobody looks at them. What the
user persisted is kept beyond the bound, until it is unpersisted.
"""

from __future__ import annotations

import contextlib
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
from craton.plan.sources import KeptSource, MemorySource
from craton.store.frames import StoredFrame
from craton.store.process import default_store

#: Results of single aggregates that are kept.
MOST_VALUES = 4096
#: Bytes from which a result is kept in the store.
STORED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Remembered:
    source: KeptSource | MemorySource
    size: int
    ordered: bool
    persisted: bool = False

    @classmethod
    def of(cls, frame: pl.DataFrame, ordered: bool, *, persisted: bool = False) -> _Remembered:
        size = int(frame.estimated_size())
        kept = None
        if size >= STORED_BYTES:
            with contextlib.suppress(MemoryError, OSError, ValueError):
                kept = StoredFrame.keep(default_store(), frame)
        source = MemorySource.of(frame) if kept is None else KeptSource.of(kept, kept.schema)
        return cls(source, size, ordered or frame.height < 2, persisted)

    def gives(self, columns: set[str], ordered: bool) -> bool:
        if isinstance(self.source, KeptSource) and not self.source.kept.readable:
            return False
        return (self.ordered or not ordered) and columns <= {name for name, _ in self.source.columns}

    def frame(self) -> pl.DataFrame:
        return self.source.kept.read() if isinstance(self.source, KeptSource) else self.source.frame


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
            return found.frame().select(list(schema(plan)))

    def covers(self, plan: Operator, columns: set[str]) -> bool:
        """Whether these columns of an operator are remembered, in whatever order."""
        with self._lock:
            found = self._known.get(plan.digest)
            return found is not None and found.gives(columns, ordered=False)

    def put(
        self, plan: Operator, frame: pl.DataFrame, ordered: bool = True, *, over_memory: bool = False
    ) -> pl.DataFrame:
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

        Returns
        -------
        DataFrame
            The same rows: those in the store if they are there now, so that there is one copy.
        """
        if not over_memory and _reads_memory(plan):
            return frame
        size = int(frame.estimated_size())
        if size > options.result_memory // 4:
            return frame
        with self._lock:
            before = self._known.get(plan.digest)
            if before is not None and before.gives(set(frame.columns), ordered):
                return frame
            if before is not None and before.persisted:
                return frame
        remembered = _Remembered.of(frame, ordered)
        with self._lock:
            self._forget(plan.digest)
            self._known[plan.digest] = remembered
            self._bytes += size
            short = psutil.virtual_memory().percent > 90 if size > 1 << 20 else False
            bound = size if short else options.result_memory
            droppable = [digest for digest, known in self._known.items() if not known.persisted]
            while self._bytes > bound and len(droppable) > 1:
                self._forget(droppable.pop(0))
        return remembered.frame()

    def persist(self, plan: Operator, frame: pl.DataFrame) -> None:
        """Keep the rows of a plan, all or some of its columns in their order, until :meth:`unpersist`.

        Raises
        ------
        MemoryError
            If they do not fit beside what is pinned.
        """
        remembered = _Remembered.of(frame, ordered=True, persisted=True)
        with self._lock:
            self._forget(plan.digest)
            self._known[plan.digest] = remembered

    def unpersist(self, plan: Operator) -> bool:
        """Keep them no longer; whether they were kept."""
        with self._lock:
            found = self._known.get(plan.digest)
            if found is None or not found.persisted:
                return False
            self._forget(plan.digest)
            return True

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
                if found is None or not found.gives(needed, observed[op]):
                    return None
                if isinstance(op, Scan) and not found.persisted:
                    return None
                every = tuple(name for name, _ in found.source.columns)
                return Scan(found.source, tuple(name for name in schema(op) if name in needed) or every[:1])

            return prune_columns(plan, remembered)

    def clear(self) -> None:
        """Forget everything but what was persisted."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if not known.persisted]:
                self._forget(digest)
            self._values.clear()

    def _forget(self, digest: bytes) -> None:
        found = self._known.pop(digest, None)
        if found is not None:
            self._bytes -= 0 if found.persisted else found.size
            if isinstance(found.source, KeptSource):
                found.source.kept.drop()

    def __len__(self) -> int:
        return len(self._known)


def _reads_memory(plan: Operator) -> bool:
    return any(
        (isinstance(op, (Scan, Attach)) and isinstance(op.source, MemorySource))
        or any(_reads_memory(nested) for nested in nested_plans(op))
        for op in topological(plan)
    )


results = ResultMemory()
