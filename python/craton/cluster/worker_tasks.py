"""A task on its worker: its state, its interruption, and the report of its result."""

from __future__ import annotations

import ctypes
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from craton.cluster.transfer import OutputVersion
from craton.schedule.pages import PageSink, StoredOutput
from craton.schedule.tasks import Work
from craton.store import Store

__all__ = [
    "Attempt",
    "Cancelled",
    "Reading",
    "Report",
    "WorkerTask",
    "WorkerTaskSink",
    "interrupt",
    "pickle_error",
    "settle",
]

# Seconds to wait for the thread that is interrupting a task.
_SETTLE = 1.0

#: A :class:`craton.schedule.tasks.Read` as it is sent: tasks, parts, rows.
Reading = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int] | None]


class Cancelled(BaseException):
    """Raised in the thread of a task whose run was cancelled."""


@dataclass(slots=True, eq=False)
class WorkerTask:
    """A task on its worker, with the state of its execution."""

    run: int
    work: Work
    key: int
    order: int
    reads: tuple[Reading, ...]
    parts: int
    nbytes: int
    memory: int | None
    threads: int
    consumers: tuple[int, ...]
    need: int = 0
    thread: int = 0
    taken: int = 0
    alone: bool = False
    cancelled: bool = False
    settled: bool = False
    interruptible: bool = False
    #: When it began, the bytes of its inputs, and how many of these other processes made.
    measurements: tuple[float, int, int] = (0.0, 0, 0)

    def row(self) -> tuple[Any, ...]:
        """Return the arguments of the constructor after `run` and `work`, to recreate it in another process."""
        return (
            self.key, self.order, self.reads, self.parts, self.nbytes, self.memory, self.threads, self.consumers,
        )  # fmt: skip

    def needed(self) -> Iterable[int]:
        """Return the keys of the outputs that it reads."""
        return (key for tasks, _, _ in self.reads for key in tasks)


def interrupt(task: WorkerTask) -> None:
    """Raise `Cancelled` in the thread of a task, at its next Python instruction."""
    task.settled = False
    task.cancelled = True
    if task.interruptible:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(task.thread), ctypes.py_object(Cancelled))
    task.settled = True


def settle(task: WorkerTask) -> None:
    """Return when no `Cancelled` can be raised in this thread any more; called by the task's thread after the work."""
    until = time.monotonic() + _SETTLE
    while True:
        try:
            task.interruptible = False
            if not task.cancelled:
                return
            while not task.settled and time.monotonic() < until:
                time.sleep(0.0001)
            for _ in range(1000):
                pass
            return
        except Cancelled:
            continue


class WorkerTaskSink(PageSink):
    """A sink whose writes are not interrupted: an exception between creating a set and recording it would leak the set."""

    def __init__(self, store: Store, parts: int, node: int, task: WorkerTask, small: tuple[int, int]) -> None:
        super().__init__(store, parts, node, small)
        self._task = task

    def _to_pages(self, data: Any) -> Any:
        task = self._task
        task.interruptible = False
        try:
            return super()._to_pages(data)
        finally:
            task.interruptible = True
            if task.cancelled:
                raise Cancelled


@dataclass(slots=True)
class Attempt:
    """The outcome of one execution of a task."""

    sink: PageSink | None = None
    stored: StoredOutput | None = None
    value: bytes | None = None
    seconds: float = 0.0
    memory: int = 0
    error: BaseException | None = None
    #: Whether the task has to wait and be tried again.
    again: bool = False
    #: The location where an output that the task reads was not found.
    lost: StoredOutput | None = None


class Report:
    """A worker's pending report: completed, failed and lost tasks for the supervisor, and new outputs for other bands."""

    __slots__ = ("done", "failed", "lost", "made")

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.failed: list[tuple[int, int, bytes, str]] = []
        self.lost: list[tuple[int, int, int, OutputVersion | None]] = []
        self.made: dict[int, list[tuple[int, int, StoredOutput]]] = {}


def pickle_error(error: BaseException) -> tuple[bytes, str]:
    """Pickle an exception so that it unpickles to its own class, or else as a RuntimeError; return it and its traceback as text."""
    text = "".join(traceback.format_exception(error))
    error.__traceback__ = None
    try:
        packed = cloudpickle.dumps(error, 5)
        if type(cloudpickle.loads(packed)) is type(error):
            return packed, text
    except Exception:
        pass  # it cannot be pickled, or its pickle cannot be loaded
    return cloudpickle.dumps(RuntimeError(f"{type(error).__qualname__}: {error}"), 5), text
