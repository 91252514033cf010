"""What runners tell those who watch: the tasks of a run when it ends, and memory over time. Nothing while nobody does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from craton import events
from craton.schedule.memory_accounting import own_memory
from craton.schedule.tasks import Output, Task, Traffic
from craton.store import Store

#: Seconds between samples of memory, and how many go in one message.
INTERVAL, TOGETHER = 0.05, 5


class Sample(NamedTuple):
    """Memory at one moment.

    Parameters
    ----------
    when
        Seconds since the epoch.
    own
        Bytes of the process that it shares with nobody.
    pages, disk
        Bytes of the pages of its machine's store that are in memory, and on disk; -1 where somebody else tells that.
    """

    when: float
    own: int
    pages: int = -1
    disk: int = -1


class Sampler:
    """Samples the memory of this process while somebody watches.

    Parameters
    ----------
    loop
        In which samples are taken.
    tell
        Given the samples, some at a time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[list[Sample]], None]) -> None:
        self._loop, self._tell = loop, tell
        self._store: Store | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taken: list[Sample] = []

    @property
    def on(self) -> bool:
        """Whether samples are being taken."""
        return self._timer is not None

    def start(self, store: Store | None) -> None:
        """Begin; sample this store too, if one is given."""
        self._store = store
        if self._timer is None:
            self._sample()

    def stop(self) -> None:
        """Stop; what was not told yet is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._taken = []

    def _sample(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._sample)
        pages = disk = -1
        if self._store is not None:
            try:
                counted = self._store._native.counters()
                pages, disk = counted["page_memory"], counted["page_disk"]
            except (ConnectionError, ValueError):  # it has ended
                self._store = None
        self._taken.append(Sample(time.time(), own_memory(), pages, disk))
        if len(self._taken) >= TOGETHER:
            taken, self._taken = self._taken, []
            self._tell(taken)


def tell_of(tasks: Iterable[Task], made: Mapping[int, Output]) -> None:
    """Tell who listens to events of the tasks of a run that are done."""
    done = [(task.stage, made[task.key]) for task in tasks if task.key in made]
    if done:
        events.emit("tasks", tasks=done)


def store_traffic(store: Store, sent: int = 0) -> Traffic:
    """What a store has moved to and from disk; and what was sent from its machine."""
    try:
        counted = store._native.counters()
    except (ConnectionError, ValueError):  # it has ended
        return Traffic(sent=sent)
    return Traffic(counted["written"], counted["read"], sent)
