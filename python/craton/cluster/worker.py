"""A worker: the actor of a band, in its own process.

It gets all its tasks of a run in one message and runs them without further instructions. It reports outputs in batches to the
workers that read them and to the supervisor. When it has nothing to do, it steals tasks from the worker with most ready tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import craton.actor as xo
from craton.actor.waiting import in_background
from craton.cluster.executor import TaskExecutor
from craton.cluster.fetching import Fetcher
from craton.cluster.lines import Lines
from craton.cluster.transfer import BY_ACTORS, Transport
from craton.cluster.transfer import UID as NODE
from craton.cluster.worker_tasks import WorkerTask, pickle_error
from craton.schedule.memory_accounting import own_memory
from craton.schedule.pages import StoredOutput
from craton.schedule.tasks import Band
from craton.schedule.telemetry import Sample, Sampler
from craton.store import Store, default_store

#: The name of a worker's actor in its pool.
UID = "craton-worker"
# The least number of seconds between two reports; what happens meanwhile goes into the next one.
_PAUSE = 0.001
# Seconds without tasks after which a worker tries to steal some.
_IDLE = 0.002
# Seconds that threads have to stop when a run is cancelled; and seconds between two polls, of these and of the store.
PATIENCE, _POLL = 0.5, 0.01
# Seconds that a worker waits for its machine's store, which may be restarting.
_STORE = 3.0
# A worker prefetches inputs of waiting tasks up to its memory divided by this.
_PREFETCH_DIVISOR = 4


@dataclass(frozen=True, slots=True)
class ClusterMembers:
    """The members of the cluster. Every worker gets them when it joins, and again when a worker is restarted.

    Parameters
    ----------
    supervisor
        The address of the supervisor's pool.
    workers
        The address of each band's pool; ``None`` for a worker that is gone.
    nodes
        The address of the pool of each machine's node actor.
    band_nodes
        The machine of each band.
    transport
        How data is sent between machines.
    """

    supervisor: str
    workers: tuple[str | None, ...]
    nodes: tuple[str, ...]
    band_nodes: tuple[int, ...]
    transport: Transport = BY_ACTORS


class WorkerActor(xo.StatelessActor):
    """The worker's actor.

    Parameters
    ----------
    band
        The band that it runs.
    import_path
        Entries that are appended to ``sys.path``.
    working_directory
        The working directory, if it exists on this machine.
    """

    def __init__(self, band: Band, import_path: Sequence[str] = (), working_directory: str | None = None) -> None:
        super().__init__()
        sys.path.extend(entry for entry in import_path if entry not in sys.path)
        if working_directory is not None:
            with contextlib.suppress(OSError):
                os.chdir(working_directory)
        self.band = band
        self._peers: ClusterMembers | None = None
        self._lines: Lines | None = None
        self._arriving: set[int] = set()  # keys of tasks that are being unpickled
        self._idle_bands: set[int] = set()  # bands that tried to steal tasks when there were none to give
        self._sent = 0.0
        self._flushing = False
        self._stealing = False
        self._idle: asyncio.TimerHandle | None = None

    async def __post_create__(self) -> None:
        sys.setswitchinterval(0.001)  # so that the event loop gets the GIL soon from threads that run tasks
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sampler = Sampler(self._loop, self._sampled)
        store = _store()
        self._fetcher = Fetcher(self._loop, store, self.band.node, self._reader, self.band.memory // _PREFETCH_DIVISOR)
        self._executor = TaskExecutor(
            self.band.number,
            self.band.node,
            self.band.threads,
            self.band.memory,
            store,
            self._fetcher.fetch,
            self._fetcher.prefetch,
            self._on_notify,
        )

    def _reader(self, node: int) -> Any:
        return self._node_ref(node) if self._lines is None else self._lines.reader(node)

    def _node_ref(self, node: int) -> Any:
        assert self._peers is not None
        return xo.create_actor_ref(self._peers.nodes[node], NODE)

    def _worker_ref(self, band: int) -> Any:
        assert self._peers is not None
        address = self._peers.workers[band]
        return None if address is None else xo.create_actor_ref(address, UID)

    # ---- requests of the supervisor ----

    def join(self, peers: ClusterMembers) -> dict[str, Any]:
        """Record the members of the cluster; return this process's id and the time of its clock."""
        if self._peers is None:
            threading.Thread(target=_import_polars, name="craton-imports", daemon=True).start()
        self._peers = peers
        self._fetcher.compression = peers.transport.compression
        if peers.transport.communicator is not None and self._lines is None:
            host = self.address.rpartition(":")[0]
            self._lines = Lines(peers.transport.communicator, host, self._node_ref)
        self._idle_bands = {band for band in self._idle_bands if peers.workers[band] is not None}
        self._schedule_flush()  # there may be a new worker to steal tasks from
        return {"pid": os.getpid(), "now": time.time()}

    async def watch(self) -> None:
        """Never return. The caller's connection breaks when this process ends; this process ends when the caller disconnects."""
        try:
            await asyncio.Event().wait()
        finally:
            os._exit(0)

    async def start(
        self, run: int, works: bytes, rows: list[tuple[Any, ...]], where: dict[int, Any], bands: list[int]
    ) -> None:
        """Queue tasks of a run.

        Parameters
        ----------
        run
            The run's number.
        works
            The pickled list of the tasks' distinct works.
        rows
            For each task the position of its work, and the other arguments of :class:`WorkerTask`.
        where
            The locations of those inputs that exist.
        bands
            All bands that get tasks of the run now: earlier attempts of theirs to steal tasks are obsolete.
        """
        self._idle_bands.difference_update(bands)
        tasks = await self._unpickle_tasks(works, [(run, *row) for row in rows])
        self._executor.add(tasks, {key: StoredOutput(*stored) for key, stored in where.items()})
        self._serve_idle_bands()

    async def _unpickle_tasks(self, works: bytes, rows: list[tuple[Any, ...]]) -> list[WorkerTask]:
        """Create tasks from rows of run, position of the work, and the other arguments of :class:`WorkerTask`; none if unpickling fails."""
        keys = {key for _, _, key, *_ in rows}
        self._arriving |= keys
        try:
            # In a thread, because unpickling may import large modules.
            found = await asyncio.to_thread(pickle.loads, works)
        except BaseException as error:
            packed = pickle_error(error)
            failures = {run: (run, key, *packed) for run, _, key, *_ in rows}  # one failure ends a run
            await self._supervisor().failed.tell(self.band.number, list(failures.values()))
            return []
        finally:
            self._arriving -= keys
        return [WorkerTask(run, found[work], *row) for run, work, *row in rows]

    async def cancel(self, run: int) -> bool:
        """Cancel a run; return whether its tasks have stopped."""
        self._executor.cancel(run)
        until = self._loop.time() + PATIENCE
        while self._loop.time() < until:
            await asyncio.sleep(_POLL)
            if not self._executor.interrupt(run):
                return True
        return False

    def held_tasks(self, run: int) -> tuple[list[int], list[int]]:
        """Return the keys of the tasks of a run that are here, and of the outputs that they wait for."""
        held, missing = self._executor.held_tasks(run)
        return [*held, *self._arriving], missing

    def forget(self, keys: list[int]) -> None:
        """Drop references to outputs that were released."""
        self._executor.forget(keys)
        self._fetcher.forget(keys)

    def status(self) -> dict[str, Any]:
        """Return this worker's current state and counters."""
        return {
            "pid": os.getpid(),
            "memory_used": own_memory(),
            "done": self._executor.done,
            "running": len(self._executor.running),
            "fetched": self._fetcher.fetched,
            "prefetched": self._fetcher.prefetched,
            "held": self._fetcher.held,
        }

    def observe(self, on: bool, store: bool) -> None:
        """Start or stop sending memory samples to the supervisor, with those of the machine's store if `store` is true."""
        if on:
            self._sampler.start(default_store() if store else None)
        else:
            self._sampler.stop()

    def _sampled(self, samples: list[Sample]) -> None:
        self._send(self._supervisor().sampled.tell(self.band.number, samples))

    def _supervisor(self) -> Any:
        assert self._peers is not None
        return xo.create_actor_ref(self._peers.supervisor, "craton-supervisor")

    # ---- requests of other workers ----

    def made(self, locations: list[tuple[int, int, StoredOutput]]) -> None:
        """Record outputs of other workers, as run, key and location."""
        self._executor.made(locations)
        self._serve_idle_bands()

    def surplus(self) -> int:
        """Return how many tasks could be given to another worker now."""
        return self._executor.surplus

    def give(self, band: int) -> tuple[bytes, list[tuple[Any, ...]], dict[int, StoredOutput]] | None:
        """Give half of the surplus to another band; if there is none, send it tasks as soon as there is one."""
        surplus = self._executor.surplus
        if not surplus:
            self._idle_bands.add(band)
            return None
        self._idle_bands.discard(band)
        return self._give_tasks((surplus + 1) // 2, band)

    def _give_tasks(
        self, number: int, band: int
    ) -> tuple[bytes, list[tuple[Any, ...]], dict[int, StoredOutput]] | None:
        tasks, where = self._executor.give(number)
        if not tasks:
            return None
        import cloudpickle

        works, numbers = distinct_works([task.work for task in tasks])
        given = [(task.run, task.key) for task in tasks]
        self._send(self._supervisor().moved.tell(self.band.number, band, given))
        rows = [(task.run, number, *task.row()) for task, number in zip(tasks, numbers, strict=True)]
        # The other band reports their outputs to this band too, because tasks here may read them.
        rows = [(*row[:-1], tuple({*row[-1], self.band.number} - {band})) for row in rows]
        return cloudpickle.dumps(works, 5), rows, where

    async def take(self, works: bytes, rows: list[tuple[Any, ...]], where: dict[int, StoredOutput]) -> None:
        """Queue tasks that another worker gave away."""
        tasks = await self._unpickle_tasks(works, rows)
        self._executor.add(tasks, where)
        self._send(self._supervisor().taken.tell(self.band.number, [(task.run, task.key) for task in tasks]))

    # ---- reports, and stealing of tasks ----

    def _on_notify(self) -> None:
        """Called by the executor's threads when there is something to report."""
        self._loop.call_soon_threadsafe(self._schedule_flush)

    def _schedule_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_at(self._sent + _PAUSE, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._sent = self._loop.time()
        report = self._executor.take_report()
        if report.failed:
            self._send(self._supervisor().failed.tell(self.band.number, report.failed))
        for band, made in report.made.items():
            ref = self._worker_ref(band)
            if ref is not None and band != self.band.number:
                self._send(ref.made.tell(made))
        if report.done or report.lost:
            self._send(self._supervisor().done.tell(self.band.number, report.done, report.lost, self._executor.running))
        self._serve_idle_bands()
        if self._executor.idle and self._idle is None and not self._stealing:
            self._idle = self._loop.call_later(_IDLE, self._start_stealing)

    def _serve_idle_bands(self) -> None:
        """Give surplus tasks to the bands that tried to steal some before."""
        while self._idle_bands and (surplus := self._executor.surplus):
            band = self._idle_bands.pop()
            given, ref = self._give_tasks((surplus + 1) // 2, band), self._worker_ref(band)
            if given is not None and ref is not None:
                self._send(ref.take.tell(*given))

    def _start_stealing(self) -> None:
        self._idle = None
        if self._executor.idle and self._peers is not None and not self._stealing:
            self._send(self._steal())

    async def _steal(self) -> None:
        """Steal tasks: from workers of this machine before others, and from those with most ready tasks first.

        Workers that have no tasks to give remember the attempt, and send tasks later; see :meth:`give`.
        """
        assert self._peers is not None
        self._stealing = True
        try:
            others = [
                (band, self._worker_ref(band))
                for band, address in enumerate(self._peers.workers)
                if address is not None and band != self.band.number
            ]
            found = await asyncio.gather(*[ref.surplus() for _, ref in others], return_exceptions=True)
            nodes = self._peers.band_nodes
            busy = sorted(
                zip(others, found, strict=True),
                key=lambda each: (nodes[each[0][0]] != self.band.node, -each[1] if isinstance(each[1], int) else 0),
            )
            for (_, ref), _ in busy:
                given = await ref.give(self.band.number)
                if given is not None:
                    await self.take(*given)
                    return
        except (ConnectionError, xo.ActorNotExist):
            pass  # the other worker has ended, or is restarting
        finally:
            self._stealing = False

    def _send(self, message: Any) -> None:
        # Lost connections need no handling: the supervisor watches the workers, and a worker ends with the supervisor.
        in_background(self._loop, message, self._tasks, (ConnectionError, xo.ActorNotExist))


def _store() -> Store:
    """Return this machine's store; wait if it is not available yet. Blocks the event loop: a worker without a store serves no request."""
    until = time.monotonic() + _STORE
    while True:
        try:
            return default_store()
        except ConnectionError:
            if time.monotonic() >= until:
                raise
        time.sleep(_POLL)


def _import_polars() -> None:
    """Import Polars, which almost every task needs, before the first task comes."""
    import polars  # noqa: F401


def distinct_works(works: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the distinct objects among `works`, compared by identity, and for each work the position of its object."""
    numbers: dict[int, int] = {}
    found: list[Any] = []
    which = []
    for work in works:
        number = numbers.get(id(work))
        if number is None:
            number = numbers[id(work)] = len(found)
            found.append(work)
        which.append(number)
    return found, which
