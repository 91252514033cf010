"""The runner of embedded sessions: it runs tasks in this process. Tests and benchmarks compare the other runners with it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from craton import events
from craton.config import options
from craton.kernel.memory import release_freed_memory
from craton.schedule.memory_accounting import SMALL_NEED, Meter, projected_memory, reserve_for_task
from craton.schedule.pages import (
    FRUGAL_BYTES,
    SMALL_BYTES,
    SMALL_ROWS,
    OutputLost,
    OutputPart,
    PageInput,
    PageSink,
    StoredOutput,
    inputs_of,
)
from craton.schedule.task_queue import TaskQueue
from craton.schedule.tasks import Band, Output, RunProgress, Task, Traffic, new_key
from craton.schedule.telemetry import emit_tasks, store_traffic
from craton.store import LocalitySet, Store, default_store


class InlineRunner:
    """Runs tasks in this process, sequentially or in a pool of threads.

    With one thread, tasks run in the thread that calls :meth:`run`, where the kernel checks for Ctrl-C.

    Parameters
    ----------
    store
        Keeps the outputs; by default the store of the process.
    bands
        The number of bands that it reports. Outputs name these bands round-robin, for tests; everything runs in this process.
    threads
        How many tasks run concurrently.
    kernel_memory
        For processes with little memory: the least number of bytes that the store keeps free of pages for each task. If it is
        greater than 0, memory that allocators hold after a task is returned to the system. 0 reserves as much as the task is
        projected to need.
    """

    def __init__(self, store: Store | None = None, bands: int = 1, threads: int = 1, *, kernel_memory: int = 0) -> None:
        self._given = store
        self._threads = threads
        self._kernel_memory = kernel_memory
        memory = options.memory_limit if store is None else store.limit
        self._bands = tuple(Band(number, max(threads // bands, 1), memory // bands) for number in range(bands))
        self._where: dict[int, StoredOutput] = {}
        self._sets: dict[int, LocalitySet] = {}
        self._meter = Meter()
        self._read = 0
        self._runs: dict[int, tuple[Sequence[Task], dict[int, Output]]] = {}

    @property
    def _store(self) -> Store:
        return default_store() if self._given is None else self._given

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands; see :attr:`craton.schedule.tasks.Runner.bands`."""
        return self._bands

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        """Run tasks; see :meth:`craton.schedule.tasks.Runner.run`.

        Raises
        ------
        ValueError
            If a task reads an output that no task makes, or the tasks have a cycle.
        """
        made: dict[int, Output] = {}
        self._runs[id(made)] = tasks, made
        try:
            if self._threads == 1:
                for number, task in enumerate(topological_order(tasks, self._where)):
                    made[task.key] = self._run_one(task, number)
                    await asyncio.sleep(0)
            else:
                await self._run_concurrently(topological_order(tasks, self._where), made)
        except BaseException:
            self.release(task.key for task in tasks)
            raise
        finally:
            del self._runs[id(made)]
            if events.active:
                emit_tasks(tasks, made)
        return [made[task.key] for task in tasks]

    async def _run_concurrently(self, tasks: list[Task], made: dict[int, Output]) -> None:
        loop = asyncio.get_running_loop()
        numbers = {task.key: number for number, task in enumerate(tasks)}
        queue = TaskQueue()
        for number, task in enumerate(tasks):
            queue.add(task.key, number, (key for read in task.inputs for key in read.tasks), self._where)
        running: set[asyncio.Future[Output]] = set()
        with ThreadPoolExecutor(self._threads) as threads:
            try:
                while len(made) < len(tasks):
                    while len(running) < self._threads and (key := queue.take()) is not None:
                        number = numbers[key]
                        running.add(loop.run_in_executor(threads, self._run_one, tasks[number], number))
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for output in [future.result() for future in done]:
                        made[output.key] = output
                        queue.mark_available(output.key)
            finally:
                if running:
                    await asyncio.wait(running)  # a thread cannot be killed

    def _run_one(self, task: Task, number: int) -> Output:
        store = self._store
        inputs = inputs_of(store, task.inputs, self._where)
        frugal = self._kernel_memory > 0
        small = (min(FRUGAL_BYTES, self._kernel_memory >> 13), 1) if frugal else (SMALL_BYTES, SMALL_ROWS)
        sink = PageSink(store, task.parts, small=small)
        read = sum(one.nbytes for one in inputs)
        need = max(projected_memory(task.memory, read, task.nbytes), self._kernel_memory)
        given: Any = reserve_for_task(store, need, read) if need >= SMALL_NEED else contextlib.nullcontext()
        memory = 0
        if need:
            self._meter.begin()
        began = time.perf_counter()
        try:
            with given:
                value = task.work.run(inputs, sink)
                stored = sink.finish()
        except BaseException:
            sink.abandon()
            raise
        finally:
            if need:
                memory = self._meter.end()
            if frugal:
                self._let_go(read)
                release_freed_memory()
        seconds = time.perf_counter() - began
        self._keep(task.key, stored, sink)
        band, started = number % len(self._bands), time.time() - seconds
        return Output(task.key, stored.sizes(), value, seconds, memory, band, started, read)

    def _let_go(self, nbytes: int) -> None:
        """Run the garbage collector after a task that has read this many bytes, because reference cycles keep pages pinned in the store."""
        self._read += nbytes
        full = self._read >= self._kernel_memory >> 2
        gc.collect(2 if full else 1)
        if full:
            self._read = 0

    def _keep(self, key: int, stored: StoredOutput, sink: PageSink) -> None:
        if sink.pages is not None:
            self._sets[key] = sink.pages
        self._where[key] = stored

    async def put(self, data: Any) -> Output:
        """Make a table an output; see :meth:`craton.schedule.tasks.Runner.put`."""
        sink = PageSink(self._store, 1)
        sink.write(0, data)
        stored, key = sink.finish(), new_key()
        self._keep(key, stored, sink)
        return Output(key, stored.sizes())

    async def fetch(self, key: int, part: int = 0) -> pa.Table:
        """Return the rows of a part.

        Raises
        ------
        KeyError
            If the output was released or never made.
        """
        if key not in self._where:
            raise KeyError(f"there is no output of task {key}: it was released, or never made")
        try:
            return PageInput(self._store, [OutputPart(key, self._where[key], part)]).table()
        except OutputLost as error:
            raise KeyError(str(error)) from None

    def release(self, keys: Iterable[int]) -> None:
        """Drop outputs; see :meth:`craton.schedule.tasks.Runner.release`."""
        for key in keys:
            self._where.pop(key, None)
            pages = self._sets.pop(key, None)
            if pages is not None:
                with contextlib.suppress(
                    KeyError, OSError, ValueError
                ):  # the store has been closed, and the set with it
                    pages.drop()

    def progress(self) -> list[RunProgress]:
        """Return the runs in progress; see :meth:`craton.schedule.tasks.Runner.progress`."""
        runs = list(self._runs.values())
        return [RunProgress(tasks[0].stage, len(made), len(tasks)) for tasks, made in runs if tasks]

    async def traffic(self) -> Traffic:
        """Return the bytes moved so far; see :meth:`craton.schedule.tasks.Runner.traffic`."""
        return store_traffic(self._store)


def topological_order(tasks: Sequence[Task], made: Any) -> list[Task]:
    """Sort tasks topologically: each after the tasks whose outputs it reads, and otherwise in the given order.

    Parameters
    ----------
    tasks
        The tasks.
    made
        Keys of the outputs that exist already.

    Raises
    ------
    ValueError
        If a task reads an output that no task makes, two tasks have the same key, or the tasks have a cycle.
    """
    by_key = {task.key: task for task in tasks}
    if len(by_key) != len(tasks):
        raise ValueError(
            f"{len(tasks)} tasks have only {len(by_key)} different keys; give each task a key from new_key()"
        )
    seen: set[int] = set()
    for task in tasks:  # most callers pass them sorted
        if task.inputs and not all(key in seen or key in made for read in task.inputs for key in read.tasks):
            break
        seen.add(task.key)
    else:
        return list(tasks)
    order: list[Task] = []
    state: dict[int, bool] = {}  # False while the task's inputs are being visited, True once it is in `order`
    for first in tasks:
        stack = [first]
        while stack:
            task = stack[-1]
            if state.get(task.key):
                stack.pop()
                continue
            state[task.key] = False
            ready = True
            for key in (key for read in task.inputs for key in read.tasks):
                if state.get(key):
                    continue
                if key in by_key:
                    if key in state:
                        raise ValueError(f"task {task.key} ({task.stage or 'no stage'}) depends on its own output")
                    stack.append(by_key[key])
                    ready = False
                    break
                if key not in made:
                    raise ValueError(f"task {task.key} reads the output of task {key}, which does not exist")
            if ready:
                state[task.key] = True
                order.append(task)
                stack.pop()
    return order
