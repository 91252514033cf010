"""The cache of plan results, so that a plan is not run twice.

Results are keyed by content hash (:class:`craton.plan.node.Node`). The cache is bounded by ``craton.options.result_memory``
and evicts the least recently used results first, and all of them when the machine's memory is short. A result may have only
some of an operator's columns, or its rows in arbitrary order; it replaces the operator where that is sufficient.

Results are kept as they were computed, in this process's memory, up to a small part of ``craton.options.memory_limit``. Beyond it,
large results are pages of the store, which spills unpinned pages to disk when memory is needed. Persisted results do not count
towards the limit and stay until they are unpersisted. If the store cannot return a result (it was closed, its process ended,
all of its memory is pinned, an image is damaged), the plan runs again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import OrderedDict, deque
from dataclasses import replace

import polars as pl

from craton import forks
from craton.config import options
from craton.engine.uncertain import uncertain_groups
from craton.kernel.sizes import bytes_of
from craton.plan.operators import AggregateCall, Attach, Operator, Scan, Slice, schema
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns, prune_columns
from craton.plan.rules.unnest import every_operator, nested_plans, with_nested_plans
from craton.plan.sources import KeptSource, MemorySource
from craton.plan.visit import topological
from craton.records import dataclass
from craton.store.frames import StoredFrame
from craton.store.process import default_store

#: The greatest number of results of single aggregates.
MOST_VALUES = 4096
#: A result is kept if it takes at most one part in so many of the limit.
LARGEST_PART = 2
#: Results of at least this many bytes are put into the store, if they are not kept in this process's memory.
STORED_BYTES = 1 << 20
#: This process's memory holds results of at most one part in so many of the memory limit.
HELD_PART = 8

#: Errors with which a store fails to return a result.
_UNREADABLE = (KeyError, OSError, ValueError, MemoryError)


_numbers = itertools.count(1)
_Groups = tuple[tuple[bytes, int | None], ...]
"""Digests of group-bys, and the numbers of their cached results; None if they were not cached."""


@dataclass(frozen=True, slots=True)
class _CachedResult:
    """A cached result: its source, its bytes, whether its rows are in order, and the count of its ``persist`` calls.

    ``groups`` has the uncertain group-bys that it was computed from, with the number of their own cached results at that time.
    """

    source: KeptSource | MemorySource
    size: int
    ordered: bool
    holders: int = 0
    groups: _Groups = ()
    number: int = dataclasses.field(default_factory=lambda: next(_numbers))

    @classmethod
    def of(
        cls, frame: pl.DataFrame, size: int, ordered: bool, *, free: int | None = 0, groups: _Groups = ()
    ) -> _CachedResult:
        """Cache a frame of ``size`` bytes, in this process's memory if it takes at most ``free`` bytes of it; None is no limit."""
        kept = None
        # Conversion to Arrow needs the kernel.
        if size >= STORED_BYTES and free is not None and not forks.kernel_lost():
            if size <= free:
                frame = _as_arrays(frame)
            else:
                with contextlib.suppress(*_UNREADABLE):
                    kept = StoredFrame.keep(default_store(), frame)
        source = MemorySource.of(frame) if kept is None else KeptSource.of(kept, kept.schema)
        return cls(source, size, ordered or frame.height < 2, groups=groups)

    def satisfies(self, columns: set[str], ordered: bool) -> bool:
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
        """The rows, which are pinned in memory as long as the frame exists; ``None`` if the store cannot return them."""
        if isinstance(self.source, MemorySource):
            return self.source.frame
        try:
            return self.source.kept.read()
        except _UNREADABLE:
            return None

    def opened(self) -> KeptSource | MemorySource | None:
        """A source with its rows pinned, so that reading cannot fail; ``None`` if the store cannot return them."""
        if isinstance(self.source, MemorySource):
            return self.source
        frame = self.frame()
        return None if frame is None else replace(self.source, kept=_PinnedFrame(frame, frame.height))


@dataclasses.dataclass(slots=True)
class _PinnedFrame:
    """A stored frame that has been read and stays in memory."""

    frame: pl.DataFrame
    height: int

    @property
    def readable(self) -> bool:
        return True

    def read(self) -> pl.DataFrame:
        return self.frame

    def drop(self) -> None:
        """Does nothing: the cached result itself is dropped."""


class ResultCache:
    """A bounded cache of results by operator.

    Attributes
    ----------
    unused : deque of bytes
        Digests of plans that were persisted for operators which were garbage-collected; they are unpersisted by :meth:`clear`
        at the latest. Finalizers append to it.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _CachedResult] = OrderedDict()
        self._values: OrderedDict[tuple[bytes, bytes], tuple[pl.Series, _Groups]] = OrderedDict()
        self._bytes = 0
        self._lock = forks.lock()
        self.unused: deque[bytes] = deque()

    def get(self, plan: Operator, ordered: bool = True) -> pl.DataFrame | None:
        """The result of a plan, if all of its columns are cached.

        Parameters
        ----------
        plan
            The plan.
        ordered
            Whether the rows must be in the plan's order.
        """
        with self._lock:
            found = self._valid(plan.digest)
            if found is None or not found.satisfies(set(schema(plan)), ordered):
                return None
            self._known.move_to_end(plan.digest)
        frame = found.frame()
        return None if frame is None else frame.select(list(schema(plan)))

    def covers(self, plan: Operator, columns: set[str], ordered: bool = False) -> bool:
        """Whether these columns of an operator are cached, in the plan's row order if ``ordered``, else in any."""
        with self._lock:
            found = self._valid(plan.digest)
            return found is not None and found.satisfies(columns, ordered)

    def kept_in_order(self, plan: Operator) -> pl.DataFrame | None:
        """The columns of a plan that are cached in row order in this process's memory; None if there are none."""
        with self._lock:
            found = self._valid(plan.digest)
            in_order = found is not None and found.ordered and isinstance(found.source, MemorySource)
            return found.source.frame if in_order else None  # type: ignore[union-attr]

    def put(
        self,
        plan: Operator,
        frame: pl.DataFrame,
        ordered: bool = True,
        *,
        over_memory: bool = False,
        stored: bool = True,
    ) -> pl.DataFrame:
        """Cache a result, unless it is larger than half of the limit, or the plan reads data in memory.

        A plan over data in memory cannot be built again once the data is gone, so caching it would be useless.

        Parameters
        ----------
        plan
            The plan.
        frame
            Its result, or some of its columns.
        ordered
            Whether the rows are in the plan's order.
        over_memory
            Cache it even if the plan reads data in memory. It then stays in this process's memory, as that data does.
        stored
            Whether a large result is put into the store if this process's memory holds enough of them; otherwise it stays there.

        Returns
        -------
        DataFrame
            The same rows, as a view of those that are cached, so that there is one copy.
        """
        from_memory = reads_memory(plan)
        if from_memory and not over_memory:
            return frame
        size = bytes_of(frame)
        if size > most_memory() // LARGEST_PART:
            return frame
        with self._lock:
            before = self._valid(plan.digest)
            if before is not None and before.satisfies(set(frame.columns), ordered):
                return frame
            if before is not None and before.persisted:
                return frame
            groups = self._groups_of(plan)
            free = self._free(plan) if stored and not from_memory else None
        cached = _CachedResult.of(frame, size, ordered, free=free, groups=groups)
        with self._lock:
            now = self._known.get(plan.digest)
            if now is not None and now.persisted:  # by another thread meanwhile
                return frame
            self._forget(plan.digest)
            self._known[plan.digest] = cached
            self._bytes += size
            short = size > 1 << 20 and _memory_is_short()
            bound = size if short else most_memory()
            droppable = [digest for digest, known in self._known.items() if not known.persisted]
            while self._bytes > bound and len(droppable) > 1:
                self._forget(droppable.pop(0))
        there = cached.frame()
        return frame if there is None else there

    def drop(self, digest: bytes) -> None:
        """Drop the result of the plan with a digest, unless it is persisted."""
        with self._lock:
            found = self._known.get(digest)
            if found is not None and not found.persisted:
                self._forget(digest)

    def persisted(self, plan: Operator) -> set[str]:
        """The columns of a plan that are persisted."""
        with self._lock:
            found = self._known.get(plan.digest)
            return found.columns if found is not None and found.persisted else set()

    def persist(self, plan: Operator, frame: pl.DataFrame, *, stored: bool = True) -> None:
        """Keep all or some columns of a plan's result, in row order, until :meth:`unpersist`.

        Calls are counted: each needs its own call of :meth:`unpersist`. Rows that do not fit into the store stay in this
        process's memory.

        Parameters
        ----------
        plan
            The plan.
        frame
            Its rows, including all columns that are persisted already.
        stored
            Whether a large result is put into the store at once, not only if this process's memory holds enough of them.
        """
        with self._lock:
            found = self._known.get(plan.digest)
            if found is not None and found.persisted and found.satisfies(set(frame.columns), ordered=True):
                self._known[plan.digest] = replace(found, holders=found.holders + 1)
                return
            free = 0 if stored else self._free(plan)
        cached = _CachedResult.of(frame, bytes_of(frame), ordered=True, free=free)
        with self._lock:
            before = self._known.get(plan.digest)
            self._forget(plan.digest)
            self._known[plan.digest] = replace(cached, holders=1 + (0 if before is None else before.holders))

    def unpersist(self, plan: Operator | bytes) -> bool:
        """Undo one :meth:`persist` of a plan, given the plan or its digest; returns whether it was persisted.

        The rows are dropped with the last such call.
        """
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

    def get_value(self, plan: Operator, call: AggregateCall) -> pl.Series | None:
        """The cached result of one aggregate over all rows of a plan, or ``None``."""
        with self._lock:
            found = self._values.get((plan.digest, call.digest))
            return found[0] if found is not None and self._unchanged(found[1]) else None

    def put_value(self, plan: Operator, call: AggregateCall, result: pl.Series) -> None:
        """Cache the result of one aggregate over all rows of a plan.

        A run that computes many aggregates, as for ``describe``, so provides the results of later calls for one of them. The
        keys are digests, which do not keep the plan or its data alive.
        """
        with self._lock:
            self._values[plan.digest, call.digest] = result, self._groups_of(plan, itself=True)
            while len(self._values) > MOST_VALUES:
                self._values.popitem(last=False)

    def substitute(self, plan: Operator, ordered: bool = True) -> Operator:
        """The plan with each subplan whose result is cached replaced by a scan of the result.

        Parameters
        ----------
        plan
            The plan.
        ordered
            Whether the order of its result is observed.
        """
        with self._lock:
            return self._substituted(plan, ordered, {}) if self._known else plan

    def _substituted(self, plan: Operator, ordered: bool, done: dict[Operator, Operator]) -> Operator:
        """As :meth:`substitute`; ``done`` has the results for plans inside of expressions, which many operators may share."""

        def inside(nested: Operator) -> Operator:
            if nested not in done:
                done[nested] = self._substituted(nested, False, done)
            return done[nested]

        operators = topological(plan)
        if any(map(nested_plans, operators)):
            plan = with_nested_plans(plan, inside)
            operators = topological(plan)
        if not any(op.digest in self._known for op in operators):
            return plan
        observed = observed_order(plan, ordered)

        def remembered(op: Operator, needed: set[str]) -> Operator | None:
            found = self._valid(op.digest)
            if found is None or not found.satisfies(needed, observed[op]):
                return None
            source = found.opened()
            if source is None:
                return None
            every = tuple(name for name, _ in source.columns)
            return Scan(source, tuple(name for name in schema(op) if name in needed) or every[:1])

        return prune_columns(plan, remembered)

    def cached_within(self, plan: Operator, ordered: bool = True) -> set[Operator]:
        """The operators of a plan whose columns that it needs are cached, in row order if the plan observes it."""
        operators = [op for op in topological(plan) if op.digest in self._known]
        if not operators:
            return set()
        needed, observed = needed_columns(plan), observed_order(plan, ordered)
        return {op for op in operators if op in needed and self.covers(op, needed[op], observed[op])}

    def clear(self) -> None:
        """Drop all results that are not persisted."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if not known.persisted]:
                self._forget(digest)
            self._values.clear()
        while self.unused:
            with contextlib.suppress(IndexError):  # by another thread meanwhile
                self.unpersist(self.unused.popleft())

    def confirm(self, plan: Operator) -> None:
        """Record that the cached result of a plan agrees with the group-bys that are cached now: these were made of its rows."""
        with self._lock:
            found = self._known.get(plan.digest)
            if found is not None:
                self._known[plan.digest] = replace(found, groups=self._groups_of(plan))

    def _groups_of(self, plan: Operator, itself: bool = False) -> _Groups:
        """The uncertain group-bys that a result is computed from; with ``itself``, also the plan, if it is one."""
        groups = {one.digest for one in uncertain_groups(plan) if itself or one != plan}
        return tuple((digest, self._number(digest)) for digest in groups)

    def _number(self, digest: bytes) -> int | None:
        found = self._known.get(digest)
        return None if found is None else found.number

    def _unchanged(self, groups: _Groups) -> bool:
        """Whether group-bys have the rows that a result was computed from: computed again, they may have other last bits."""
        return all(self._number(digest) == number for digest, number in groups)

    def _valid(self, digest: bytes) -> _CachedResult | None:
        """The cached result with a digest, unless it may disagree with group-bys that were computed again."""
        found = self._known.get(digest)
        return found if found is not None and (found.persisted or self._unchanged(found.groups)) else None

    def _free(self, plan: Operator) -> int:
        """The bytes that the result of a plan may take in this process's memory; none if it may be a part of larger buffers."""
        if any(isinstance(op, Slice) for op in every_operator(plan)):
            return 0
        held = sum(known.size for known in self._known.values() if isinstance(known.source, MemorySource))
        return int(options.memory_limit // HELD_PART) - held

    def _forget(self, digest: bytes) -> None:
        found = self._known.pop(digest, None)
        if found is not None:
            self._bytes -= 0 if found.persisted else found.size
            if isinstance(found.source, KeptSource):
                found.source.kept.drop()

    def __len__(self) -> int:
        return len(self._known)

    def digests(self) -> frozenset[bytes]:
        """The digests of the plans whose results are cached."""
        with self._lock:
            return frozenset(self._known)


def _as_arrays(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with its numbers in one chunk a column, which an array in NumPy's format shares without a copy."""
    columns = frame.get_columns()
    if all(column.n_chunks() == 1 for column in columns):
        return frame
    return pl.DataFrame(
        [column.rechunk() if column.dtype.is_numeric() and not column.null_count() else column for column in columns]
    )


def most_memory() -> int:
    """The most bytes of remembered results."""
    return min(options.result_memory, options.memory_limit // 2)


def _memory_is_short() -> bool:
    import psutil

    return bool(psutil.virtual_memory().percent > 90)


def reads_memory(plan: Operator) -> bool:
    """Whether a plan reads data in memory, so that its result is not cached."""
    return any(isinstance(op, (Scan, Attach)) and isinstance(op.source, MemorySource) for op in every_operator(plan))


results = ResultCache()
