"""Tasks: what a job is made of, and what its runners promise.

A *task* reads parts of the outputs of other tasks, does one piece of work, and writes an output of one or more parts (one a
partition). Outputs stay where they were made, as pages of a store; what travels is an :class:`Output`: how large each part
is, and where. A *runner* runs tasks: in this process (:mod:`craton.schedule.inline`), or on the workers of a cluster. It
knows nothing of what the work is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

_keys = itertools.count(1)


def new_key() -> int:
    """A key for a task, unique in this process."""
    return next(_keys)


@dataclass(frozen=True, slots=True)
class Read:
    """One input of a task: the rows of some parts of the outputs of some tasks, one after another.

    Parameters
    ----------
    tasks
        Keys of the tasks, in the order in which their rows are read.
    parts
        Which parts of each; all of one task before those of the next.
    rows
        Only these rows of all of them, as (first, number).
    """

    tasks: tuple[int, ...]
    parts: tuple[int, ...] = (0,)
    rows: tuple[int, int] | None = None


class Input(Protocol):
    """What a :class:`Read` gives to the work."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def nbytes(self) -> int:
        """How many bytes they have."""

    def table(self) -> pa.Table:
        """All of them, over the store's memory where they are in this machine's store."""

    def tables(self) -> Iterator[pa.Table]:
        """Part after part, so that not all of them need be in memory."""


class Sink(Protocol):
    """Where a task's output goes."""

    def write(self, part: int, data: Any) -> None:
        """Add rows to a part: a table, record batch, or whatever gives Arrow data."""

    def schema(self, schema: pa.Schema) -> None:
        """Say which columns the output has, for parts that nothing is written to; what is written says it too."""


class Work(Protocol):
    """What a task does. Pickled to its worker, and run there in a thread; may be run again after a failure."""

    def run(self, inputs: Sequence[Input], sink: Sink) -> Any:
        """Read the inputs, write the output, and return a small value (pickled to the caller), or None."""


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work.

    Parameters
    ----------
    key
        From :func:`new_key`.
    work
        What it does.
    inputs
        What it reads, in the work's order.
    parts
        How many parts its output has; those that nothing is written to have no rows.
    nbytes
        Bytes that it is expected to read from elsewhere than its inputs, such as files, in memory.
    memory
        Bytes that it is expected to need at the most, without its inputs; ``None``: told from what it reads.
    threads
        How many threads it uses; a band runs tasks beside each other up to the threads that it has.
    stage
        What the task is a part of, for people.
    """

    key: int
    work: Work
    inputs: tuple[Read, ...] = ()
    parts: int = 1
    nbytes: int = 0
    memory: int | None = None
    threads: int = 1
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """The size of one part of an output."""

    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Output:
    """What a task has made.

    Parameters
    ----------
    key
        The task's.
    parts
        The size of each part.
    value
        What the work returned.
    seconds
        How long it ran.
    memory
        Bytes that it had at the most beyond its inputs, as far as that was measured; 0 if it was not.
    band
        The number of the band where it ran.
    started
        When it began, in seconds since the epoch by the clock of the caller's machine, as far as clocks are known.
    read
        Bytes of its inputs.
    foreign
        Of these, bytes that other processes had made.
    """

    key: int
    parts: tuple[Part, ...]
    value: Any = None
    seconds: float = 0.0
    memory: int = 0
    band: int = 0
    started: float = 0.0
    read: int = 0
    foreign: int = 0

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class Band:
    """What tasks are assigned to: threads and memory of one worker.

    Parameters
    ----------
    number
        From 0.
    threads
        Threads that its tasks may use together.
    memory
        Bytes that they may use together.
    node
        The number of the machine; bands of one machine share a store.
    """

    number: int
    threads: int
    memory: int
    node: int = 0


class Underway(NamedTuple):
    """A run that goes on.

    Parameters
    ----------
    stage
        What its tasks are a part of, for people.
    done, tasks
        How many of its tasks are done, and how many there are.
    """

    stage: str
    done: int
    tasks: int


class Traffic(NamedTuple):
    """Bytes that were moved since the beginning.

    Parameters
    ----------
    spilled, reloaded
        Pages that stores have written to disk, and read from it.
    sent
        Parts of outputs from one machine to another.
    """

    spilled: int = 0
    reloaded: int = 0
    sent: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What came since; a store that was started anew counts from 0."""
        return Traffic(*(max(now - then, 0) for now, then in zip(self, before, strict=True)))


class Runner(Protocol):
    """Runs tasks.

    All methods are called from one event loop; :meth:`run` may be called again while others run.
    """

    @property
    def bands(self) -> tuple[Band, ...]:
        """What there is to run on."""

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        """Run tasks, which may read each other's outputs and those of earlier runs; return what they made, in order.

        Raises
        ------
        Exception
            What the work of some task raised, at once; the other tasks are stopped, and what was made is dropped.
        TaskLost
            If a task's process died more often than is bearable.
        """

    async def put(self, data: Any) -> Output:
        """Make a table that is in this process an output of one part, for tasks to read."""

    async def fetch(self, key: int, part: int = 0) -> pa.Table:
        """The rows of a part, in this process."""

    def release(self, keys: Iterable[int]) -> None:
        """Drop outputs that nothing will read any more. Unknown keys are no error."""

    def underway(self) -> list[Underway]:
        """The runs that go on, for people. May be called in any thread."""

    async def traffic(self) -> Traffic:
        """What has been moved so far, between stores and disks and between machines."""


class TaskLost(RuntimeError):
    """A task could not be run: the processes that tried died."""
