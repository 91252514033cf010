"""The local host: workers are processes of this machine, as sub pools of the supervisor's actor pool.

The pool starts and restarts them, and ends them with the driver. They share the driver's store: workers map its pages, and the
driver reads results without a copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket

import craton.actor as xo
from craton.cluster import worker
from craton.cluster.hosts.base import ClusterNode, Host, StartedWorker, WorkerSpec, cores, environment
from craton.cluster.transfer import UID as NODE
from craton.cluster.transfer import NodeActor
from craton.config import options
from craton.schedule.tasks import Band
from craton.store import default_store
from craton.store.process import current_store


class LocalHost(Host):
    """Workers as processes.

    Parameters
    ----------
    nodes
        Tests only: treat the workers as if they were on this many machines. Each machine after the first has its own store, in an
        additional process.
    """

    name = "local"

    def __init__(self, nodes: int = 1) -> None:
        self._count = nodes
        self._nodes: list[ClusterNode] = []
        self._started: list[StartedWorker] = []
        self._stores: list[str] = []

    async def start(self, spec: WorkerSpec) -> list[StartedWorker]:
        """Start the workers; see :meth:`Host.start`."""
        workers = spec.workers or max(cores() // (spec.threads or 1), 1)
        threads = spec.threads or max(cores() // workers, 1)
        if spec.memory is not None and current_store() is None:
            options.memory_limit = spec.memory  # of the store that is opened now
        memory = (spec.memory or default_store().limit) // self._count
        name = socket.gethostname()
        self._nodes = [ClusterNode(0, name, self.pool.external_address)]
        self._stores = [default_store().address or default_store().serve()]
        for number in range(1, self._count):
            variables = {"CRATON_STORE": "", "CRATON_MEMORY_LIMIT": str(memory), "CRATON_CLUSTER": "embedded"}
            address = await self.pool.append_sub_pool(env=variables)
            self._stores.append(f"@craton-{os.getpid()}-{secrets.token_hex(8)}")
            await xo.create_actor(NodeActor, number, self._stores[number], uid=NODE, address=address)
            self._nodes.append(ClusterNode(number, f"{name}/{number}", address))
        of = [number * self._count // workers for number in range(workers)]
        bands = [Band(i, threads, memory // of.count(of[i]), of[i]) for i in range(workers)]
        self._started = list(await asyncio.gather(*[self._start(band) for band in bands]))
        return self._started

    async def _start(self, band: Band) -> StartedWorker:
        variables = {
            **environment(band.threads),
            "CRATON_STORE": self._stores[band.node],
            "CRATON_MEMORY_LIMIT": str(options.memory_limit),
        }
        address = await self.pool.append_sub_pool(label=f"band-{band.number}", env=variables)
        await self._create_actor(band, address)
        return StartedWorker(band, address)

    async def _create_actor(self, band: Band, address: str) -> None:
        await xo.create_actor(worker.WorkerActor, band, uid=worker.UID, address=address)

    async def restart(self, number: int) -> StartedWorker:
        """Wait for the pool to restart a worker; see :meth:`Host.restart`."""
        started = self._started[number]
        if started.band.node:
            await self.pool.wait_recovered(self._nodes[started.band.node].address)
        await self.pool.wait_recovered(started.address)
        # Creating the actor failed if the machine's store was not running yet.
        if not await xo.has_actor(xo.create_actor_ref(started.address, worker.UID)):
            await self._create_actor(started.band, started.address)
        return started

    async def end(self, number: int) -> None:
        """Kill a worker's process."""
        with contextlib.suppress(ValueError):  # it is being restarted already
            await self.pool.kill_pool(self._started[number].address)

    async def stop(self) -> None:
        """End the workers; see :meth:`Host.stop`."""
        addresses = [*(one.address for one in self._started), *(node.address for node in self._nodes[1:])]
        await asyncio.gather(*[self._end(address) for address in addresses])
        self._started, self._nodes = [], self._nodes[:1]

    async def _end(self, address: str) -> None:
        with contextlib.suppress(ValueError):
            await self.pool.remove_sub_pool(address, force=True)

    @property
    def nodes(self) -> list[ClusterNode]:
        return self._nodes

    @property
    def stores(self) -> list[str]:
        return self._stores
