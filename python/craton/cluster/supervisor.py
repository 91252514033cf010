"""The supervisor: it gives each worker its part of a run in one message, keeps what was made, and makes good what is lost.

It lives in the driver's process, in an event loop of its own, and is in the way of no page and of no single task.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import time
from collections.abc import Container, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import craton.actor as xo
from craton import events
from craton.actor.errors import RemoteTraceback
from craton.actor.waiting import in_background
from craton.cluster import worker
from craton.cluster.hosts.base import Host, Spec, Started
from craton.cluster.lineage import Lineage, reads_of
from craton.cluster.placing import OutputLocation, PolicyName, place
from craton.cluster.runs import Run
from craton.cluster.transfer import UID as NODE
from craton.cluster.transfer import NodeActor, Place, fetch, place_of
from craton.schedule.inline import in_order
from craton.schedule.pages import OutputLost, PageInput, PageSink, Piece, Stored
from craton.schedule.tasks import Band, Output, Task, TaskLost, Traffic, Underway, new_key
from craton.schedule.telemetry import Sample, Sampler, tell_of
from craton.store import default_store

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression

#: The name of the supervisor's actor in its pool.
UID = "craton-supervisor"
# Seconds until workers let go of what is released: many outputs go in one message.
_LAZY = 0.05
# How often in a row a worker is started that ends again before it serves.
_STARTS = 5
# Seconds before it is started once more: twice as many each time.
_PAUSE = 0.1
# Seconds that workers have to say whether a run's tasks have stopped.
_STOPS = worker.PATIENCE + 0.3
# Seconds between looks whether runs stand still, and for workers to say what they have of them.
_STILL, _SAYS = 4.0, 2.0


class SupervisorActor(xo.StatelessActor):
    """What workers speak to."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self._supervisor = supervisor

    def done(
        self, band: int, rows: list[tuple[Any, ...]], lost: list[tuple[int, int, int, Place | None]], running: list[int]
    ) -> None:
        """Take note of outputs, of tasks whose inputs are gone, and of what a band runs now."""
        self._supervisor.done(band, rows, lost, running)

    def sampled(self, band: int, samples: list[Sample]) -> None:
        """Take note of a band's memory over time."""
        self._supervisor.sampled(band, samples)

    def failed(self, band: int, failures: list[tuple[int, int, bytes, str]]) -> None:
        """Take note of tasks that raised an exception."""
        self._supervisor.failed(band, failures)

    def moved(self, giver: int, taker: int, tasks: list[tuple[int, int]]) -> None:
        """Take note of tasks, by run and key, that a band has given to another."""
        self._supervisor.moved(giver, taker, tasks)

    def taken(self, taker: int, tasks: list[tuple[int, int]]) -> None:
        """Take note of tasks, by run and key, that have come to the band that they were given to."""
        self._supervisor.taken(taker, tasks)


class Supervisor:
    """Runs tasks on the workers of a host; implements :class:`craton.schedule.tasks.Runner`.

    Parameters
    ----------
    pool
        An actor pool in the driver's process.
    host
        What starts the workers.
    policy
        Which band runs which task: ``"ncs"`` by nearest common successors; the others are there to be compared with.
    compression
        Of what goes from machine to machine.
    """

    def __init__(self, pool: Any, host: Host, policy: PolicyName = "ncs", compression: Compression = "none") -> None:
        self._pool, self.host, self._policy, self._compression = pool, host, policy, compression
        self._loop = asyncio.get_running_loop()
        pool.make(UID.encode(), SupervisorActor, (self,), {})
        self._node: NodeActor = pool.make(NODE.encode(), NodeActor, (0,), {})
        self.workers: list[Started] = []
        self._alive: list[bool] = []
        self._running: list[list[int]] = []  # what each band has said last that it runs
        self._pids: list[int] = []
        self._lineage = Lineage()
        self._runs: dict[int, Run] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._forgotten: list[int] = []
        self._some_alive = asyncio.Event()
        self._stopping = False
        self._gone_for_good = 0
        self._watched = 1  # machines whose stores are watched, the driver's own included
        self._why = ""  # nothing can be run any more
        self._sampler = Sampler(self._loop, lambda samples: self.sampled(-1, samples))
        self._ahead: dict[int, float] = {}  # seconds that the clock of a band on another machine is ahead of this one's

    async def start(self, spec: Spec) -> None:
        """Start the workers, and have them know each other.

        Raises
        ------
        OSError, RuntimeError
            If one cannot be started; then none is left.
        """
        self.workers = await self.host.start(spec)
        self._alive = [True] * len(self.workers)
        self._running = [[] for _ in self.workers]
        self._pids = [0] * len(self.workers)
        await asyncio.gather(*[self._join(number) for number in range(len(self.workers))])
        for number in range(len(self.workers)):
            self._spawn(self._watch(number))
        self._watch_nodes()
        self._spawn(self._look_after())
        self._some_alive.set()

    async def stop(self) -> None:
        """Cancel what runs, end the workers, and drop all outputs."""
        self._stopping = True
        self._sampler.stop()
        for run in list(self._runs.values()):
            run.fail(asyncio.CancelledError())
        for task in list(self._tasks):
            task.cancel()
        await self.host.stop()
        self._node.drop_all()
        await self._pool.stop()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        in_background(self._loop, work, self._tasks)

    # ---- workers ----

    @property
    def bands(self) -> tuple[Band, ...]:
        """What there is to run on."""
        return tuple(started.band for started in self.workers)

    def _ref(self, band: int) -> Any:
        return xo.create_actor_ref(self.workers[band].address, worker.UID)

    def _peers(self) -> worker.Peers:
        return worker.Peers(
            self._pool.external_address,
            tuple(started.address if alive else None for started, alive in zip(self.workers, self._alive, strict=True)),
            tuple(node.address for node in self.host.nodes),
            tuple(started.band.node for started in self.workers),
            self._compression,
        )

    async def _join(self, band: int) -> None:
        asked = time.time()
        told = await self._ref(band).join(self._peers())
        self._pids[band] = told["pid"]
        if self.workers[band].band.node:
            self._ahead[band] = told["now"] - (asked + time.time()) / 2
        if self._sampler.on:
            self._observe_band(band, True)

    def _tell(self, message: Coroutine[Any, Any, Any]) -> None:
        # The end of a worker is noticed elsewhere.
        in_background(self._loop, message, self._tasks, (ConnectionError, xo.ActorNotExist))

    async def _watch(self, band: int) -> None:
        """Wait for the end of a worker, again and again, and make it good."""
        failed = 0
        while failed < _STARTS:
            try:
                await self._ref(band).watch()
                why = "it was told to end"
            except (ConnectionError, xo.ActorNotExist) as error:
                why = str(error)
            if self._stopping:
                return
            self._alive[band] = False
            why = await self.host.ending(band) or why
            self._lost(band, why)
            try:
                self.workers[band] = await self.host.restart(band)
                self._watch_nodes()
                await self._join(band)
            except (ConnectionError, xo.ActorNotExist):
                failed += 1  # it has ended again
                await asyncio.sleep(_PAUSE * 2**failed)
                continue
            except (OSError, RuntimeError) as error:
                why = f"{why}; it could not be started again: {error}"
                break
            failed = 0
            self._alive[band] = True
            self._some_alive.set()
            for other, alive in enumerate(self._alive):
                if alive and other != band:
                    self._tell(self._ref(other).join(self._peers()))
            for run in list(self._runs.values()):
                self._again(run, run.of_band(-1))
        self._gone_for_good += 1
        if self._gone_for_good == len(self.workers):
            self._why = f"no worker is left; the last one: {why}"
            self._some_alive.set()
            for run in list(self._runs.values()):
                run.fail(TaskLost(self._why))

    def _watch_nodes(self) -> None:
        for node in self.host.nodes[self._watched :]:
            self._spawn(self._watch_node(node.number))
        self._watched = len(self.host.nodes)

    async def _watch_node(self, node: int) -> None:
        """Wait for the end of the process that has a machine's store, again and again; its workers end with it."""
        while True:
            with contextlib.suppress(ConnectionError, xo.ActorNotExist):
                await xo.create_actor_ref(self.host.nodes[node].address, NODE).watch()
            if self._stopping:
                return
            bands = [band for band, started in enumerate(self.workers) if started.band.node == node]
            for band in bands:
                self._alive[band] = False
            self._gone(self._lineage.of_node(node))
            for band in bands:
                self._running[band] = []
                for run in list(self._runs.values()):
                    self._again(run, run.of_band(band))
            await asyncio.gather(*[self.host.end(band) for band in bands])
            if not bands:
                return  # they have all gone to other machines
            try:
                self.workers[bands[0]] = await self.host.restart(bands[0])
            except ConnectionError:
                continue
            except (OSError, RuntimeError):
                return  # whoever watches the worker says so

    def _lost(self, band: int, why: str) -> None:
        """Make good the end of a worker."""
        if not any(self._alive):
            self._some_alive.clear()
        said, self._running[band] = self._running[band], []
        for run in list(self._runs.values()):
            keys = run.of_band(band)
            if not keys:
                continue
            running = [key for key in said if key in run.bands]
            run.suspect(running or self._first_ready(run, keys, band), why)
            self._again(run, keys)
        for run in list(self._runs.values()):  # it may not have told others what it has told here
            for other, made in run.made_by(band).items():
                self._tell_where(run, other, made)

    def _tell_where(self, run: Run, band: int, keys: Iterable[int]) -> None:
        """Tell a band where outputs are."""
        made = [(run.number, key, Stored(*stored)) for key in keys if (stored := self._where(key)) is not None]
        if made and band >= 0:
            self._tell(self._ref(band).made.tell(made))

    async def _look_after(self) -> None:
        """Have runs go on that stand still: a message may have been lost with the process that sent it, or was sent it."""
        seen: dict[int, int] = {}
        while True:
            await asyncio.sleep(_STILL)
            for run in list(self._runs.values()):
                if seen.get(run.number) == run.changes and not run.ended.done():
                    await self._look_into(run)
                else:
                    run.lost_sight.clear()
            seen = {run.number: run.changes for run in self._runs.values()}

    async def _look_into(self, run: Run) -> None:
        """Ask the workers what they have of a run; make good what nobody has, and what they wait for in vain."""
        before = run.changes
        living = [band for band, alive in enumerate(self._alive) if alive]
        asked = [self._loop.create_task(self._ref(band).holds(run.number)) for band in living]
        if not asked:
            return
        await asyncio.wait(asked, timeout=_SAYS)
        held: dict[int, set[int]] = {band: set() for band, alive in enumerate(self._alive) if not alive}
        missing: dict[int, list[int]] = {}
        for band, one in zip(living, asked, strict=True):
            if not one.done():
                one.add_done_callback(_heard)
            elif one.exception() is None:
                keys, missing[band] = one.result()
                held[band] = set(keys)
        if run.changes != before or run.ended.done():
            return
        again = run.out_of_sight(held)
        for band, keys in missing.items():
            there = [key for key in keys if key not in run.bands]
            self._tell_where(run, band, there)
            gone = {key for key in there if self._where(key) is None}
            again += [key for key in held[band] if key in run.bands and not gone.isdisjoint(reads_of(run.tasks[key]))]
        if again:
            self._again(run, list(dict.fromkeys(again)))

    def _first_ready(self, run: Run, keys: list[int], band: int) -> list[int]:
        """What a band ran, most likely, if it died before it could say so."""
        ready = [key for key in keys if not any(source in run.bands for source in reads_of(run.tasks[key]))]
        ready.sort(key=lambda key: run.orders[key])
        return ready[: self.workers[band].band.threads]

    def _again(self, run: Run, keys: Sequence[int]) -> None:
        """Give tasks to bands that live, and with them what makes their inputs that are lost."""
        if not keys or run.ended.done():
            return
        wanted = set(keys)
        lost = {
            source
            for key in keys
            for source in reads_of(run.tasks[key])
            if source not in run.bands and self._where(source) is None
        }
        try:
            sources = [task for task in self._lineage.again(lost) if task.key not in run.bands]
        except KeyError as error:
            run.fail(TaskLost(str(error.args[0])))
            return
        tasks = [*sources, *[run.tasks[key] for key in run.tasks if key in wanted]]
        for task in sources:
            run.tasks.setdefault(task.key, task)
        living = [number for number, alive in enumerate(self._alive) if alive]
        if not living:
            run.assign(tasks, [-1] * len(tasks), range(len(tasks)))
            return
        bands, orders = self._placed(tasks, living)
        run.assign(tasks, bands, orders)
        run.send(tasks, self._where, self._send, later=True)

    def _placed(self, tasks: Sequence[Task], living: Sequence[int]) -> tuple[list[int], list[int]]:
        return place(tasks, [self.workers[number].band for number in living], self._policy, self._location)

    def _location(self, key: int) -> OutputLocation | None:
        made = self._lineage.get(key)
        if made is None or made.stored is None:
            return None
        return OutputLocation(made.output.band, made.stored.node, made.output.parts)

    def _where(self, key: int) -> Any:
        made = self._lineage._made.get(key)
        return None if made is None or made.stored is None else tuple(made.stored)

    def _send(self, band: int, *message: Any) -> None:
        self._tell(self._ref(band).start.tell(*message))

    # ---- what workers say ----

    def done(
        self, band: int, rows: list[tuple[Any, ...]], lost: list[tuple[int, int, int, Place | None]], running: list[int]
    ) -> None:
        """See :meth:`SupervisorActor.done`."""
        self._running[band] = running
        forward: dict[int, list[tuple[int, int, Stored]]] = {}
        elsewhere: dict[int, list[tuple[int, int, bytes]]] = {}
        for number, key, stored, value, seconds, memory, started, read, foreign in rows:
            run = self._runs.get(number)
            if run is None or key not in run.bands:
                self._surplus(key, stored)
                continue
            if stored.number:
                if stored.node:
                    elsewhere.setdefault(stored.node, []).append((key, stored.number, stored.store))
                elif self._node.hold([(key, stored.number, stored.store)]):  # its worker has died meanwhile
                    self._again(run, [key])
                    continue
            try:
                found = None if value is None else pickle.loads(value)
            except Exception as error:
                run.fail(error)
                continue
            started -= self._ahead.get(band, 0.0)
            output = Output(key, stored.sizes(), found, seconds, memory, band, started, read, foreign)
            self._lineage.add(run.tasks[key], output, stored)
            for other in run.done(output):
                forward.setdefault(other, []).append((number, key, stored))
        for node, outputs in elsewhere.items():
            self._spawn(self._held(node, outputs))
        for other, made in forward.items():
            self._tell(self._ref(other).made.tell(made))
        for number, key, source, was in lost:
            run = self._runs.get(number)
            if run is not None and key in run.bands:
                stored = self._where(source)
                if stored is not None and was == place_of(Stored(*stored)):  # and not made again meanwhile
                    self._gone([source])
                self._again(run, [key])

    def _surplus(self, key: int, stored: Stored) -> None:
        """Drop what was made twice, or by a run that has ended."""
        made = self._lineage.get(key)
        if not stored.number or (made is not None and made.stored == stored):
            return
        if stored.node == 0:
            with contextlib.suppress(KeyError):
                default_store()._native.drop_set(stored.number)
        if made is None:
            self._forget([key])

    async def _held(self, node: int, outputs: list[tuple[int, int, bytes]]) -> None:
        ref = xo.create_actor_ref(self.host.nodes[node].address, NODE)
        try:
            gone = await ref.hold(outputs)
        except (ConnectionError, xo.ActorNotExist):
            gone = [key for key, _, _ in outputs]
        self._gone(gone)

    def _gone(self, keys: Sequence[int]) -> None:
        """Take note of outputs whose pages are gone; those that a run wants are made again."""
        self._lineage.lose(keys)
        for run in list(self._runs.values()):
            self._again(run, [key for key in keys if key in run.tasks and key not in run.bands])

    def failed(self, band: int, failures: list[tuple[int, int, bytes, str]]) -> None:
        """See :meth:`SupervisorActor.failed`."""
        for number, key, packed, text in failures:
            run = self._runs.get(number)
            if run is None or key not in run.bands:
                continue
            try:
                error = pickle.loads(packed)
            except Exception as not_here:  # its class cannot be imported by the driver
                error = RuntimeError(
                    f"a task raised what cannot be unpickled here ({not_here}); {text.splitlines()[-1]}"
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
            if not self._alive[taker]:
                self._again(run, [key])

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
        """Run tasks that may read what was made."""
        tasks_in_order = in_order(tasks, made)
        if not tasks:
            return []
        run = Run(next(self._numbers), tasks_in_order)
        run.wanted = [task.key for task in tasks]
        await self._some_alive.wait()
        if self._why:
            raise TaskLost(self._why)
        self._runs[run.number] = run
        if events.active and not self._sampler.on:
            self._observe(True)
        try:
            living = [number for number, alive in enumerate(self._alive) if alive]
            run.assign(tasks_in_order, *self._placed(tasks_in_order, living))
            if any(self._where(key) is None for task in tasks for key in reads_of(task) if key not in run.tasks):
                self._again(run, list(run.tasks))
            else:
                run.send(tasks_in_order, self._where, self._send, later=False)
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
                tell_of(tasks, run.outputs)

    async def _cancel(self, run: Run) -> None:
        """Stop a run everywhere; a worker whose tasks do not stop is started again."""
        if self._stopping:
            return
        bands = [band for band, alive in enumerate(self._alive) if alive]

        async def stopped(band: int) -> None:
            asked = self._loop.create_task(self._ref(band).cancel(run.number))
            await asyncio.wait({asked}, timeout=_STOPS)
            if not asked.done():
                asked.add_done_callback(_heard)  # something keeps even its loop from running
            elif asked.exception() is not None or asked.result():
                return
            if self._alive[band]:
                self._alive[band] = False
                self._running[band] = []
                for other in list(self._runs.values()):  # whose tasks are not to blame
                    self._again(other, other.of_band(band))
                await self.host.end(band)

        stopping = [self._loop.create_task(stopped(band)) for band in bands]
        if stopping:
            await asyncio.wait(stopping)

    async def put(self, data: Any) -> Output:
        """Make a table an output; see :meth:`craton.schedule.tasks.Runner.put`."""

        def kept() -> tuple[Stored, PageSink]:
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

    async def fetch(self, key: int, part: int = 0) -> pa.Table:
        """The rows of a part; see :meth:`craton.schedule.tasks.Runner.fetch`."""
        while True:
            made = self._lineage.get(key)
            if made is None:
                raise KeyError(f"there is no output of task {key}: it was released, or never made")
            stored = made.stored
            try:
                if stored is None:
                    raise OutputLost(key)
                if stored.node:
                    ref = xo.create_actor_ref(self.host.nodes[stored.node].address, NODE)
                    return await fetch(ref, key, stored, part, self._compression)
                return await asyncio.to_thread(PageInput(default_store(), [Piece(key, stored, part)]).table)
            except (OutputLost, ConnectionError, xo.ActorNotExist):
                if made.stored is stored:  # and not made again meanwhile
                    self._lineage.lose([key])
                    await self._remake(key)

    async def _remake(self, key: int) -> None:
        try:
            tasks = self._lineage.again([key])
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
                ref = xo.create_actor_ref(self.host.nodes[node].address, NODE)
                in_background(self._loop, ref.drop.tell(some), self._tasks, (ConnectionError, xo.ActorNotExist))
            else:
                self._node.drop(some)
        self._forget([key for key, _ in dropped])

    def _forget(self, keys: list[int]) -> None:
        if keys and not self._forgotten:
            self._loop.call_later(_LAZY, self._have_forgotten)
        self._forgotten += keys

    def _have_forgotten(self) -> None:
        keys, self._forgotten = self._forgotten, []
        for band, alive in enumerate(self._alive):
            if alive and not self._stopping:
                self._tell(self._ref(band).forget.tell(keys))

    # ---- for people ----

    def underway(self) -> list[Underway]:
        """The runs that go on; see :meth:`craton.schedule.tasks.Runner.underway`."""
        return [run.underway for run in list(self._runs.values())]

    async def traffic(self) -> Traffic:
        """What has been moved so far; see :meth:`craton.schedule.tasks.Runner.traffic`."""
        own = self._node.traffic()
        away = [xo.create_actor_ref(node.address, NODE) for node in self.host.nodes[1:]]
        if not away:
            return own
        found = await asyncio.gather(*[ref.traffic() for ref in away], return_exceptions=True)
        return Traffic(*map(sum, zip(own, *(one for one in found if isinstance(one, Traffic)), strict=True)))

    def _observe(self, on: bool) -> None:
        """Have memory over time told, or no more."""
        if on:
            self._sampler.start(default_store())
        else:
            self._sampler.stop()
        for band, alive in enumerate(self._alive):
            if alive:
                self._observe_band(band, on)

    def _observe_band(self, band: int, on: bool) -> None:
        node = self.workers[band].band.node
        first = next(other for other, its in enumerate(self.workers) if its.band.node == node)
        self._tell(self._ref(band).observe.tell(on, node > 0 and band == first))

    def sampled(self, band: int, samples: list[Sample]) -> None:
        """See :meth:`SupervisorActor.sampled`."""
        if events.active:
            ahead = self._ahead.get(band, 0.0)
            told = [sample._replace(when=sample.when - ahead) for sample in samples] if ahead else samples
            events.emit("memory", worker=band, node=self.workers[band].band.node if band >= 0 else 0, samples=told)
        elif self._sampler.on:  # nobody watches any more
            self._observe(False)

    async def facts(self) -> list[dict[str, Any]]:
        """What is to be known of each worker now."""

        async def one(band: int) -> dict[str, Any]:
            started = self.workers[band]
            known: dict[str, Any] = {
                "worker": band,
                "node": self.host.nodes[started.band.node].name,
                "address": started.address,
                "pid": self._pids[band],
                "threads": started.band.threads,
                "memory_limit": started.band.memory,
            }
            asked = {"memory_used": 0, "done": 0, "running": 0}
            with contextlib.suppress(ConnectionError, TimeoutError, xo.ActorNotExist):
                if self._alive[band]:
                    asked = await asyncio.wait_for(self._ref(band).facts(), 1.0)
            return {
                **known,
                "alive": self._alive[band],
                **{name: asked[name] for name in ("memory_used", "done", "running")},
            }

        return list(await asyncio.gather(*[one(band) for band in range(len(self.workers))]))


def _heard(task: asyncio.Task[Any]) -> None:
    """Nobody waits for the answer any more; an error would be said to have been overlooked."""
    if not task.cancelled():
        task.exception()
