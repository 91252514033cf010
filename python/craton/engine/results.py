"""Results of plans that were run, so that they are not run again.

Keyed by content (:class:`craton.plan.node.Node`), bounded by ``craton.options.result_memory``, the least recently used
dropped first, and all of them when the machine's memory gets short. A result may hold only some of the operator's columns,
or its rows in no particular order; it stands in for the operator where no more than that is asked of it.

Large results are pages of the store, which evicts them to disk when memory is needed and nobody looks at them. What the
user persisted is kept beyond the bound, until it is unpersisted. What the store cannot give back (it was closed, its process
died, all of its memory is pinned, an image is damaged) is computed again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict, deque
from dataclasses import replace

import polars as pl

from craton import forks
from craton.config import options
from craton.plan.operators import AggregateCall, Attach, Operator, Scan, schema
from craton.plan.order import observed_order
from craton.plan.rules.prune import prune_columns
from craton.plan.rules.unnest import nested_plans, with_nested_plans
from craton.plan.sources import KeptSource, MemorySource
from craton.plan.visit import topological
from craton.records import dataclass
from craton.store.frames import StoredFrame
from craton.store.process import default_store

#: Results of single aggregates that are kept.
MOST_VALUES = 4096
#: Bytes from which a result is kept in the store.
STORED_BYTES = 1 << 20


#: What keeps a store from giving back what it was given.
_UNREADABLE = (KeyError, OSError, ValueError, MemoryError)


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A result: where it is, its bytes, whether its rows are in order, and how many have persisted it."""

    source: KeptSource | MemorySource
    size: int
    ordered: bool
    holders: int = 0

    @classmethod
    def of(cls, frame: pl.DataFrame, ordered: bool) -> _Remembered:
        size = int(frame.estimated_size())
        kept = None
        if size >= STORED_BYTES and not forks.kernel_lost():  # the kernel makes Arrow of it
            with contextlib.suppress(*_UNREADABLE):
                kept = StoredFrame.keep(default_store(), frame)
        source = MemorySource.of(frame) if kept is None else KeptSource.of(kept, kept.schema)
        return cls(source, size, ordered or frame.height < 2)

    def gives(self, columns: set[str], ordered: bool) -> bool:
        if isinstance(self.source, KeptSource) and not self.source.kept.readable:
            return False
        return (self.ordered or not ordered) and columns <= self.columns

    @property
    def columns(self) -> set[str]:
        return {name for name, _ in self.source.columns}

    @property
    def persisted(self) -> bool:
        return self.holders > 0

    def frame(self) -> pl.DataFrame | None:
        """The rows, in memory as long as the frame lives; none if the store cannot give them."""
        if isinstance(self.source, MemorySource):
            return self.source.frame
        try:
            return self.source.kept.read()
        except _UNREADABLE:
            return None

    def opened(self) -> KeptSource | MemorySource | None:
        """A source that certainly can be read, as long as it lives; none if there is none."""
        if isinstance(self.source, MemorySource):
            return self.source
        frame = self.frame()
        return None if frame is None else replace(self.source, kept=_Open(frame, frame.height))


@dataclasses.dataclass(slots=True)
class _Open:
    """A kept frame that has been read."""

    frame: pl.DataFrame
    height: int

    @property
    def readable(self) -> bool:
        return True

    def read(self) -> pl.DataFrame:
        return self.frame

    def drop(self) -> None:
        """Nothing: it is dropped where it is kept."""


class ResultMemory:
    """A bounded map from operators to their results.

    Attributes
    ----------
    unused : deque of bytes
        Digests of plans that were persisted for an operator that is gone; they are unpersisted when all is forgotten, if not
        before. A finalizer may append to it.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._values: OrderedDict[tuple[bytes, bytes], pl.Series] = OrderedDict()
        self._bytes = 0
        self._lock = forks.lock()
        self.unused: deque[bytes] = deque()

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
        frame = found.frame()
        return None if frame is None else frame.select(list(schema(plan)))

    def covers(self, plan: Operator, columns: set[str], ordered: bool = False) -> bool:
        """Whether these columns of an operator are remembered, in whatever order or in the plan's."""
        with self._lock:
            found = self._known.get(plan.digest)
            return found is not None and found.gives(columns, ordered)

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
        if not over_memory and reads_memory(plan):
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
            now = self._known.get(plan.digest)
            if now is not None and now.persisted:  # by another thread, just now
                return frame
            self._forget(plan.digest)
            self._known[plan.digest] = remembered
            self._bytes += size
            short = size > 1 << 20 and _memory_is_short()
            bound = size if short else options.result_memory
            droppable = [digest for digest, known in self._known.items() if not known.persisted]
            while self._bytes > bound and len(droppable) > 1:
                self._forget(droppable.pop(0))
        there = remembered.frame()
        return frame if there is None else there

    def persisted(self, plan: Operator) -> set[str]:
        """The columns of a plan that are persisted."""
        with self._lock:
            found = self._known.get(plan.digest)
            return found.columns if found is not None and found.persisted else set()

    def persist(self, plan: Operator, frame: pl.DataFrame) -> None:
        """Keep the rows of a plan, all or some of its columns in their order, until :meth:`unpersist`.

        Each call is undone by a call of its own. What the store has no room for stays in this process's memory.

        Parameters
        ----------
        plan
            The plan.
        frame
            Its rows, with all columns that are persisted already.
        """
        with self._lock:
            found = self._known.get(plan.digest)
            if found is not None and found.persisted and found.gives(set(frame.columns), ordered=True):
                self._known[plan.digest] = replace(found, holders=found.holders + 1)
                return
        remembered = _Remembered.of(frame, ordered=True)
        with self._lock:
            before = self._known.get(plan.digest)
            self._forget(plan.digest)
            self._known[plan.digest] = replace(remembered, holders=1 + (0 if before is None else before.holders))

    def unpersist(self, plan: Operator | bytes) -> bool:
        """Keep the rows of a plan, given itself or by its digest, no longer, if nobody else has persisted them; whether they were kept."""
        with self._lock:
            digest = plan.digest if isinstance(plan, Operator) else plan
            found = self._known.get(digest)
            if found is None or not found.persisted:
                return False
            if found.holders > 1:
                self._known[digest] = replace(found, holders=found.holders - 1)
            else:
                self._forget(digest)
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
            return self._substituted(plan, ordered) if self._known else plan

    def _substituted(self, plan: Operator, ordered: bool) -> Operator:
        operators = topological(plan)
        if any(map(nested_plans, operators)):
            plan = with_nested_plans(plan, lambda nested: self._substituted(nested, ordered=False))
            operators = topological(plan)
        if not any(op.digest in self._known for op in operators):
            return plan
        observed = observed_order(plan, ordered)

        def remembered(op: Operator, needed: set[str]) -> Operator | None:
            found = self._known.get(op.digest)
            if found is None or not found.gives(needed, observed[op]):
                return None
            if isinstance(op, Scan) and not found.persisted:
                return None
            source = found.opened()
            if source is None:
                return None
            every = tuple(name for name, _ in source.columns)
            return Scan(source, tuple(name for name in schema(op) if name in needed) or every[:1])

        return prune_columns(plan, remembered)

    def clear(self) -> None:
        """Forget everything but what was persisted."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if not known.persisted]:
                self._forget(digest)
            self._values.clear()
        while self.unused:
            with contextlib.suppress(IndexError):  # by another thread, just now
                self.unpersist(self.unused.popleft())

    def _forget(self, digest: bytes) -> None:
        found = self._known.pop(digest, None)
        if found is not None:
            self._bytes -= 0 if found.persisted else found.size
            if isinstance(found.source, KeptSource):
                found.source.kept.drop()

    def __len__(self) -> int:
        return len(self._known)

    def digests(self) -> frozenset[bytes]:
        """The digests of the plans whose results are remembered."""
        with self._lock:
            return frozenset(self._known)


def _memory_is_short() -> bool:
    import psutil

    return bool(psutil.virtual_memory().percent > 90)


def reads_memory(plan: Operator) -> bool:
    """Whether a plan reads data in memory, so that its result is not remembered."""
    return any(
        (isinstance(op, (Scan, Attach)) and isinstance(op.source, MemorySource))
        or any(reads_memory(nested) for nested in nested_plans(op))
        for op in topological(plan)
    )


results = ResultMemory()
