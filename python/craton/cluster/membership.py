"""The membership of a cluster: starts the workers, introduces them to each other, watches them, and restarts those that end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import craton.actor as xo
from craton.actor.waiting import in_background
from craton.cluster import worker
from craton.cluster.folders import FolderMap
from craton.cluster.hosts.base import Host, StartedWorker, WorkerSpec
from craton.cluster.transfer import UID as NODE
from craton.cluster.transfer import Transport
from craton.schedule.tasks import Band

__all__ = ["Membership", "OnChange", "WorkerState"]

# The number of consecutive failed restarts after which a worker is given up.
_MAX_RESTARTS = 5
# Seconds before the first retry of a restart; doubled for each further one.
_PAUSE = 0.1


class OnChange(Protocol):
    """Callbacks for changes of the membership."""

    def worker_joined(self, band: int) -> None:
        """Called when a worker has started, or started again."""

    def worker_lost(self, band: int, why: str) -> None:
        """Called when a worker's process has ended."""

    def worker_restarted(self) -> None:
        """Called when a worker that had ended is available again."""

    def node_lost(self, node: int, bands: list[int]) -> None:
        """Called when a machine's store has ended; the workers of these bands end with it."""

    def none_left(self, why: str) -> None:
        """Called when the last worker has ended and cannot be restarted."""


@dataclass(slots=True)
class WorkerState:
    """The state of a worker.

    Parameters
    ----------
    started
        Its band and address.
    alive
        Whether it is available, as far as is known.
    pid
        Its process.
    ahead
        Seconds that its clock is ahead of the driver's; 0 on the driver's machine.
    """

    started: StartedWorker
    alive: bool = True
    pid: int = 0
    ahead: float = 0.0


class Membership:
    """The workers of a host.

    Parameters
    ----------
    pool
        An actor pool in the driver's process.
    host
        Starts the workers.
    transport
        How data is sent between machines.
    on_change
        Called when workers come and go.

    Attributes
    ----------
    members : list of WorkerState
        The worker of each band.
    available : asyncio.Event
        Set while a worker is available, and when no worker will be available again.
    none_left : str
        Why no worker will be available again; empty otherwise.
    stopping : bool
        Whether :meth:`stop` was called.
    """

    def __init__(self, pool: Any, host: Host, transport: Transport, on_change: OnChange) -> None:
        self._pool, self.host, self._transport, self._on_change = pool, host, transport, on_change
        self._loop = asyncio.get_running_loop()
        self.members: list[WorkerState] = []
        self.available = asyncio.Event()
        self.none_left = ""
        self.stopping = False
        self.lost_nodes: set[int] = set()
        """The machines that did not answer last, and have not been seen again."""
        self.folders = FolderMap(lambda node, folders: self.node_ref(node).own_folders(folders))
        self._gone_for_good = 0
        self._watched = (
            1  # the number of machines whose stores are watched, counting the driver's, which needs no watching
        )
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, spec: WorkerSpec) -> None:
        """Start the workers, and send each of them the addresses of the others.

        Raises
        ------
        OSError, RuntimeError
            If a worker cannot be started; then none is left running.
        """
        self.members = [WorkerState(started) for started in await self.host.start(spec)]
        await asyncio.gather(*[self._join(band) for band in range(len(self.members))])
        for band in range(len(self.members)):
            self.spawn(self._watch(band))
        self._watch_nodes()
        self.available.set()

    async def stop(self) -> None:
        """End all workers, and cancel the background tasks."""
        self.stopping = True
        for task in list(self._tasks):
            task.cancel()
        await self.host.stop()

    # ---- the workers ----

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands, by number."""
        return tuple(member.started.band for member in self.members)

    def alive_bands(self) -> list[int]:
        """Return the bands whose workers are available."""
        return [band for band, member in enumerate(self.members) if member.alive]

    def of_node(self, node: int) -> list[int]:
        """Return the bands on a machine."""
        return [band for band, member in enumerate(self.members) if member.started.band.node == node]

    def ref(self, band: int) -> Any:
        """Return a reference to a worker's actor."""
        return xo.create_actor_ref(self.members[band].started.address, worker.UID)

    def node_ref(self, node: int) -> Any:
        """Return a reference to the node actor of a machine."""
        return xo.create_actor_ref(self.host.nodes[node].address, NODE)

    async def locate(self, folders: Iterable[str]) -> None:
        """Ask the machines which of some folders are on their own disks, for ``folders``."""
        machines = {self.bands[band].node for band in self.alive_bands()}
        await self.folders.locate(folders, machines)

    # ---- messages ----

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in the background; :meth:`stop` cancels it."""
        in_background(self._loop, work, self._tasks)

    def tell(self, message: Coroutine[Any, Any, Any]) -> None:
        """Send a message in the background. If the receiver has ended, the message is dropped; :meth:`_watch` handles that."""
        in_background(self._loop, message, self._tasks, (ConnectionError, xo.ActorNotExist))

    # ---- watching ----

    def _cluster_members(self) -> worker.ClusterMembers:
        return worker.ClusterMembers(
            self._pool.external_address,
            tuple(member.started.address if member.alive else None for member in self.members),
            tuple(node.address for node in self.host.nodes),
            tuple(band.node for band in self.bands),
            self._transport,
        )

    async def _join(self, band: int) -> None:
        member, asked = self.members[band], time.time()
        joined = await self.ref(band).join(self._cluster_members())
        member.pid = joined["pid"]
        if member.started.band.node:
            member.ahead = joined["now"] - (asked + time.time()) / 2
        self._on_change.worker_joined(band)

    async def _watch(self, band: int) -> None:
        """Wait until a worker ends and restart it, repeatedly."""
        member, failed = self.members[band], 0
        while failed < _MAX_RESTARTS:
            try:
                await self.ref(band).watch()
                why = "it was asked to end"
            except (ConnectionError, xo.ActorNotExist) as error:
                why = str(error)
            if self.stopping:
                return
            member.alive = False
            why = await self.host.ending(band) or why
            if not self.alive_bands():
                self.available.clear()
            self._on_change.worker_lost(band, why)
            try:
                member.started = await self.host.restart(band)
                self._watch_nodes()
                await self._join(band)
            except (ConnectionError, xo.ActorNotExist):
                failed += 1  # it ended before it could join
                await asyncio.sleep(_PAUSE * 2**failed)
                continue
            except (OSError, RuntimeError) as error:
                why = f"{why}; it could not be restarted: {error}"
                break
            failed = 0
            member.alive = True
            self.available.set()
            for other in self.alive_bands():
                if other != band:
                    self.tell(self.ref(other).join(self._cluster_members()))
            self._on_change.worker_restarted()
        self._gone_for_good += 1
        if self._gone_for_good == len(self.members):
            self.none_left = f"no worker is left; the last one ended: {why}"
            self.available.set()
            self._on_change.none_left(self.none_left)

    def _watch_nodes(self) -> None:
        for node in self.host.nodes[self._watched :]:
            self.spawn(self._watch_node(node.number))
        self._watched = len(self.host.nodes)

    async def _watch_node(self, node: int) -> None:
        """Wait until the process of a machine's store ends, end the machine's workers, and restart them, repeatedly."""
        while True:
            with contextlib.suppress(ConnectionError, xo.ActorNotExist):
                await self.node_ref(node).traffic()  # it answers
                self.lost_nodes.discard(node)
                await self.node_ref(node).watch()
            if self.stopping:
                return
            self.lost_nodes.add(node)
            bands = self.of_node(node)
            for band in bands:
                self.members[band].alive = False
            self._on_change.node_lost(node, bands)
            await asyncio.gather(*[self.host.end(band) for band in bands])
            if not bands:
                return  # all of its workers were moved to other machines
            try:
                self.members[bands[0]].started = await self.host.restart(bands[0])
            except ConnectionError:
                continue
            except (OSError, RuntimeError):
                return  # `_watch` meets the same error and reports it
