"""Runs tasks in this process: the embedded runner, and what the others are compared with."""

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
from craton.schedule.memory_accounting import SMALL_NEED, Meter, lent, projected
from craton.schedule.pages import (
    FRUGAL_BYTES,
    SMALL_BYTES,
    SMALL_ROWS,
    OutputLost,
    PageInput,
    PageSink,
    Piece,
    Stored,
    inputs_of,
)
from craton.schedule.tasks import Band, Output, Task, Traffic, Underway, new_key
from craton.schedule.telemetry import store_traffic, tell_of
from craton.schedule.waiting import Waiting
from craton.store import LocalitySet, Store, default_store


class InlineRunner:
    """Runs tasks one after another, or some beside each other, in this process.

    With one thread, tasks run in the thread that calls :meth:`run`, where the kernel looks for Ctrl-C.

    Parameters
    ----------
    store
        Where outputs are kept; by default the store of the process.
    bands
        How many bands it says that it has; its tasks are dealt out to them in turn, which is of use in tests.
    threads
        How many tasks run beside each other.
    kernel_memory
        Bytes that the store keeps free of pages for each task at least, where memory is short; what a task leaves behind in
        allocators is given back to the system then. 0: as many as the task is expected to need.
    """

    def __init__(self, store: Store | None = None, bands: int = 1, threads: int = 1, *, kernel_memory: int = 0) -> None:
        self._given = store
        self._threads = threads
        self._kernel_memory = kernel_memory
        memory = options.memory_limit if store is None else store.limit
        self._bands = tuple(Band(number, max(threads // bands, 1), memory // bands) for number in range(bands))
        self._where: dict[int, Stored] = {}
        self._sets: dict[int, LocalitySet] = {}
        self._meter = Meter()
        self._read = 0
        self._runs: dict[int, tuple[Sequence[Task], dict[int, Output]]] = {}

    @property
    def _store(self) -> Store:
        return default_store() if self._given is None else self._given

    @property
    def bands(self) -> tuple[Band, ...]:
        """What there is to run on."""
        return self._bands

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        """Run tasks; see :meth:`craton.schedule.tasks.Runner.run`.

        Raises
        ------
        ValueError
            If a task reads what nobody makes, or its own output.
        """
        made: dict[int, Output] = {}
        self._runs[id(made)] = tasks, made
        try:
            if self._threads == 1:
                for number, task in enumerate(in_order(tasks, self._where)):
                    made[task.key] = self._run_one(task, number)
                    await asyncio.sleep(0)
            else:
                await self._run_beside_each_other(in_order(tasks, self._where), made)
        except BaseException:
            self.release(task.key for task in tasks)
            raise
        finally:
            del self._runs[id(made)]
            if events.active:
                tell_of(tasks, made)
        return [made[task.key] for task in tasks]

    async def _run_beside_each_other(self, tasks: list[Task], made: dict[int, Output]) -> None:
        loop = asyncio.get_running_loop()
        numbers = {task.key: number for number, task in enumerate(tasks)}
        waiting = Waiting()
        for number, task in enumerate(tasks):
            waiting.add(task.key, number, (key for read in task.inputs for key in read.tasks), self._where)
        running: set[asyncio.Future[Output]] = set()
        with ThreadPoolExecutor(self._threads) as threads:
            try:
                while len(made) < len(tasks):
                    while len(running) < self._threads and (key := waiting.take()) is not None:
                        number = numbers[key]
                        running.add(loop.run_in_executor(threads, self._run_one, tasks[number], number))
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for output in [future.result() for future in done]:
                        made[output.key] = output
                        waiting.made(output.key)
            finally:
                if running:
                    await asyncio.wait(running)  # a thread cannot be ended

    def _run_one(self, task: Task, number: int) -> Output:
        store = self._store
        inputs = inputs_of(store, task.inputs, self._where)
        frugal = self._kernel_memory > 0
        small = (min(FRUGAL_BYTES, self._kernel_memory >> 13), 1) if frugal else (SMALL_BYTES, SMALL_ROWS)
        sink = PageSink(store, task.parts, small=small)
        read = sum(one.nbytes for one in inputs)
        need = max(projected(task.memory, read, task.nbytes), self._kernel_memory)
        given: Any = lent(store, need, read) if need >= SMALL_NEED else contextlib.nullcontext()
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
        """Collect circles of objects after a task that has read so many bytes: what they refer to is pinned in the store still."""
        self._read += nbytes
        full = self._read >= self._kernel_memory >> 2
        gc.collect(2 if full else 1)
        if full:
            self._read = 0

    def _keep(self, key: int, stored: Stored, sink: PageSink) -> None:
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
        """The rows of a part.

        Raises
        ------
        KeyError
            If there is no such output: it was released, or never made.
        """
        if key not in self._where:
            raise KeyError(f"there is no output of task {key}: it was released, or never made")
        try:
            return PageInput(self._store, [Piece(key, self._where[key], part)]).table()
        except OutputLost as error:
            raise KeyError(str(error)) from None

    def release(self, keys: Iterable[int]) -> None:
        """Drop outputs that nothing will read any more."""
        for key in keys:
            self._where.pop(key, None)
            pages = self._sets.pop(key, None)
            if pages is not None:
                with contextlib.suppress(KeyError, OSError, ValueError):  # the store is gone, and it with it
                    pages.drop()

    def underway(self) -> list[Underway]:
        """The runs that go on."""
        runs = list(self._runs.values())
        return [Underway(tasks[0].stage, len(made), len(tasks)) for tasks, made in runs if tasks]

    async def traffic(self) -> Traffic:
        """What has been moved so far."""
        return store_traffic(self._store)


def in_order(tasks: Sequence[Task], made: Any) -> list[Task]:
    """Tasks in an order in which they can run one after another, which is the given one as far as that can be.

    Parameters
    ----------
    tasks
        What is to be run.
    made
        Keys of outputs that are there.

    Raises
    ------
    ValueError
        If a task reads what nobody makes, two have one key, or some wait for each other.
    """
    by_key = {task.key: task for task in tasks}
    if len(by_key) != len(tasks):
        raise ValueError(f"{len(tasks)} tasks have only {len(by_key)} different keys")
    seen: set[int] = set()
    for task in tasks:  # most come so
        if task.inputs and not all(key in seen or key in made for read in task.inputs for key in read.tasks):
            break
        seen.add(task.key)
    else:
        return list(tasks)
    order: list[Task] = []
    state: dict[int, bool] = {}  # False while what it reads is looked at
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
                        raise ValueError(f"task {task.key} ({task.stage or 'no stage'}) waits for its own output")
                    stack.append(by_key[key])
                    ready = False
                    break
                if key not in made:
                    raise ValueError(f"task {task.key} reads the output of task {key}, which nobody makes")
            if ready:
                state[task.key] = True
                order.append(task)
                stack.pop()
    return order
