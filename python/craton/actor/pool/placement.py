"""The main pool's part that places and finds actors: which pool to create an actor in, and which pool has it."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from craton.actor.allocate_strategy import Allocated, IdleLabel, ProcessIndex
from craton.actor.errors import ActorPoolNotStarted
from craton.actor.pool.base import Pool, request_handler
from craton.actor.pool.config import ActorPoolConfig
from craton.actor.pool.processes import Process
from craton.actor.pool.recovery import SubPoolMonitor
from craton.actor.refs import make_ref
from craton.actor.wire.peers import Peers


class PlacingPool(Pool):
    """A pool that places and finds actors in its whole group; the base of `MainActorPool`.

    Attributes
    ----------
    sub_processes : dict of str to Process
        The sub pools' processes, by address.
    auto_recover : str or bool
        What is restarted when one of them ends; see `create_actor_pool`.
    """

    def __init__(self, config: ActorPoolConfig, auto_recover: str | bool) -> None:
        super().__init__(config, 0)
        self.auto_recover = auto_recover
        self.sub_processes: dict[str, Process] = {}
        self._monitors: dict[str, SubPoolMonitor] = {}
        # How to recreate the actors of each sub pool, and the `IdleLabel` that each actor occupies.
        self._made: dict[str, dict[bytes, bytes]] = {}
        self._idle: dict[tuple[str, bytes], IdleLabel] = {}
        self._placing = asyncio.Lock()

    async def create_in_group(self, uid: Any, spec: bytes, strategy: Any, recorded: bool = False) -> tuple[str, bytes]:
        """Create an actor in the pool that the strategy chooses; return the pool's address and the uid."""
        if strategy is None:
            return await self._create_at(self.external_address, uid, spec)
        if not isinstance(strategy, IdleLabel):
            return await self._create_at(self.place(strategy), uid, spec)
        async with self._placing:
            allocated: Allocated = {}
            for (address, name), label in list(self._idle.items()):
                if label == strategy and await self._lives(address, name):
                    allocated.setdefault(address, {})[make_ref(address, name)] = (label, None)
            where = strategy.get_allocated_address(self._living(strategy), allocated)
            address, uid = await self._create_at(where, uid, spec)
            self._idle[address, uid] = strategy
            return address, uid

    def place(self, strategy: Any) -> str:
        """Return the address of the pool that a strategy chooses; not for `IdleLabel`, which needs the placed actors."""
        found: str = strategy.get_allocated_address(self._living(strategy), {})
        return found

    async def wait_recovered(self, address: str) -> None:
        """Wait until a sub pool whose process died has been restarted.

        Raises
        ------
        ServerClosed
            The group does not restart sub pools, or restarting failed.
        """
        monitor = self._monitors.get(address)
        if monitor is not None:
            await monitor.recovered()

    def _living(self, strategy: Any) -> ActorPoolConfig:
        """Return the pools that a strategy may choose: only a `ProcessIndex` can choose a pool that is lost for good."""
        dead = {address for address, monitor in self._monitors.items() if monitor.lost}
        if not dead or isinstance(strategy, ProcessIndex):
            return self.config
        config = copy.copy(self.config)
        config.pools = {index: pool for index, pool in self.config.pools.items() if pool.address not in dead}
        return config

    async def _create_at(self, address: str, uid: Any, spec: bytes) -> tuple[str, bytes]:
        if address == self.external_address:
            return address, await self.create(uid, spec)
        if address not in self._monitors:
            return await Peers.here().ask(address, "create", (uid, spec, None))
        await self.wait_recovered(address)
        _, uid = await Peers.here().ask(address, "create", (uid, spec, None, True))
        await self.created(address, {uid: spec})
        return address, uid

    async def created(self, address: str, specs: dict[bytes, bytes]) -> None:
        """Record how to recreate actors of a sub pool."""
        if self.auto_recover == "actor":
            self._made.setdefault(address, {}).update(specs)

    async def _lives(self, address: str, uid: bytes) -> bool:
        if address == self.external_address:
            return uid in self.actors
        monitor = self._monitors.get(address)
        if monitor is not None and monitor.recovering:
            return uid in self._made.get(address, {})
        try:
            if await Peers.here().ask(address, "has here", uid):
                return True
        except ConnectionError:
            if self.auto_recover == "actor" and uid in self._made.get(address, {}):
                return True  # its process has ended; the actor will be recreated
        except ActorPoolNotStarted:
            pass  # its pool is about to end
        self._idle.pop((address, uid), None)
        return False

    async def destroyed(self, uid: bytes) -> None:
        """Do nothing: the main pool's own actors are not recorded."""

    async def find(self, uid: bytes, but: str | None = None) -> str | None:
        """Return the address of the sub pool that has an actor, or None; all sub pools except ``but`` are queried."""
        # Return at the first positive answer, because another sub pool may be busy.
        asking = {
            self.loop.create_task(self._lives(address, uid)): address
            for address in self.sub_processes
            if address != but
        }
        waiting = set(asking)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.result():
                        return asking[task]
            return None
        finally:
            for task in waiting:
                task.cancel()


@request_handler("created")
async def _created(pool: Any, value: Any) -> None:
    await pool.created(*value)


@request_handler("destroyed")
async def _destroyed(pool: Any, value: Any) -> None:
    address, uid = value
    pool._made.get(address, {}).pop(uid, None)
    pool._idle.pop((address, uid), None)


@request_handler("find elsewhere")
async def _find_elsewhere(pool: Any, value: Any) -> str | None:
    uid, but = value
    return pool.external_address if uid in pool.actors else await pool.find(uid, but)
