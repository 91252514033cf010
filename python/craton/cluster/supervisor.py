"""The supervisor: sends each worker its tasks of a run in one message, keeps track of outputs, and recovers from failures.

It runs in the driver's process, in a dedicated event loop. Pages are not sent through it, and single tasks do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
from collections.abc import Container, Iterable, Sequence
from typing import Any

import pyarrow as pa

import craton.actor as xo
from craton import events
from craton.actor.errors import RemoteTraceback
from craton.cluster import worker
from craton.cluster.hosts.base import Host, WorkerSpec
from craton.cluster.lineage import Lineage
from craton.cluster.lines import Lines
from craton.cluster.membership import Membership
from craton.cluster.observation import Observation
from craton.cluster.placing import PolicyName
from craton.cluster.recovery import Recovery, ignore_result
from craton.cluster.runs import Run
from craton.cluster.transfer import BY_ACTORS, NodeActor, OutputVersion, Transport, fetch, version_of
from craton.cluster.transfer import UID as NODE
from craton.schedule.inline import topological_order
from craton.schedule.pages import OutputLost, OutputPart, PageInput, PageSink, StoredOutput
from craton.schedule.tasks import Band, Output, RunProgress, Task, TaskLost, Traffic, new_key
from craton.schedule.telemetry import Sample, emit_tasks
from craton.store import default_store

#: The name of the supervisor's actor in its pool.
UID = "craton-supervisor"
# Seconds for which released outputs are collected, to tell workers about them in one message.
_FORGET_DELAY = 0.05
# Seconds to wait for a worker's answer whether the tasks of a cancelled run have stopped.
_CANCEL_TIMEOUT = worker.PATIENCE + 0.3


class SupervisorActor(xo.StatelessActor):
    """The actor through which workers report to the supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self._supervisor = supervisor

    def done(
        self,
        band: int,
        rows: list[tuple[Any, ...]],
        lost: list[tuple[int, int, int, OutputVersion | None]],
        running: list[int],
    ) -> None:
        """Record a band's new outputs, its tasks whose inputs are lost, and the keys of the tasks that it is running."""
        self._supervisor.done(band, rows, lost, running)

    def sampled(self, band: int, samples: list[Sample]) -> None:
        """Record memory samples of a band."""
        self._supervisor.observation.sampled(band, samples)

    def failed(self, band: int, failures: list[tuple[int, int, bytes, str]]) -> None:
        """Record tasks that raised an exception."""
        self._supervisor.failed(band, failures)

    def moved(self, giver: int, taker: int, tasks: list[tuple[int, int]]) -> None:
        """Record tasks, by run and key, that one band sent to another one."""
        self._supervisor.moved(giver, taker, tasks)

    def taken(self, taker: int, tasks: list[tuple[int, int]]) -> None:
        """Record that tasks, by run and key, have arrived at the band that they were sent to."""
        self._supervisor.taken(taker, tasks)


class Supervisor:
    """Runs tasks on the workers of a host; implements :class:`craton.schedule.tasks.Runner`.

    Parameters
    ----------
    pool
        An actor pool in the driver's process.
    host
        Starts the workers.
    policy
        The assignment policy; see :func:`craton.schedule.assign`.
    transport
        How data is sent between machines.
    """

    def __init__(self, pool: Any, host: Host, policy: PolicyName = "ncs", transport: Transport = BY_ACTORS) -> None:
        self._pool, self.host, self._transport = pool, host, transport
        self._loop = asyncio.get_running_loop()
        pool.make(UID.encode(), SupervisorActor, (self,), {})
        self._node: NodeActor = pool.make(NODE.encode(), NodeActor, (0,), {})
        self._lineage = Lineage()
        self._lines: Lines | None = None
        self._members = Membership(pool, host, transport, self)
        self._recovery = Recovery(self._members, self._lineage, policy)
        self.observation = Observation(self._members)
        self._runs = self._recovery.runs
        self._numbers = itertools.count(1)
        self._forgotten: list[int] = []

    async def start(self, spec: WorkerSpec) -> None:
        """Start the workers; see :meth:`Membership.start`.

        Raises
        ------
        OSError, RuntimeError
            If a worker cannot be started; then none is left running.
        """
        await self._members.start(spec)
        self._members.spawn(self._recovery.watch_runs())

    async def stop(self) -> None:
        """Cancel all runs, end the workers, and drop all outputs."""
        self.observation.stop()
        for run in list(self._runs.values()):
            run.fail(asyncio.CancelledError())
        await self._members.stop()  # sets `stopping` before the failed runs resume and try to cancel their tasks
        self._node.drop_all()
        await self._pool.stop()

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands; see :attr:`craton.schedule.tasks.Runner.bands`."""
        return self._members.bands

    def store_address(self, node: int) -> str:
        """The address of the actor pool in the process of a machine's store."""
        return self._members.host.nodes[node].address

    # ---- changes of the membership; see OnChange ----

    def worker_joined(self, band: int) -> None:
        """See :meth:`OnChange.worker_joined`."""
        self.observation.worker_joined(band)

    def worker_lost(self, band: int, why: str) -> None:
        """See :meth:`OnChange.worker_lost`."""
        self._recovery.recover_worker(band, why)

    def worker_restarted(self) -> None:
        """See :meth:`OnChange.worker_restarted`."""
        self._recovery.reassign_waiting()

    def node_lost(self, node: int, bands: list[int]) -> None:
        """See :meth:`OnChange.node_lost`."""
        self._recovery.lose_outputs(self._lineage.of_node(node))
        self._recovery.reassign_bands(bands)

    def none_left(self, why: str) -> None:
        """See :meth:`OnChange.none_left`."""
        for run in list(self._runs.values()):
            run.fail(TaskLost(why))

    # ---- reports of workers ----

    def done(
        self,
        band: int,
        rows: list[tuple[Any, ...]],
        lost: list[tuple[int, int, int, OutputVersion | None]],
        running: list[int],
    ) -> None:
        """See :meth:`SupervisorActor.done`."""
        self._recovery.running[band] = running
        forward: dict[int, list[tuple[int, int, StoredOutput]]] = {}
        elsewhere: dict[int, list[tuple[int, int, bytes]]] = {}
        for number, key, stored, value, seconds, memory, started, read, foreign in rows:
            run = self._runs.get(number)
            if run is None or key not in run.bands:
                self._drop_surplus(key, stored)
                continue
            if stored.number:
                if stored.node:
                    elsewhere.setdefault(stored.node, []).append((key, stored.number, stored.store))
                elif self._node.hold(
                    [(key, stored.number, stored.store)]
                ):  # the set is gone: the worker has died meanwhile
                    self._recovery.reassign(run, [key])
                    continue
            try:
                found = None if value is None else pickle.loads(value)
            except Exception as error:
                run.fail(error)
                continue
            started -= self._members.members[band].ahead
            output = Output(key, stored.sizes(), found, seconds, memory, band, started, read, foreign)
            self._lineage.add(run.tasks[key], output, stored)
            for other in run.done(output):
                forward.setdefault(other, []).append((number, key, stored))
        for node, outputs in elsewhere.items():
            self._members.spawn(self._hold_on_node(node, outputs))
        for other, made in forward.items():
            self._members.tell(self._members.ref(other).made.tell(made))
        for number, key, source, was in lost:
            run = self._runs.get(number)
            if run is not None and key in run.bands:
                stored = self._recovery.where(source)
                if stored is not None and was == version_of(
                    StoredOutput(*stored)
                ):  # it has not been recomputed meanwhile
                    self._recovery.lose_outputs([source])
                self._recovery.reassign(run, [key])

    def _drop_surplus(self, key: int, stored: StoredOutput) -> None:
        """Drop an output that was made twice, or by a run that has ended."""
        made = self._lineage.get(key)
        if not stored.number or (made is not None and made.stored == stored):
            return
        if stored.node == 0:
            with contextlib.suppress(KeyError):
                default_store()._native.drop_set(stored.number)
        if made is None:
            self._forget([key])

    async def _hold_on_node(self, node: int, outputs: list[tuple[int, int, bytes]]) -> None:
        ref = self._members.node_ref(node)
        try:
            gone = await ref.hold(outputs)
        except (ConnectionError, xo.ActorNotExist):
            gone = [key for key, _, _ in outputs]
        self._recovery.lose_outputs(gone)

    def failed(self, band: int, failures: list[tuple[int, int, bytes, str]]) -> None:
        """See :meth:`SupervisorActor.failed`."""
        for number, key, packed, text in failures:
            run = self._runs.get(number)
            if run is None or key not in run.bands:
                continue
            try:
                error = pickle.loads(packed)
            except Exception as not_here:  # for example, the driver cannot import its class
                error = RuntimeError(
                    f"a task raised an exception that cannot be unpickled in this process ({not_here}): {text.splitlines()[-1]}"
                )
            error.__cause__ = RemoteTraceback(
                f"task {key} ({run.tasks[key].stage or 'no stage'}) in band {band}:\n{text}"
            )
            run.fail(error)

    def moved(self, giver: int, taker: int, tasks: list[tuple[int, int]]) -> None:
        """See :meth:`SupervisorActor.moved`."""
        for number, key in tasks:
            run = self._runs.get(number)
            if run is None or run.bands.get(key) != giver:
                continue
            run.bands[key] = taker
            run.moving[key] = giver
            run.changes += 1
            if not self._members.members[taker].alive:
                self._recovery.reassign(run, [key])

    def taken(self, taker: int, tasks: list[tuple[int, int]]) -> None:
        """See :meth:`SupervisorActor.taken`."""
        for number, key in tasks:
            run = self._runs.get(number)
            if run is not None and run.bands.get(key) == taker:
                run.moving.pop(key, None)

    # ---- the runner ----

    async def run(self, tasks: Sequence[Task]) -> list[Output]:
        """Run tasks; see :meth:`craton.schedule.tasks.Runner.run`."""
        return await self._run(tasks, self._lineage)

    async def _run(self, tasks: Sequence[Task], made: Container[int] | Lineage) -> list[Output]:
        """Run tasks that may read the outputs in `made`."""
        tasks_in_order = topological_order(tasks, made)
        if not tasks:
            return []
        run = Run(next(self._numbers), tasks_in_order)
        run.wanted = [task.key for task in tasks]
        if any(task.folders for task in tasks):
            await self._members.locate(folder for task in tasks for folder in task.folders)
        await self._members.available.wait()
        if self._members.none_left:
            raise TaskLost(self._members.none_left)
        self._runs[run.number] = run
        self.observation.begin()
        try:
            self._recovery.begin(run, tasks_in_order)
            await run.ended
            return [run.outputs[key] for key in run.wanted]
        except BaseException:
            del self._runs[run.number]
            await self._cancel(run)
            self.release(run.wanted)
            raise
        finally:
            self._runs.pop(run.number, None)
            if events.active:
                emit_tasks(tasks, run.outputs)

    async def _cancel(self, run: Run) -> None:
        """Cancel a run on all workers; a worker whose tasks do not stop is killed, and restarted."""
        if self._members.stopping:
            return

        async def stopped(band: int) -> None:
            asked = self._loop.create_task(self._members.ref(band).cancel(run.number))
            await asyncio.wait({asked}, timeout=_CANCEL_TIMEOUT)
            if not asked.done():
                asked.add_done_callback(
                    ignore_result
                )  # a task blocks the worker's event loop, for example by holding the GIL
            elif asked.exception() is not None or asked.result():
                return
            if self._members.members[band].alive:
                self._members.members[band].alive = False
                self._recovery.reassign_bands([band])
                await self.host.end(band)

        stopping = [self._loop.create_task(stopped(band)) for band in self._members.alive_bands()]
        if stopping:
            await asyncio.wait(stopping)

    async def put(self, data: Any) -> Output:
        """Make a table an output; see :meth:`craton.schedule.tasks.Runner.put`."""

        def kept() -> tuple[StoredOutput, PageSink]:
            sink = PageSink(default_store(), 1)
            sink.write(0, data)
            return sink.finish(), sink

        stored, sink = await asyncio.to_thread(kept)
        key = new_key()
        if stored.number:
            self._node.hold([(key, stored.number, stored.store)])
        del sink
        output = Output(key, stored.sizes())
        self._lineage.add(None, output, stored)
        return output

    def _reader(self, node: int) -> Any:
        """Return what reads rows of another machine: its node actor, or a line to it."""
        if self._transport.communicator is None:
            return self._members.node_ref(node)
        if self._lines is None:
            host = self._pool.external_address.rpartition(":")[0]
            self._lines = Lines(self._transport.communicator, host, self._members.node_ref)
        return self._lines.reader(node)

    async def fetch(self, key: int, part: int = 0) -> pa.Table:
        """Return the rows of a part; see :meth:`craton.schedule.tasks.Runner.fetch`."""
        while True:
            made = self._lineage.get(key)
            if made is None:
                raise KeyError(f"there is no output of task {key}: it was released, or never made")
            stored = made.stored
            try:
                if stored is None:
                    raise OutputLost(key)
                if stored.node:
                    reader = self._reader(stored.node)
                    return await fetch(reader, key, stored, part, self._transport.compression)
                return await asyncio.to_thread(PageInput(default_store(), [OutputPart(key, stored, part)]).table)
            except (OutputLost, ConnectionError, xo.ActorNotExist):
                if made.stored is stored:  # it has not been recomputed meanwhile
                    self._lineage.lose([key])
                    await self._recompute(key)

    async def _recompute(self, key: int) -> None:
        try:
            tasks = self._lineage.tasks_to_recompute([key])
        except KeyError as error:
            raise TaskLost(str(error.args[0])) from None
        await self._run(tasks, self._lineage.kept)

    def release(self, keys: Iterable[int]) -> None:
        """Drop outputs; see :meth:`craton.schedule.tasks.Runner.release`."""
        dropped = self._lineage.release(keys)
        nodes: dict[int, list[int]] = {}
        for key, node in dropped:
            nodes.setdefault(node, []).append(key)
        for node, some in nodes.items():
            if node:
                self._members.tell(self._members.node_ref(node).drop.tell(some))
            else:
                self._node.drop(some)
        self._forget([key for key, _ in dropped])

    def _forget(self, keys: list[int]) -> None:
        if keys and not self._forgotten:
            self._loop.call_later(_FORGET_DELAY, self._send_forgotten)
        self._forgotten += keys

    def _send_forgotten(self) -> None:
        keys, self._forgotten = self._forgotten, []
        if not self._members.stopping:
            for band in self._members.alive_bands():
                self._members.tell(self._members.ref(band).forget.tell(keys))

    # ---- display ----

    def progress(self) -> list[RunProgress]:
        """Return the progress of the current runs; see :meth:`craton.schedule.tasks.Runner.progress`."""
        return [run.progress for run in list(self._runs.values())]

    async def traffic(self) -> Traffic:
        """Return the bytes moved so far; see :meth:`craton.schedule.tasks.Runner.traffic`."""
        own = self._node.traffic()
        # To ask a machine that has gone takes seconds.
        nodes = [node.number for node in self.host.nodes[1:] if node.number not in self._members.lost_nodes]
        away = [self._members.node_ref(node) for node in nodes]
        if not away:
            return own
        found = await asyncio.gather(*[ref.traffic() for ref in away], return_exceptions=True)
        return Traffic(*map(sum, zip(own, *(one for one in found if isinstance(one, Traffic)), strict=True)))

    async def describe_workers(self) -> list[dict[str, Any]]:
        """Return the current state of each worker, as rows of :meth:`craton.cluster.sessions.Session.info`."""
        return await self.observation.describe_workers()
