"""Tasks, and the protocol of the runners that execute them.

A *task* reads parts of the outputs of other tasks, does its work, and writes an output of one or more parts (one for each
partition). Outputs stay where they were made, as pages of a store; only an :class:`Output` is sent to the driver, which says how
large each part is. A *runner* runs tasks in this process (:mod:`craton.schedule.inline`) or on the workers of a cluster. It
treats the work as opaque.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

_keys = itertools.count(1)


def new_key() -> int:
    """Return a task key that is unique in this process."""
    return next(_keys)


@dataclass(frozen=True, slots=True)
class Read:
    """The specification of one input of a task: the concatenated rows of some parts of some tasks' outputs.

    Parameters
    ----------
    tasks
        Keys of the tasks, in the order in which their rows are read.
    parts
        The parts that are read of each task; all parts of one task come before those of the next.
    rows
        Restricts the concatenated rows to a range, as (first row, number of rows).
    """

    tasks: tuple[int, ...]
    parts: tuple[int, ...] = (0,)
    rows: tuple[int, int] | None = None


class Input(Protocol):
    """The rows of a :class:`Read`, as the work gets them."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def nbytes(self) -> int:
        """The size of the rows in bytes."""

    def table(self) -> pa.Table:
        """Return all rows, without copying them where they are in this machine's store."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows part by part, so that they need not be in memory together."""


class Sink(Protocol):
    """Writes a task's output."""

    def write(self, part: int, data: Any) -> None:
        """Append rows to a part: a table, a record batch, or another object that exports Arrow data."""

    def schema(self, schema: pa.Schema) -> None:
        """Declare the schema of the output. Needed only if no rows are written, because written rows declare it too."""


class Work(Protocol):
    """The work of a task. It is pickled, runs in a thread of its worker, and may run again after a failure."""

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        """Read the inputs, write the output, and return a small value (pickled to the caller), or None."""


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work: inputs, the work, and the number of parts of the output.

    Parameters
    ----------
    key
        From :func:`new_key`.
    work
        The work that the task does.
    inputs
        The inputs, in the order in which the work gets them.
    parts
        The number of parts of the output; a part that is not written to has no rows.
    nbytes
        Estimate of the bytes, in memory, that it reads from other sources than its inputs, such as files.
    memory
        Estimate of its peak memory in bytes, not counting the inputs; ``None`` derives it from the bytes that it reads.
    threads
        How many threads it uses; the concurrent tasks of a band use at most the band's threads together.
    stage
        The name of the stage that the task belongs to, for display.
    folders
        The folder of each file that it reads. It runs on a machine that has most of them on its own disks, if there is room.
    """

    key: int
    work: Work
    inputs: tuple[Read, ...] = ()
    parts: int = 1
    nbytes: int = 0
    memory: int | None = None
    threads: int = 1
    stage: str = ""
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartSize:
    """The size of one part of an output."""

    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a task: the sizes of its output's parts, the value that the work returned, and measurements.

    Parameters
    ----------
    key
        The task's key.
    parts
        The size of each part.
    value
        The value that the work returned.
    seconds
        How long the task ran.
    memory
        Peak memory in bytes, not counting the inputs; 0 if it was not measured.
    band
        The number of the band that ran the task.
    started
        When the task began, in seconds since the epoch, corrected to the clock of the driver's machine.
    read
        Bytes of its inputs.
    foreign
        The part of `read` that other processes had made.
    """

    key: int
    parts: tuple[PartSize, ...]
    value: Any = None
    seconds: float = 0.0
    memory: int = 0
    band: int = 0
    started: float = 0.0
    read: int = 0
    foreign: int = 0

    @property
    def rows(self) -> int:
        """The number of rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def nbytes(self) -> int:
        """The size of all parts in bytes."""
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class Band:
    """The unit that tasks are assigned to: the threads and the memory of one worker.

    Parameters
    ----------
    number
        From 0.
    threads
        Threads that its concurrent tasks may use together.
    memory
        Bytes that its concurrent tasks may use together.
    node
        The number of the machine; bands of one machine share a store.
    """

    number: int
    threads: int
    memory: int
    node: int = 0


class RunProgress(NamedTuple):
    """The progress of a run.

    Parameters
    ----------
    stage
        The stage of its first task.
    done, tasks
        How many of its tasks are done, and how many it has.
    """

    stage: str
    done: int
    tasks: int


class Traffic(NamedTuple):
    """Counters of moved bytes.

    Parameters
    ----------
    spilled, reloaded
        Bytes of pages that stores wrote to disk, and read back.
    sent
        Bytes of outputs that were sent between machines.
    """

    spilled: int = 0
    reloaded: int = 0
    sent: int = 0

    def since(self, before: Traffic) -> Traffic:
        """Return the difference to earlier counters, at least 0: the counters of a store that was restarted begin at 0 again."""
        return Traffic(*(max(now - then, 0) for now, then in zip(self, before, strict=True)))


class Runner(Protocol):
    """Runs tasks.

    Unless a method says otherwise, all calls come from one event loop. Several calls of :meth:`run` may be in progress.
    """

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands that tasks run on."""

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        """Run tasks, which may read each other's outputs and those of earlier runs; return their outputs in the order of the tasks.

        Raises
        ------
        Exception
            The first exception that the work of a task raised. The other tasks are cancelled, and the run's outputs are dropped.
        TaskLost
            If the workers that ran a task died repeatedly, or no worker is left.
        """

    async def put(self, data: Any) -> Output:
        """Store a table of this process as an output of one part, for tasks to read."""

    async def fetch(self, key: int, part: int = 0) -> pa.Table:
        """Return the rows of a part to this process."""

    def release(self, keys: Iterable[int]) -> None:
        """Drop outputs that no later task reads. Unknown keys are ignored."""

    def progress(self) -> list[RunProgress]:
        """Return the progress of the current runs, for display. Thread-safe."""

    async def traffic(self) -> Traffic:
        """Return the bytes moved so far, between stores and disks and between machines."""


class TaskLost(RuntimeError):
    """A task could not be completed: its output or its workers were lost too often, or cannot be restored."""
