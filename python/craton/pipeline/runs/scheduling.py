"""Runs jobs, each after those that it needs, as many at once as the manager admits; a job that fails stops only those that need it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from craton.pipeline.manager import Manager, Request

__all__ = ["Ended", "Job", "run_jobs"]

#: Threads that wait for admission or for processes of steps.
_MOST_THREADS = 256


@dataclass(slots=True, eq=False)
class Job:
    """Work that is done when other jobs are done.

    Parameters
    ----------
    name
        Unique in the run.
    owner
        The source, step or check that it is a part of.
    needs
        The names of the jobs before it.
    work
        Called in another thread with this job. It may return further jobs, for which `last` waits.
    demand
        Makes the request for admission when the job is ready; None if it is too small to wait for one.
    last
        The name of a job that waits for the jobs that `work` returns.
    peak, output
        The most bytes that it had besides its inputs, and bytes of its outputs, which `work` sets.
    taking
        Makes the context in which its output becomes pages; see :meth:`Grant.replaced_by_pages`.
    """

    name: str
    owner: str
    needs: set[str]
    work: Callable[[Job], Iterable[Job] | None]
    demand: Callable[[], Request] | None = None
    last: str | None = None
    peak: int | None = None
    output: int = 0
    taking: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(slots=True)
class Ended:
    """How a job ended.

    Parameters
    ----------
    owner
        The source, step or check that the job is a part of.
    state
        ``"skipped"`` if a job failed that it needs.
    error
        Why it failed.
    because
        The owner of the job that failed, if this one was skipped.
    waited, seconds
        From when it could run until it was admitted, and from then to its end.
    """

    owner: str
    state: Literal["done", "failed", "skipped"]
    error: BaseException | None = None
    because: str | None = None
    waited: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class _Run:
    manager: Manager
    pool: ThreadPoolExecutor
    stopped: threading.Event = field(default_factory=threading.Event)
    ended: dict[str, Ended] = field(default_factory=dict)
    waiting: dict[str, Job] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    events: queue.SimpleQueue[tuple[Job, Ended, list[Job]]] = field(default_factory=queue.SimpleQueue)

    def add(self, jobs: Iterable[Job]) -> None:
        self.waiting |= {job.name: job for job in jobs}

    def start_ready(self) -> None:
        """Submit the jobs whose needs are done, and skip those whose needs failed."""
        changed = True
        while changed:
            changed = False
            for job in list(self.waiting.values()):
                states = [self.ended.get(name) for name in job.needs]
                bad = next(
                    (name for name in sorted(job.needs) if name in self.ended and self.ended[name].state != "done"),
                    None,
                )
                if bad is not None:
                    del self.waiting[job.name]
                    because = self.ended[bad].because or self.ended[bad].owner
                    self.ended[job.name] = Ended(job.owner, "skipped", because=because)
                    changed = True
                elif None not in states:
                    del self.waiting[job.name]
                    self.submit(job)

    def submit(self, job: Job) -> None:
        self.open.add(job.name)
        self.pool.submit(self.run, job)

    def run(self, job: Job) -> None:
        """Run a job, in a thread of the pool."""
        ready = started = time.perf_counter()
        more: list[Job] = []
        ended = Ended(job.owner, "done")
        grant = None
        try:
            if job.demand is not None:
                grant = self.manager.admit(job.demand(), cancelled=self.stopped.is_set)
                grant.load()
                job.taking = grant.replaced_by_pages
                started = time.perf_counter()
            more = list(job.work(job) or ())
        except BaseException as error:
            ended = Ended(job.owner, "failed", error)
        finally:
            if grant is not None:
                grant.finish(job.peak if ended.state == "done" else None, job.output)
        ended.waited, ended.seconds = started - ready, time.perf_counter() - started
        self.events.put((job, ended, more))


def run_jobs(
    jobs: Iterable[Job], manager: Manager, report: Callable[[str, Ended], None] | None = None
) -> Mapping[str, Ended]:
    """Run jobs to the end of the last one.

    Parameters
    ----------
    jobs
        The jobs.
    manager
        Says when a job may start.
    report
        Called in this thread when a job has ended.

    Returns
    -------
    mapping
        How each ended.
    """
    with ThreadPoolExecutor(_MOST_THREADS, "craton-step") as pool:
        run = _Run(manager, pool)
        run.add(jobs)
        try:
            run.start_ready()
            while run.open:
                job, ended, more = run.events.get()
                run.open.discard(job.name)
                if job.last is not None and more:
                    run.waiting[job.last].needs |= {one.name for one in more}
                    run.add(more)
                run.ended[job.name] = ended
                if report is not None:
                    report(job.name, ended)
                run.start_ready()
        except BaseException:  # the user interrupts: nothing else starts
            run.stopped.set()
            raise
    return run.ended
