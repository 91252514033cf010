"""A task at its worker: what it is made of, how it is interrupted, and what is to be told of it."""

from __future__ import annotations

import ctypes
import time
import traceback
from collections.abc import Iterable
from typing import Any

import cloudpickle

from craton.cluster.transfer import Place
from craton.schedule.pages import PageSink, Stored
from craton.schedule.tasks import Work
from craton.store import Store

__all__ = ["Cancelled", "Job", "JobSink", "Reading", "Report", "interrupt", "packed_error", "settle"]

# Seconds that a thread is waited for that is being told to stop.
_SETTLE = 1.0

#: A read as it travels: tasks, parts, rows.
Reading = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int] | None]


class Cancelled(BaseException):
    """Raised in a thread whose task nobody wants any more."""


class Job:
    """A task at its worker."""

    __slots__ = (
        "alone", "cancelled", "consumers", "facts", "interruptible", "key", "memory", "nbytes", "need", "order", "parts",
        "reads", "run", "settled", "taken", "thread", "threads", "work",
    )  # fmt: skip

    def __init__(
        self,
        run: int,
        work: Work,
        key: int,
        order: int,
        reads: tuple[Reading, ...],
        parts: int,
        nbytes: int,
        memory: int | None,
        threads: int,
        consumers: tuple[int, ...],
    ) -> None:
        self.run, self.work, self.key, self.order = run, work, key, order
        self.reads, self.parts, self.nbytes, self.memory = reads, parts, nbytes, memory
        self.threads, self.consumers = threads, consumers
        self.need = self.thread = self.taken = 0
        self.alone = self.cancelled = self.settled = self.interruptible = False
        self.facts: tuple[float, int, int] = (
            0.0,
            0,
            0,
        )  # when it began, bytes of its inputs, and those that others made

    def row(self) -> tuple[Any, ...]:
        """What the job is made of again in another process, after run and work."""
        return (
            self.key, self.order, self.reads, self.parts, self.nbytes, self.memory, self.threads, self.consumers,
        )  # fmt: skip

    def needed(self) -> Iterable[int]:
        """Keys of the outputs that it reads."""
        return (key for tasks, _, _ in self.reads for key in tasks)


def interrupt(job: Job) -> None:
    """Raise `Cancelled` in the thread of a job, at its next step in Python."""
    job.settled = False
    job.cancelled = True
    if job.interruptible:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(job.thread), ctypes.py_object(Cancelled))
    job.settled = True


def settle(job: Job) -> None:
    """Have no exception be on its way to this thread any more."""
    until = time.monotonic() + _SETTLE
    while True:
        try:
            job.interruptible = False
            if not job.cancelled:
                return
            while not job.settled and time.monotonic() < until:
                time.sleep(0.0001)
            for _ in range(1000):
                pass
            return
        except Cancelled:
            continue


class JobSink(PageSink):
    """A sink whose writing is not interrupted: an exception between a set and who holds it would leave the set behind."""

    def __init__(self, store: Store, parts: int, node: int, job: Job, small: tuple[int, int]) -> None:
        super().__init__(store, parts, node, small)
        self._job = job

    def _to_pages(self, data: Any) -> Any:
        job = self._job
        job.interruptible = False
        try:
            return super()._to_pages(data)
        finally:
            job.interruptible = True
            if job.cancelled:
                raise Cancelled


class Report:
    """What is to be told to others since it was last taken."""

    __slots__ = ("done", "failed", "lost", "made")

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.failed: list[tuple[int, int, bytes, str]] = []
        self.lost: list[tuple[int, int, int, Place | None]] = []
        self.made: dict[int, list[tuple[int, int, Stored]]] = {}


def packed_error(error: BaseException) -> tuple[bytes, str]:
    """An exception as bytes that come back as one of its class, and where it was raised."""
    text = "".join(traceback.format_exception(error))
    error.__traceback__ = None
    try:
        packed = cloudpickle.dumps(error, 5)
        if type(cloudpickle.loads(packed)) is type(error):
            return packed, text
    except Exception:
        pass  # it cannot be pickled, or not be made again
    return cloudpickle.dumps(RuntimeError(f"{type(error).__qualname__}: {error}"), 5), text
