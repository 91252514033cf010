"""The supervisor's state of a run: the band of each task, the outputs so far, and how often tasks were tried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cloudpickle

from craton.cluster.lineage import reads_of
from craton.cluster.worker import distinct_works
from craton.schedule.tasks import Output, RunProgress, Task, TaskLost

#: A run fails when workers have died this many times while they were running the same task.
TRIES = 3

#: Sends tasks to a band: the band, the run's number, pickled works, tasks as rows, locations of inputs, all bands that get tasks.
Send = Callable[[int, int, bytes, list[tuple[Any, ...]], dict[int, Any], list[int]], None]


class Run:
    """A run.

    Parameters
    ----------
    number
        Its number.
    tasks
        Its tasks.

    Attributes
    ----------
    ended : asyncio.Future
        Done when the run has ended; its exception is that of a failed run.
    outputs : dict
        The outputs of the tasks that are done.
    bands : dict
        The band of each task that is not done; -1 if no band is available.
    moving : dict
        For each stolen task whose arrival is not confirmed, the band that gave it away.
    """

    def __init__(self, number: int, tasks: Sequence[Task]) -> None:
        self.number = number
        self.tasks = {task.key: task for task in tasks}
        self.wanted = list(self.tasks)
        self.outputs: dict[int, Output] = {}
        self.bands: dict[int, int] = {}
        self.orders: dict[int, int] = {}
        self.moving: dict[int, int] = {}
        self.changes = 0  # changes of `bands` so far: a run without changes between two checks is stalled
        self.missing_before: set[int] = set()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._subscribers: dict[int, set[int]] = {}  # bands that get an output's location from the supervisor
        self._tried: dict[int, int] = {}

    @property
    def left(self) -> int:
        """The number of tasks that are not done."""
        return len(self.bands)

    @property
    def progress(self) -> RunProgress:
        tasks = len(self.wanted)
        return RunProgress(self.tasks[self.wanted[0]].stage, min(len(self.outputs), tasks), tasks)

    def assign(self, tasks: Sequence[Task], bands: Sequence[int], orders: Sequence[int]) -> None:
        """Record the band of each task, and its position in the order of the run."""
        for task, band, order in zip(tasks, bands, orders, strict=True):
            self.tasks.setdefault(task.key, task)
            self.bands[task.key] = band
            self.moving.pop(task.key, None)
            self.changes += 1
            self.orders.setdefault(task.key, order)
            self.outputs.pop(task.key, None)

    def send(self, tasks: Sequence[Task], where: Callable[[int], Any], send: Send, later: bool) -> None:
        """Send tasks to their bands, one message to each band.

        Parameters
        ----------
        tasks
            All tasks of the run, or those that are retried.
        where
            Returns the location of an output, None if it does not exist.
        send
            Sends a message.
        later
            Whether tasks of the run were sent before. Then the bands that make the inputs may not know the readers' bands, and the
            supervisor forwards the locations.
        """
        consumers: dict[int, set[int]] = {}
        for task in self.tasks.values() if later else tasks:
            band = self.bands.get(task.key)
            if band is not None and band >= 0:
                for key in reads_of(task):
                    consumers.setdefault(key, set()).add(band)
        by_band: dict[int, list[Task]] = {}
        for task in tasks:
            by_band.setdefault(self.bands[task.key], []).append(task)
        by_band.pop(-1, None)
        base = self.number << 32
        for band, some in by_band.items():
            works, numbers = distinct_works([task.work for task in some])
            rows = []
            known: dict[int, Any] = {}
            for task, number in zip(some, numbers, strict=True):
                readers = consumers.get(task.key)
                others = () if readers is None else tuple(other for other in readers if other != band)
                rows.append((
                    number, task.key, base + self.orders[task.key],
                    tuple([(read.tasks, read.parts, read.rows) for read in task.inputs]),
                    task.parts, task.nbytes, task.memory, task.threads, others,
                ))  # fmt: skip
                for key in reads_of(task):
                    if key not in known:
                        stored = where(key)
                        if stored is not None:
                            known[key] = stored
                        elif later:
                            self._subscribers.setdefault(key, set()).add(band)
            send(band, self.number, cloudpickle.dumps(works, 5), rows, known, list(by_band))

    def done(self, output: Output) -> Iterable[int]:
        """Record an output; return the bands that the supervisor must send its location to."""
        self.bands.pop(output.key, None)
        self.moving.pop(output.key, None)
        self.changes += 1
        self.outputs[output.key] = output
        if not self.bands and not self.ended.done():
            self.ended.set_result(None)
        return self._subscribers.pop(output.key, ())

    def fail(self, error: BaseException) -> None:
        """End the run with an exception."""
        if not self.ended.done():
            self.ended.set_exception(error)

    def of_band(self, band: int) -> list[int]:
        """Return the keys of a band's unfinished tasks, including tasks stolen from it whose arrival is not confirmed."""
        moving = [key for key, giver in self.moving.items() if giver == band and self.bands.get(key) != band]
        return [key for key, its in self.bands.items() if its == band] + moving

    def made_by(self, band: int) -> dict[int, list[int]]:
        """Return, for each band, the keys of the outputs made by `band` that its unfinished tasks read."""
        found: dict[int, set[int]] = {}
        for key, other in self.bands.items():
            for source in reads_of(self.tasks[key]):
                made = self.outputs.get(source)
                if made is not None and made.band == band:
                    found.setdefault(other, set()).add(source)
        return {other: list(keys) for other, keys in found.items()}

    def missing_tasks(self, held: dict[int, set[int]]) -> list[int]:
        """Return the keys of tasks that were missing from their bands in this check and in the previous one.

        Parameters
        ----------
        held
            The keys of the run's tasks that each band has: for bands that answered, and an empty set for bands that are gone.
        """
        found = {key for key, band in self.bands.items() if band in held and key not in held[band]}
        again, self.missing_before = found & self.missing_before, found
        return list(again)

    def count_death(self, keys: Iterable[int], why: str) -> None:
        """Count the death of a worker against the tasks that it was running; end the run if one of them reaches `TRIES`."""
        for key in keys:
            tried = self._tried[key] = self._tried.get(key, 0) + 1
            if tried >= TRIES:
                stage = self.tasks[key].stage
                self.fail(
                    TaskLost(
                        f"task {key}{f' ({stage})' if stage else ''} was running each of the {tried} times that its "
                        f"worker died and is not retried; the last worker: {why}"
                    )
                )
                return
