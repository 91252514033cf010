"""`xoscar.backends.indigen.pool`: pools, with the internal attributes that tests use."""

from typing import Any

import craton.actor
from craton.actor import MainActorPoolType
from craton.actor.pool.processes import Process

from ...private import names_of


class Pool(MainActorPoolType):
    """Craton's main pool."""

    router: object = None

    @property
    def _sub_processes(self) -> dict[str, Process]:
        return self.sub_processes

    @property
    def _config(self) -> Any:
        return self.config

    async def kill_sub_pool(self, process: Process) -> None:
        """Kill a process."""
        await self.kill_pool(process.address)


class MainActorPool:
    """Creates pools from a configuration."""

    @classmethod
    async def create(cls, given: dict[str, Any]) -> MainActorPoolType:
        """Create the pools of a configuration."""
        pools = list(given["actor_pool_config"].pools.values())
        pool = await craton.actor.create_actor_pool(
            pools[0].address,
            len(pools) - 1,
            ports=[int(sub.address.rpartition(":")[2]) for sub in pools[1:]],
            labels=[pool.label for pool in pools],
            envs=[pool.env or {} for pool in pools[1:]],
        )
        pool.__class__ = Pool
        return pool


__getattr__ = names_of(__name__)
