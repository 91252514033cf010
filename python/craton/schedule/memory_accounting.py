"""The memory of tasks: how much a task is projected to need, and how much it used, as sampled growth of the process's private memory."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from craton.kernel.memory import AMPLE, release_freed_memory

if TYPE_CHECKING:
    from craton.store import Store

#: Seconds between samples.
INTERVAL = 0.02
#: Bytes that a task is projected to need for each byte that it reads, not counting the input itself.
FACTOR = 3
#: Bytes: tasks that are projected to need less run without a reservation.
SMALL_NEED = 16 << 20

_PAGE = os.sysconf("SC_PAGE_SIZE")


def projected_memory(memory: int | None, reads: int, nbytes: int) -> int:
    """Return the bytes that a task is projected to need.

    Parameters
    ----------
    memory
        The planner's estimate, ``None`` if it has none.
    reads, nbytes
        Bytes that the task reads from other tasks' outputs, and from files.
    """
    return FACTOR * (reads + nbytes) if memory is None else memory


def reserve_for_task(store: Store, need: int, reads: int) -> Any:
    """Reserve memory of the store for a task: what the task needs, or less if its input and output pages would not fit beside it.

    Parameters
    ----------
    store
        The store.
    need, reads
        Bytes that the task is projected to need, and bytes that it reads. Three times `reads` are left to pages, because the
        pages that it reads may contain rows of other tasks as well.
    """
    limit = store.limit
    return store.reserve(max(min(need, limit // 2, limit - 3 * reads), 0), at_least=0)


def own_memory() -> int:
    """Return the bytes of this process's private resident memory; 0 on systems that do not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE


class RetainedMemory:
    """Memory that the process retains between tasks, in allocators and caches, beyond what it had before the first task.

    The retained memory is reserved in the store, so that pages and it stay within one limit. Before that, memory is returned to the
    system if too much is retained: more than a sixteenth of `memory`, or a quarter where memory is ample, because there reusing
    allocated memory saves more than the pages that it displaces.

    Parameters
    ----------
    store
        The store in which the retained memory is reserved.
    memory
        Bytes that the process's tasks may use. Changes of less than 1/32 of them are ignored, and at most a quarter is reserved.

    Attributes
    ----------
    nbytes : int
        Bytes that are requested at present.
    """

    def __init__(self, store: Store, memory: int) -> None:
        self._store, self._memory = store, memory
        self._first: int | None = None
        self._taken: Any = None
        self.nbytes = 0

    def begin(self) -> None:
        """Record the memory before the first task; later calls do nothing."""
        if self._first is None:
            self._first = own_memory()

    def settle(self) -> None:
        """Adjust the reservation to what is retained now; called when no task runs."""
        little = self._memory // 32
        kept = own_memory() - (self._first or 0)
        if kept > (self._memory // 4 if self._memory >= AMPLE else 2 * little):
            release_freed_memory()
            kept = own_memory() - (self._first or 0)
        wanted = min(max(kept, 0), self._memory // 4)
        if abs(wanted - self.nbytes) <= little:
            return
        self.release()
        self._taken, self.nbytes = self._store.reserve(wanted, at_least=0), wanted

    def release(self) -> None:
        """Leave all memory to pages until the next call of :meth:`settle`."""
        if self._taken is not None:
            self._taken.release()
            self._taken, self.nbytes = None, 0


class Meter:
    """Measures the peak memory of a task that runs alone, because the memory of concurrent tasks cannot be attributed to each of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._most = self._before = 0
        self._running = 0
        self._alone = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Record that a task begins."""
        with self._changed:
            self._running += 1
            self._alone = self._running == 1
            if self._alone:
                self._before = self._most = own_memory()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._sample, name="craton-meter", daemon=True)
                    self._thread.start()
                self._changed.notify()

    def end(self) -> int:
        """Record that a task has ended; return its peak memory in bytes, or 0 if other tasks ran meanwhile."""
        with self._changed:
            self._running -= 1
            if not self._alone:
                return 0
            self._alone = False
            return max(self._most, own_memory()) - self._before

    def _sample(self) -> None:
        while True:
            with self._changed:
                while not self._alone:
                    self._changed.wait()
                self._most = max(self._most, own_memory())
                self._changed.wait(INTERVAL)
