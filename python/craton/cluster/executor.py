"""The task executor of a worker: threads that choose and run its tasks without the event loop or the supervisor.

A thread that finishes a task records the output, takes the next ready task and runs it. The worker's event loop only reports to
the supervisor and to other workers, many outputs in one message.
"""

from __future__ import annotations

import contextlib
import gc
import heapq
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import cloudpickle

from craton.cluster.fetching import LocalParts, RemoteRows
from craton.cluster.transfer import version_of
from craton.cluster.worker_tasks import (
    Attempt,
    Cancelled,
    Report,
    WorkerTask,
    WorkerTaskSink,
    interrupt,
    pickle_error,
    settle,
)
from craton.schedule.memory_accounting import SMALL_NEED, Meter, RetainedMemory, projected_memory, reserve_for_task
from craton.schedule.pages import (
    FRUGAL_BYTES,
    SMALL_BYTES,
    SMALL_ROWS,
    OutputLost,
    OutputPart,
    OutputRows,
    PageInput,
    StoredOutput,
    inputs_of,
    slice_rows,
)
from craton.schedule.task_queue import TaskQueue
from craton.schedule.tasks import Read
from craton.store import LocalitySet, Store

# The exit status of a worker whose store is gone.
_NO_STORE = 4
# Bytes: a worker with less memory spills much, so only very small batches of different parts share a page; see `FRUGAL_BYTES`.
_FRUGAL = 256 << 20


class TaskExecutor:
    """Runs tasks in threads.

    Parameters
    ----------
    number, node
        The numbers of the band and of its machine.
    threads
        The number of threads; concurrent tasks use at most this many together.
    memory
        The most bytes that concurrent tasks may need together, as projected.
    store
        The store that outputs are written to.
    fetch
        Fetches rows of outputs on other machines and returns where they are in `store`; see :meth:`Fetcher.fetch`.
    prefetch
        Prefetches such rows for a task of the given order; see :meth:`Fetcher.prefetch`.
    notify
        Called, in any thread, when there is something to report or a thread has nothing to do.
    """

    def __init__(
        self,
        number: int,
        node: int,
        threads: int,
        memory: int,
        store: Store,
        fetch: Callable[[Sequence[RemoteRows], Callable[[], bool]], dict[tuple[int, Hashable], LocalParts] | None],
        prefetch: Callable[[int, Sequence[RemoteRows]], bool],
        notify: Callable[[], None],
    ) -> None:
        self.number, self.node, self.threads, self.memory = number, node, threads, memory
        self._store, self._fetch, self._prefetch, self._notify = store, fetch, prefetch, notify
        self._changed = threading.Condition()
        self._queue = TaskQueue()
        self._tasks: dict[int, WorkerTask] = {}
        self._running: dict[int, WorkerTask] = {}
        self._where: dict[int, StoredOutput] = {}
        self._has_remote = False  # whether any known output is on another machine
        # A heap of tasks, by order, whose remote inputs are not prefetched yet.
        self._prefetch_queue: list[tuple[int, int]] = []
        self._sets: dict[int, LocalitySet] = {}
        self._cancelled: set[int] = set()
        self._free = threads
        self._used = 0
        self._full = False
        self._report = Report()
        self._loop_unaware = True  # the event loop has not been notified since it last took the report
        self._meter, self._retained = Meter(), RetainedMemory(store, memory)
        self._small = (FRUGAL_BYTES, 1) if memory < _FRUGAL else (SMALL_BYTES, SMALL_ROWS)
        self.done = 0
        self._threads = [
            threading.Thread(target=self._run_tasks, name=f"craton-task-{i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    # ---- requests of the supervisor and of other workers ----

    def add(self, tasks: Sequence[WorkerTask], where: dict[int, StoredOutput]) -> None:
        """Queue tasks, given the locations of those of their inputs that exist."""
        with self._changed:
            for key, stored in where.items():
                self._record_location(key, stored)
            for task in tasks:
                if task.run in self._cancelled or task.key in self._tasks:
                    continue
                self._tasks[task.key] = task
                self._queue.add(task.key, task.order, task.needed(), self._where)
                if self._has_remote:
                    heapq.heappush(self._prefetch_queue, (task.order, task.key))
            self._prefetch_next()
            self._changed.notify_all()

    def made(self, locations: Iterable[tuple[int, int, StoredOutput]]) -> None:
        """Record outputs of other workers, as run, key and location."""
        with self._changed:
            for run, key, stored in locations:
                if run not in self._cancelled:
                    self._record_location(key, stored)
            self._changed.notify_all()

    def _record_location(self, key: int, stored: StoredOutput) -> None:
        self._where[key] = stored
        if stored.node != self.node and stored.number:
            self._has_remote = True
            if self._prefetch(0, ()):
                for reader in self._queue.readers(key):
                    task = self._tasks.get(reader)
                    if task is not None:
                        self._prefetch_inputs(task, {key: stored})
        self._queue.mark_available(key)

    def _prefetch_next(self) -> None:
        """Prefetch the remote inputs of the next tasks, as long as there is room."""
        while self._prefetch_queue and self._has_remote and self._prefetch(0, ()):
            task = self._tasks.get(heapq.heappop(self._prefetch_queue)[1])
            if task is None or task.key in self._running:
                continue
            made = {key: stored for key in task.needed() if (stored := self._where.get(key)) is not None}
            if task.key in self._queue.missing:
                self._prefetch_inputs(task, made)
                continue
            with contextlib.suppress(IndexError):  # the task raises it
                wanted = self._remote_rows(self._rows_read(task, made))
                if wanted:
                    self._prefetch(task.order, wanted)

    def _prefetch_inputs(self, task: WorkerTask, made: dict[int, StoredOutput]) -> None:
        """Prefetch the rows that a task will read of some outputs. Restricted row ranges need all outputs, and are left out."""
        wanted = [
            RemoteRows(key, stored, part, stored.parts[part])
            for sources, parts, rows in task.reads
            if rows is None
            for own in [sources if len(made) == 1 else set(sources)]
            for key, stored in made.items()
            if stored.node != self.node and (len(task.reads) == 1 or key in own)
            for part in parts
            if part < len(stored.parts) and stored.parts[part]
        ]
        if wanted:
            self._prefetch(task.order, wanted)

    def held_tasks(self, run: int) -> tuple[list[int], list[int]]:
        """Return the keys of the tasks of a run that are here, and of the outputs that they wait for."""
        with self._changed:
            tasks = [task for task in self._tasks.values() if task.run == run]
            missing = {key for task in tasks for key in task.needed() if key not in self._where}
            return [task.key for task in tasks], list(missing)

    def forget(self, keys: Iterable[int]) -> None:
        """Drop references to outputs that were released."""
        gone = []
        with self._changed:
            for key in keys:
                self._where.pop(key, None)
                gone.append(self._sets.pop(key, None))
        del gone  # outside of the lock: this sends requests to the store

    def cancel(self, run: int) -> None:
        """Drop the tasks of a run, and interrupt those that are running."""
        with self._changed:
            self._cancelled.add(run)
            for task in [task for task in self._tasks.values() if task.run == run]:
                self._queue.remove(task.key)
                if task.key in self._running:
                    interrupt(task)
                else:
                    del self._tasks[task.key]

    def interrupt(self, run: int) -> bool:
        """Interrupt the running tasks of a cancelled run once more; return whether there are any.

        An earlier interrupt may have been raised where Python ignores exceptions, or caught by the task.
        """
        with self._changed:
            tasks = [task for task in self._running.values() if task.run == run]
            for task in tasks:
                interrupt(task)
            return bool(tasks)

    def give(self, number: int) -> tuple[list[WorkerTask], dict[int, StoredOutput]]:
        """Remove at most `number` ready tasks of the lowest priority; return them and the known locations of their inputs."""
        with self._changed:
            tasks = [self._tasks.pop(key) for key in self._queue.take_last(number)]
            return tasks, {key: self._where[key] for task in tasks for key in task.needed() if key in self._where}

    @property
    def surplus(self) -> int:
        """The number of ready tasks beyond the free threads."""
        return max(self._queue.ready - self._free, 0)

    @property
    def idle(self) -> bool:
        """Whether a thread is free and no task is ready."""
        return self._free > 0 and not self._queue.ready

    @property
    def running(self) -> list[int]:
        """The keys of the running tasks."""
        return list(self._running)

    @property
    def used(self) -> int:
        """Bytes that the running tasks are projected to need."""
        return self._used

    def take_report(self) -> Report:
        """Return what is to be reported, and begin a new report."""
        with self._changed:
            report, self._report = self._report, Report()
            self._loop_unaware = True
            return report

    # ---- the threads ----

    def _next(self) -> WorkerTask | None:
        """Take the first ready task, if memory and threads are free for it."""
        if self._full or not self._free:
            return None
        key = self._queue.take()
        if key is None:
            return None
        task = self._tasks[key]
        wanted = self.threads if task.alone else min(task.threads, self.threads)
        if wanted > self._free:
            self._queue.add(key, task.order, (), ())
            return None
        self._free -= wanted
        task.taken = wanted
        task.thread = threading.get_ident()
        self._running[key] = task
        self._prefetch_next()
        return task

    def _run_tasks(self) -> None:
        while True:
            with self._changed:
                while (task := self._next()) is None:
                    if not self._queue.ready:
                        self._notify_loop()  # so that the event loop can steal tasks from other workers
                    self._changed.wait()
            with contextlib.suppress(Cancelled):
                self._run_task(task)

    def _notify_loop(self) -> None:
        """Notify the event loop, unless it has been notified already."""
        if self._loop_unaware:
            self._loop_unaware = False
            self._notify()

    def _run_task(self, task: WorkerTask) -> None:
        """Run a task, and record its output or its failure."""
        reserved: Any = None
        attempt = Attempt()
        where: dict[int, StoredOutput] = {}
        try:
            where = self._input_locations(task)
            inputs = self._inputs(task, where)
            reads = sum(one.nbytes for one in inputs)
            need = projected_memory(task.memory, reads, task.nbytes)
            attempt.again = not self._admit(task, need)
            if task.alone:
                self._retained.release()  # the task failed for lack of memory before: give it all there is
            elif not attempt.again and need >= SMALL_NEED:
                reserved = self._reserve(task, need, reads)
                attempt.again = reserved is None
            if not attempt.again:
                self._execute(task, inputs, attempt, measured=need > 0)
            del inputs
        except BaseException as raised:
            attempt.error = raised
        settle(task)
        error = attempt.error
        if isinstance(error, ConnectionError):
            self._check_store()
        if error is not None and attempt.sink is not None:
            attempt.sink.abandon()
        if reserved is not None:
            reserved.release()
            self._settle_memory()
        attempt.lost = where.get(error.key) if isinstance(error, OutputLost) else None
        self._finish(task, attempt)
        if error is not None:
            error.__traceback__ = attempt.error = None
            del error
            gc.collect()  # frames of the traceback may keep the task's inputs pinned

    def _execute(self, task: WorkerTask, inputs: Sequence[PageInput], attempt: Attempt, measured: bool) -> None:
        """Run the work of a task, and write its output."""
        attempt.sink = sink = WorkerTaskSink(self._store, task.parts, self.node, task, self._small)
        task.measurements = time.time(), *_input_bytes(inputs, self._sets)
        began = time.perf_counter()
        if measured:
            self._retained.begin()
            self._meter.begin()
        try:
            task.interruptible = True
            result = None if task.cancelled else task.work.run(inputs, sink)
            attempt.value = None if result is None else cloudpickle.dumps(result, 5)
            attempt.stored = sink.finish()
        finally:
            task.interruptible = False
            if measured:
                attempt.memory = self._meter.end()
        attempt.seconds = time.perf_counter() - began

    def _input_locations(self, task: WorkerTask) -> dict[int, StoredOutput]:
        """Return the locations of the outputs that the task reads."""
        where: dict[int, StoredOutput] = {}
        for key in task.needed():
            stored = self._where.get(key)
            if stored is None:
                raise OutputLost(key)
            where[key] = stored
        return where

    def _inputs(self, task: WorkerTask, where: dict[int, StoredOutput]) -> list[PageInput]:
        """Return the task's inputs; fetch those that are on other machines."""
        if all(stored.node == self.node or not stored.number for stored in where.values()):
            return inputs_of(self._store, [Read(*read) for read in task.reads], where)
        return self._fetched_inputs(task, where)

    def _rows_read(self, task: WorkerTask, where: dict[int, StoredOutput]) -> list[list[tuple[OutputRows, Hashable]]]:
        """Return, for each read of the task, the rows of each output that it reads, with a name that identifies these rows."""
        found = []
        for sources, parts, rows in task.reads:
            pieces = [OutputPart(key, where[key], part) for key in sources for part in parts]
            chosen: list[OutputRows] = [(piece.key, piece.stored, piece.stored.parts[piece.part]) for piece in pieces]
            names: list[Hashable] = [piece.part for piece in pieces]
            if rows is not None:
                chosen = list(slice_rows(chosen, *rows))
                names = [each[2] and (name, each[2][0], each[2][-1]) for name, each in zip(names, chosen, strict=True)]
            found.append(list(zip(chosen, names, strict=True)))
        return found

    def _remote_rows(self, reads: Sequence[Sequence[tuple[OutputRows, Hashable]]]) -> list[RemoteRows]:
        return [
            RemoteRows(key, stored, name, slices)
            for read in reads
            for (key, stored, slices), name in read
            if slices and stored.node != self.node
        ]

    def _fetched_inputs(self, task: WorkerTask, where: dict[int, StoredOutput]) -> list[PageInput]:
        reads = self._rows_read(task, where)
        wanted = self._remote_rows(reads)
        near = self._fetch(wanted, lambda: task.cancelled) if wanted else {}
        if near is None:
            raise Cancelled
        found = []
        for read in reads:
            pieces = []
            for (key, stored, slices), name in read:
                if slices and stored.node != self.node:
                    pieces += [OutputPart(key, *each) for each in near[key, name]]
                elif isinstance(name, int):
                    pieces.append(OutputPart(key, stored, name))
                else:
                    pieces.append(OutputPart(key, stored._replace(parts=(slices,)), 0))
            found.append(PageInput(self._store, pieces))
        return found

    def _check_store(self) -> None:
        """End this process if its store is gone. The worker cannot work without it; the supervisor recovers its tasks."""
        try:
            self._store._native.counters()
        except (ConnectionError, ValueError):
            print("the store of this worker's machine is gone", file=sys.stderr, flush=True)
            os._exit(_NO_STORE)

    def _admit(self, task: WorkerTask, need: int) -> bool:
        """Return whether the task's projected memory fits beside that of the running tasks, and account for it."""
        if not need:
            return True
        with self._changed:
            if len(self._running) > 1 and self._used + need > self.memory:
                self._full = True  # until a running task ends
                return False
            self._used += need
            task.need = need
            return True

    def _reserve(self, task: WorkerTask, need: int, reads: int) -> Any:
        """Reserve the memory that the task needs; return None if it is not free and other tasks are running, which will release some.

        At least half of the worker's share is left to pages, because the pages of all workers share the store's memory.
        """
        need = min(need, self.memory // 2 - self._retained.nbytes)
        try:
            return self._store.reserve(need)
        except MemoryError:
            with self._changed:
                if len(self._running) > 1:
                    self._full = True
                    return None
        return reserve_for_task(self._store, need, reads)

    def _settle_memory(self) -> None:
        """Account for the memory that this process retains after a task, if no other task is running."""
        with self._changed:
            alone = len(self._running) == 1
        if alone:
            # A closed store is handled in `_check_store`.
            with contextlib.suppress(ConnectionError, ValueError, MemoryError):
                self._retained.settle()

    def _finish(self, task: WorkerTask, attempt: Attempt) -> None:
        """Free what the task used; then queue it again, or report its output or failure."""
        failure = None
        if isinstance(attempt.error, MemoryError) and not task.alone and not task.cancelled:
            task.alone = attempt.again = True  # it may fit when no other task runs and no memory is reserved
        elif attempt.error is not None and not isinstance(attempt.error, OutputLost) and not task.cancelled:
            failure = pickle_error(attempt.error)
        with self._changed:
            del self._running[task.key]
            self._free += task.taken
            self._used -= task.need
            task.need = 0
            self._full = attempt.again and bool(self._running)
            if task.cancelled:
                self._tasks.pop(task.key, None)
                if attempt.sink is not None and attempt.error is None:
                    attempt.sink.abandon()
            elif attempt.again:
                self._queue.add(task.key, task.order, (), ())
            else:
                del self._tasks[task.key]
                if attempt.stored is None:
                    self._report_failure(task, attempt, failure)
                else:
                    self._report_output(task, attempt, attempt.stored)
                self._notify_loop()
            if self.threads > 1:
                self._changed.notify_all()

    def _report_failure(self, task: WorkerTask, attempt: Attempt, failure: tuple[bytes, str] | None) -> None:
        error, lost = attempt.error, attempt.lost
        if isinstance(error, OutputLost):
            if self._where.get(error.key) == lost:
                self._where.pop(error.key, None)
            self._report.lost.append((task.run, task.key, error.key, None if lost is None else version_of(lost)))
        elif failure is not None:
            self._report.failed.append((task.run, task.key, *failure))

    def _report_output(self, task: WorkerTask, attempt: Attempt, stored: StoredOutput) -> None:
        self.done += 1
        if attempt.sink is not None and attempt.sink.pages is not None:
            self._sets[task.key] = attempt.sink.pages
        self._record_location(task.key, stored)
        self._report.done.append(
            (task.run, task.key, stored, attempt.value, attempt.seconds, attempt.memory, *task.measurements)
        )
        for band in task.consumers:
            self._report.made.setdefault(band, []).append((task.run, task.key, stored))


def _input_bytes(inputs: Sequence[PageInput], own: dict[int, LocalitySet]) -> tuple[int, int]:
    """Return the bytes of the inputs, and how many of them other processes made."""
    read = foreign = 0
    for one in inputs:
        for key, nbytes in one.by_task():
            read += nbytes
            if key not in own:
                foreign += nbytes
    return read, foreign
