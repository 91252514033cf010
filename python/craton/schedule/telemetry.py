"""Events that runners emit for profiles: a run's tasks when it ends, and memory samples. Nothing is sampled without a subscriber."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from craton import events
from craton.schedule.memory_accounting import own_memory
from craton.schedule.tasks import Output, Task, Traffic
from craton.store import Store

#: Seconds between samples of memory, and the number of samples in one message.
INTERVAL, SAMPLES_PER_MESSAGE = 0.05, 5


class Sample(NamedTuple):
    """Memory at one moment.

    Parameters
    ----------
    when
        Seconds since the epoch.
    own
        Bytes of the process's private memory.
    pages, disk
        Bytes of pages of the machine's store in memory, and on disk; -1 in all but one process of each machine.
    """

    when: float
    own: int
    pages: int = -1
    disk: int = -1


class Sampler:
    """Samples the memory of this process periodically.

    Parameters
    ----------
    loop
        The event loop that takes the samples.
    report
        Called with each batch of samples.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[list[Sample]], None]) -> None:
        self._loop, self._report = loop, report
        self._store: Store | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taken: list[Sample] = []

    @property
    def on(self) -> bool:
        """Whether samples are being taken."""
        return self._timer is not None

    def start(self, store: Store | None) -> None:
        """Start sampling, also of the store if one is given."""
        self._store = store
        if self._timer is None:
            self._sample()

    def stop(self) -> None:
        """Stop sampling; samples of an incomplete batch are dropped."""
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
            except (ConnectionError, ValueError):  # the store is closed
                self._store = None
        self._taken.append(Sample(time.time(), own_memory(), pages, disk))
        if len(self._taken) >= SAMPLES_PER_MESSAGE:
            taken, self._taken = self._taken, []
            self._report(taken)


def emit_tasks(tasks: Iterable[Task], made: Mapping[int, Output]) -> None:
    """Emit an event with the completed tasks of a run."""
    done = [(task.stage, made[task.key]) for task in tasks if task.key in made]
    if done:
        events.emit("tasks", tasks=done)


def store_traffic(store: Store, sent: int = 0) -> Traffic:
    """Return the counters of a store, with the bytes that its machine sent."""
    try:
        counted = store._native.counters()
    except (ConnectionError, ValueError):  # the store is closed
        return Traffic(sent=sent)
    return Traffic(counted["written"], counted["read"], sent)
