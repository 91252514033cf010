"""How much memory a task will need, and how much it needed: the growth of this process's own memory, sampled."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from craton.kernel.memory import AMPLE, release_freed_memory

if TYPE_CHECKING:
    from craton.store import Store

#: Seconds between samples.
INTERVAL = 0.02
#: Bytes that a task is expected to need beside what it reads, for each that it reads.
FACTOR = 3
#: Tasks that are expected to need less ask the store for no memory.
SMALL_NEED = 16 << 20

_PAGE = os.sysconf("SC_PAGE_SIZE")


def projected(memory: int | None, reads: int, nbytes: int) -> int:
    """Bytes that a task is expected to need.

    Parameters
    ----------
    memory
        What is said of the task, ``None`` for nothing.
    reads, nbytes
        Bytes that it reads, of other tasks and from elsewhere.
    """
    return FACTOR * (reads + nbytes) if memory is None else memory


def lent(store: Store, need: int, reads: int) -> Any:
    """Memory of the store's for a task, as much of what it needs as there is beside the pages that it reads and writes.

    Parameters
    ----------
    store
        Lends it.
    need, reads
        Bytes that the task needs, and that it reads; the pages of these have others', too.
    """
    limit = store.limit
    return store.reserve(max(min(need, limit // 2, limit - 3 * reads), 0), at_least=0)


def own_memory() -> int:
    """Bytes of memory of this process that it shares with nobody; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE


class Remainder:
    """What a process keeps after its tasks, beyond what it had before the first: given back, or else taken from the store's memory.

    Where there is little memory, more than a sixteenth is given back; where there is much, what is kept is worth more than the
    pages that it takes the place of.

    Parameters
    ----------
    store
        Pages leave it as much memory as the process keeps.
    memory
        Bytes that the process's tasks have: a small part of them is not worth asking for, and more than a quarter is not taken.

    Attributes
    ----------
    nbytes : int
        What was asked for.
    """

    def __init__(self, store: Store, memory: int) -> None:
        self._store, self._memory = store, memory
        self._first: int | None = None
        self._taken: Any = None
        self.nbytes = 0

    def begin(self) -> None:
        """Say that the first task begins; further calls do nothing."""
        if self._first is None:
            self._first = own_memory()

    def settle(self) -> None:
        """Say that no task runs."""
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
        """Leave all memory to pages, until the next time that no task runs."""
        if self._taken is not None:
            self._taken.release()
            self._taken, self.nbytes = None, 0


class Meter:
    """Measures one task at a time: what two run beside each other needed, nobody can tell apart."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._most = self._before = 0
        self._running = 0
        self._alone = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Say that a task begins."""
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
        """Say that a task has ended; return the bytes that it had at the most, or 0 if that was not measured."""
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
