"""Which workers there are: they are started, know each other, are watched, and are started again when they end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import craton.actor as xo
from craton.actor.waiting import in_background
from craton.cluster import worker
from craton.cluster.hosts.base import Host, Spec, Started
from craton.cluster.transfer import UID as NODE
from craton.schedule.tasks import Band

if TYPE_CHECKING:
    from craton.cluster.sessions import Compression

__all__ = ["Membership", "OnChange", "WorkerState"]

# How often in a row a worker is started that ends again before it serves.
_STARTS = 5
# Seconds before it is started once more: twice as many each time.
_PAUSE = 0.1


class OnChange(Protocol):
    """What is done when workers come and go."""

    def joined(self, band: int) -> None:
        """A worker serves."""

    def lost(self, band: int, why: str) -> None:
        """A worker has ended."""

    def restarted(self) -> None:
        """A worker that had ended serves again."""

    def node_lost(self, node: int, bands: list[int]) -> None:
        """A machine's store has ended, and with it the workers of these bands."""

    def none_left(self, why: str) -> None:
        """The last worker has ended and cannot be started again."""


@dataclass(slots=True)
class WorkerState:
    """A worker.

    Parameters
    ----------
    started
        Where it is, and what it has.
    alive
        Whether it serves, as far as is known.
    pid
        Of its process.
    ahead
        Seconds that its clock is ahead of this process's, if it is on another machine.
    """

    started: Started
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
        What starts the workers.
    compression
        Of what goes from machine to machine.
    on_change
        What is told of changes.

    Attributes
    ----------
    members : list of WorkerState
        One a band.
    some_alive : asyncio.Event
        Set while a worker lives, or when none ever will again.
    none_left : str
        Why nothing can be run any more; empty as long as something can.
    stopping : bool
        Whether all are being ended.
    """

    def __init__(self, pool: Any, host: Host, compression: Compression, on_change: OnChange) -> None:
        self._pool, self.host, self._compression, self._on_change = pool, host, compression, on_change
        self._loop = asyncio.get_running_loop()
        self.members: list[WorkerState] = []
        self.some_alive = asyncio.Event()
        self.none_left = ""
        self.stopping = False
        self._gone_for_good = 0
        self._watched = 1  # machines whose stores are watched, the driver's own included
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, spec: Spec) -> None:
        """Start the workers, and have them know each other.

        Raises
        ------
        OSError, RuntimeError
            If one cannot be started; then none is left.
        """
        self.members = [WorkerState(started) for started in await self.host.start(spec)]
        await asyncio.gather(*[self._join(band) for band in range(len(self.members))])
        for band in range(len(self.members)):
            self.spawn(self._watch(band))
        self._watch_nodes()
        self.some_alive.set()

    async def stop(self) -> None:
        """End all workers, and what was begun here."""
        self.stopping = True
        for task in list(self._tasks):
            task.cancel()
        await self.host.stop()

    # ---- who there is ----

    @property
    def bands(self) -> tuple[Band, ...]:
        """What there is to run on."""
        return tuple(member.started.band for member in self.members)

    def living(self) -> list[int]:
        """The bands whose workers live."""
        return [band for band, member in enumerate(self.members) if member.alive]

    def of_node(self, node: int) -> list[int]:
        """The bands on a machine."""
        return [band for band, member in enumerate(self.members) if member.started.band.node == node]

    def ref(self, band: int) -> Any:
        """The actor of a worker."""
        return xo.create_actor_ref(self.members[band].started.address, worker.UID)

    def node_ref(self, node: int) -> Any:
        """The actor that has a machine's store."""
        return xo.create_actor_ref(self.host.nodes[node].address, NODE)

    # ---- speaking to them ----

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something until all are stopped."""
        in_background(self._loop, work, self._tasks)

    def tell(self, message: Coroutine[Any, Any, Any]) -> None:
        """Send a message, and do not mind if its receiver has ended: that is noticed elsewhere."""
        in_background(self._loop, message, self._tasks, (ConnectionError, xo.ActorNotExist))

    # ---- watching them ----

    def _peers(self) -> worker.Peers:
        return worker.Peers(
            self._pool.external_address,
            tuple(member.started.address if member.alive else None for member in self.members),
            tuple(node.address for node in self.host.nodes),
            tuple(band.node for band in self.bands),
            self._compression,
        )

    async def _join(self, band: int) -> None:
        member, asked = self.members[band], time.time()
        told = await self.ref(band).join(self._peers())
        member.pid = told["pid"]
        if member.started.band.node:
            member.ahead = told["now"] - (asked + time.time()) / 2
        self._on_change.joined(band)

    async def _watch(self, band: int) -> None:
        """Wait for the end of a worker, again and again, and start it again."""
        member, failed = self.members[band], 0
        while failed < _STARTS:
            try:
                await self.ref(band).watch()
                why = "it was told to end"
            except (ConnectionError, xo.ActorNotExist) as error:
                why = str(error)
            if self.stopping:
                return
            member.alive = False
            why = await self.host.ending(band) or why
            if not self.living():
                self.some_alive.clear()
            self._on_change.lost(band, why)
            try:
                member.started = await self.host.restart(band)
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
            member.alive = True
            self.some_alive.set()
            for other in self.living():
                if other != band:
                    self.tell(self.ref(other).join(self._peers()))
            self._on_change.restarted()
        self._gone_for_good += 1
        if self._gone_for_good == len(self.members):
            self.none_left = f"no worker is left; the last one: {why}"
            self.some_alive.set()
            self._on_change.none_left(self.none_left)

    def _watch_nodes(self) -> None:
        for node in self.host.nodes[self._watched :]:
            self.spawn(self._watch_node(node.number))
        self._watched = len(self.host.nodes)

    async def _watch_node(self, node: int) -> None:
        """Wait for the end of the process that has a machine's store, again and again; its workers end with it."""
        while True:
            with contextlib.suppress(ConnectionError, xo.ActorNotExist):
                await self.node_ref(node).watch()
            if self.stopping:
                return
            bands = self.of_node(node)
            for band in bands:
                self.members[band].alive = False
            self._on_change.node_lost(node, bands)
            await asyncio.gather(*[self.host.end(band) for band in bands])
            if not bands:
                return  # they have all gone to other machines
            try:
                self.members[bands[0]].started = await self.host.restart(bands[0])
            except ConnectionError:
                continue
            except (OSError, RuntimeError):
                return  # whoever watches the worker says so
