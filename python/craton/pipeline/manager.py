"""Decides which steps run at the same time: admission by projected memory, shared by all pipelines of a store.

The memory of running steps and the pages of tables share one limit, the store's: a step that is admitted has its projected memory
reserved there, and the store's paging makes room by evicting pages. So each admission is a choice between waiting for a running step
to end and paying for the eviction of pages, which are written now and read again later; the manager takes the cheaper one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from craton.pipeline.history import History, Run
from craton.records import dataclass
from craton.store.store import Store

__all__ = ["Decision", "Grant", "Manager", "Memory", "Request", "StoreMemory", "TooLarge"]

#: Seconds that evicting a byte costs (written now, read again later) before any eviction was measured.
_EVICTION_SECONDS = 2 / 500e6
#: How often later steps may be admitted before a step that waits for memory, until it is the only one that is admitted next.
_OVERTAKEN = 8
#: Seconds between two looks at the store's memory while steps wait and none ends.
_PERIOD = 0.2


class Reserved(Protocol):
    """Memory that is reserved until it is released."""

    @property
    def nbytes(self) -> int: ...

    def release(self) -> None: ...


class Memory(Protocol):
    """The memory that steps and pages share."""

    def state(self) -> tuple[int, int, int]:
        """The limit, and the bytes of pages and of reservations."""
        ...

    def reserve(self, nbytes: int, at_least: int | None = None) -> Reserved:
        """Reserve bytes, or as many as there are, which may evict pages. Raises `MemoryError` if pages in use leave less than that."""
        ...


class Inputs(Protocol):
    """The pages of a step's inputs, which have to be in memory while it runs."""

    def absent(self) -> int:
        """Bytes of those that are not in memory."""
        ...

    def pin(self) -> tuple[list[Any], list[tuple[int, Callable[[], Any]]]]:
        """Pin those in memory: what keeps them pinned; and for each of the others its bytes, and a function that reads and pins it."""
        ...


class TooLarge(Exception):
    """A step needs more memory than there is."""


@dataclass(frozen=True, slots=True)
class Request:
    """A step that is ready to run.

    Parameters
    ----------
    pipeline, step
        Names; pipelines that run at the same time have different ones.
    key
        Identifies the step's code, so that its memory and time are learned over all runs and pipelines.
    input_bytes
        Bytes of its inputs, which are pages of the store already.
    memory
        Bytes that it needs besides its inputs, if its author says so.
    cpus
        Processors that it uses.
    depth
        How many steps lie before it: deeper ones go first, because they free the tables that wait for them.
    priority
        Higher ones go first.
    inputs
        The pages of its inputs; None if it has none.
    """

    pipeline: str
    step: str
    key: str
    input_bytes: int = 0
    memory: int | None = None
    cpus: int = 1
    depth: int = 0
    priority: int = 0
    inputs: Inputs | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a step, and why.

    Parameters
    ----------
    seconds
        Time since the manager began.
    pipeline, step
        The step.
    admitted
        Whether it was admitted, or has to wait.
    reason
        Why, as a sentence.
    projected, free
        Bytes that it was projected to need, and bytes that neither pages nor reservations used.
    """

    seconds: float
    pipeline: str
    step: str
    admitted: bool
    reason: str
    projected: int
    free: int


class _Taken:
    """Memory that an admitted step has: what it needs, its inputs, and reservations for those inputs that are to be read."""

    def __init__(self, memory: Memory, nbytes: int, at_least: int, inputs: Inputs | None) -> None:
        self.pinned: list[Any] = []
        self.absent: list[tuple[Reserved, Callable[[], Any]]] = []
        self.reserved: Reserved | None = None
        absent: list[tuple[int, Callable[[], Any]]] = []
        if inputs is not None:
            self.pinned, absent = inputs.pin()
        try:
            for size, read in absent:
                self.absent.append((memory.reserve(size), read))
            self.reserved = memory.reserve(nbytes, at_least)
        except MemoryError:
            self.release()
            raise

    @property
    def nbytes(self) -> int:
        """Bytes that are reserved for what the step needs."""
        return 0 if self.reserved is None else self.reserved.nbytes

    def give_back(self) -> None:
        """Release what is reserved for what the step needs; its inputs stay."""
        if self.reserved is not None:
            self.reserved.release()

    def release(self) -> None:
        """Release all."""
        self.give_back()
        for reserved, _ in self.absent:
            reserved.release()
        self.absent.clear()
        self.pinned.clear()


class _Waiting:
    """A step that waits, what it is projected to need, and what became of it."""

    def __init__(self, request: Request, projected: int, number: int) -> None:
        self.request, self.projected, self.number = request, projected, number
        self.overtaken = 0
        self.reason = ""
        self.grant: Grant | None = None
        self.error: Exception | None = None

    def decided(self) -> bool:
        """Whether it was admitted, or cannot be."""
        return self.grant is not None or self.error is not None


class Grant:
    """An admitted step. Its memory stays reserved until :meth:`finish`, at the latest."""

    def __init__(self, manager: Manager, request: Request, projected: int, taken: _Taken, started: float) -> None:
        self.request, self.projected = request, projected
        self._manager, self._taken = manager, taken
        self.started = started

    @property
    def reserved(self) -> int:
        """Bytes that are reserved now."""
        return self._taken.nbytes

    def release(self) -> None:
        """Release the memory."""
        self._taken.release()

    def load(self) -> None:
        """Read the inputs that are not in memory. They are pinned until the memory is released.

        Raises
        ------
        MemoryError
            If the memory that was reserved for them was taken by someone who does not ask the manager.
        """
        while self._taken.absent:
            reserved, read = self._taken.absent.pop()
            with self._manager._changed:  # so that no other step gets the memory between the two
                reserved.release()
                self._taken.pinned.append(read())

    @contextmanager
    def replaced_by_pages(self) -> Iterator[None]:
        """Release the memory while the step's output becomes pages, so that no other step gets it between the two."""
        with self._manager._changed:
            self._taken.give_back()
            yield

    def finish(self, peak: int | None = None, output: int = 0) -> None:
        """The step has ended.

        Parameters
        ----------
        peak
            The most bytes that it had besides its inputs, from which later steps of this key are projected; None if it failed.
        output
            The bytes of its outputs.
        """
        self._manager._finished(self, peak, output)


class Manager:
    """Admits steps of any number of pipelines. Its methods can be called from several threads.

    Parameters
    ----------
    memory
        The memory that steps and pages share.
    cpus
        Processors that admitted steps may use together.
    history
        What earlier runs needed.
    clock
        Seconds, for tests.
    kept
        How many decisions are kept.
    """

    def __init__(
        self,
        memory: Memory,
        cpus: int,
        history: History | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        kept: int = 10_000,
    ) -> None:
        self.history = History() if history is None else history
        self.decisions: deque[Decision] = deque(maxlen=kept)
        self._memory, self._cpus, self._clock, self._began = memory, cpus, clock, clock()
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._running: list[Grant] = []
        self._used: dict[str, float] = {}  # processor seconds by pipeline
        self._numbers = 0
        self._eviction_seconds = _EVICTION_SECONDS

    @contextmanager
    def pipeline(self, name: str) -> Iterator[None]:
        """A pipeline that runs. It begins with the smallest share that a running one has used, so that it does not starve these."""
        with self._changed:
            self._used[name] = min(self._used.values(), default=0.0)
        try:
            yield
        finally:
            with self._changed:
                self._used.pop(name, None)

    def admit(self, request: Request, *, cancelled: Callable[[], bool] = lambda: False) -> Grant:
        """Wait until a step may run.

        Parameters
        ----------
        request
            The step.
        cancelled
            Whether nobody wants it any more, which is asked several times a second.

        Raises
        ------
        TooLarge
            If its author says that it needs more memory than there is.
        InterruptedError
            If it was cancelled.
        """
        projected = self._projected(request)
        with self._changed:
            self._numbers += 1
            mine = _Waiting(request, projected, self._numbers)
            self._waiting.append(mine)
            try:
                self._decide()
                while not mine.decided():
                    self._changed.wait(_PERIOD)
                    if not mine.decided() and cancelled():
                        raise InterruptedError(f"step {request.step!r} was cancelled")
                    self._decide()
            except BaseException:
                if mine.grant is not None:
                    self._end(mine.grant)
                raise
            finally:
                if mine in self._waiting:
                    self._waiting.remove(mine)
        if mine.error is not None:
            raise mine.error
        assert mine.grant is not None
        return mine.grant

    def _projected(self, request: Request) -> int:
        limit = self._memory.state()[0]
        if request.memory is None:
            # Its inputs, whose pages are rounded up, have to be in memory beside what it needs.
            inputs = int(request.input_bytes * 1.02) + (1 << 20) if request.input_bytes else 0
            most = max(limit - inputs, 0)
            # Of a step that never ran nothing is known: it leaves memory to others, who may be reading results.
            most = most if self.history.knows(request.key) else most // 2
            return min(self.history.memory(request.key, request.input_bytes), most)
        if request.memory > limit:
            raise TooLarge(f"it needs {request.memory:,} bytes, and the limit of all is {limit:,}")
        return request.memory

    # ---- decisions; the lock is held ----

    def _decide(self) -> None:
        """Admit what can be admitted, and let those threads know."""
        admitted = True
        while admitted and self._waiting:
            admitted = False
            order = self._candidates()
            for place, one in enumerate(order):
                if self._admit(one):
                    for before in order[:place]:
                        before.overtaken += 1
                    admitted = True
                    break

    def _candidates(self) -> list[_Waiting]:
        """The steps that may be admitted next, in the order in which they are tried."""
        order = sorted(self._waiting, key=self._rank)
        first = next((one for one in order if one.overtaken >= _OVERTAKEN), None)
        head = order[0] if first is None else first
        deeper: list[_Waiting] = []
        if self._needed(head) > self._room()[0]:
            # Memory is short, and steps further down free the tables that wait for them.
            deeper = [one for one in order if one.request.depth > head.request.depth]
            deeper.sort(key=lambda one: (-one.request.priority, -one.request.depth, one.number))
        return [*deeper, *([head] if first is not None else [one for one in order if one not in deeper])]

    def _needed(self, one: _Waiting) -> int:
        return one.projected + (0 if one.request.inputs is None else one.request.inputs.absent())

    def _room(self) -> tuple[int, int]:
        """Bytes that neither pages nor reservations use, and bytes that no reservation uses."""
        limit, pages, reserved = self._memory.state()
        return max(limit - pages - reserved, 0), limit - reserved

    def _rank(self, one: _Waiting) -> tuple[int, float, int, int]:
        request = one.request
        running = sum(grant.request.cpus for grant in self._running if grant.request.pipeline == request.pipeline)
        now = self._clock()
        used = self._used.get(request.pipeline, 0.0) + sum(
            (now - grant.started) * grant.request.cpus
            for grant in self._running
            if grant.request.pipeline == request.pipeline
        )
        return -request.priority, used + running, -request.depth, one.number

    def _admit(self, one: _Waiting) -> bool:
        request = one.request
        free, unreserved = self._room()
        cpus = self._cpus - sum(grant.request.cpus for grant in self._running)
        if request.cpus > cpus and self._running:
            return self._wait(one, free, "all processors are in use")
        needed = self._needed(one)
        if needed <= free:
            return self._grant(one, free, "its memory is free")
        if not self._running:
            return self._grant(one, free, "no other step runs, so its memory is made free")
        evicted = needed - free
        if needed > unreserved:
            return self._wait(one, free, "running steps have reserved the memory that it needs")
        cost, waiting = evicted * self._eviction_seconds, self._until_free(evicted)
        if cost < waiting:
            return self._grant(one, free, f"evicting pages takes {cost:.2f} s, and waiting {waiting:.2f} s")
        return self._wait(one, free, f"waiting takes {waiting:.2f} s, and evicting pages {cost:.2f} s")

    def _until_free(self, nbytes: int) -> float:
        """Seconds until running steps have released so many bytes, besides what their outputs need."""
        ends = sorted((self._remaining(grant), grant.reserved - self._output(grant.request)) for grant in self._running)
        for seconds, released in ends:
            nbytes -= max(released, 0)
            if nbytes <= 0:
                return seconds
        return max((seconds for seconds, _ in ends), default=0.0) * 2  # pages must be evicted then, too

    def _remaining(self, grant: Grant) -> float:
        expected = self.history.seconds(grant.request.key, grant.request.input_bytes)
        ran = self._clock() - grant.started
        return max(expected - ran, ran * 0.1)

    def _output(self, request: Request) -> int:
        return self.history.output(request.key, request.input_bytes)

    def _wait(self, one: _Waiting, free: int, reason: str) -> bool:
        kind = reason.partition(" takes ")[0]
        if one.reason != kind:
            one.reason = kind
            self._record(one, False, reason, free)
        return False

    def _grant(self, one: _Waiting, free: int, reason: str) -> bool:
        started = self._clock()
        try:
            # A projection may be too large: a step that is alone gets what there is.
            least = one.projected if self._running or one.request.memory is not None else 0
            taken = _Taken(self._memory, one.projected, least, one.request.inputs)
        except MemoryError as error:
            if self._running:
                return self._wait(one, free, "pages in use leave too little memory")
            one.error = TooLarge(
                f"it is projected to need {one.projected:,} bytes, and pages in use leave less: {error}"
            )
            self._waiting.remove(one)
            self._changed.notify_all()
            return True
        took = self._clock() - started
        if (evicted := one.projected - free) > 1 << 24 and took > 0:  # written now, and read again later
            self._eviction_seconds = 0.7 * self._eviction_seconds + 0.3 * 2 * took / evicted
        one.grant = Grant(self, one.request, one.projected, taken, self._clock())
        self._running.append(one.grant)
        self._waiting.remove(one)
        self._record(one, True, reason, free)
        self._changed.notify_all()
        return True

    def _record(self, one: _Waiting, admitted: bool, reason: str, free: int) -> None:
        request = one.request
        seconds = self._clock() - self._began
        self.decisions.append(Decision(seconds, request.pipeline, request.step, admitted, reason, one.projected, free))

    def _finished(self, grant: Grant, peak: int | None, output: int) -> None:
        if peak is not None:
            seconds = self._clock() - grant.started
            self.history.add(grant.request.key, Run(grant.request.input_bytes, peak, output, seconds))
        with self._changed:
            self._end(grant)
            self._decide()

    def _end(self, grant: Grant) -> None:
        if grant in self._running:
            self._running.remove(grant)
            spent = (self._clock() - grant.started) * grant.request.cpus
            if grant.request.pipeline in self._used:
                self._used[grant.request.pipeline] += spent
        grant.release()
        self._changed.notify_all()


class StoreMemory:
    """The memory of a store.

    Parameters
    ----------
    store
        The store, in this process or another one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self) -> tuple[int, int, int]:
        """The limit, and the bytes of pages and of reservations. Memory that several pages refer to counts once."""
        counters = self._store._native.counters()
        return counters["limit"], counters["slab_used"], counters["reserved"]

    def reserve(self, nbytes: int, at_least: int | None = None) -> Reserved:
        """See :meth:`Memory.reserve`."""
        return self._store.reserve(nbytes, at_least=at_least)  # type: ignore[no-any-return]
