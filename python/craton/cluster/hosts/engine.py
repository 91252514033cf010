"""The common base of the Ray and Dask hosts: everything except creating and releasing launchers.

The engine creates a launcher for each worker (`craton.cluster.hosts.launcher`). Launchers report their machines. Each machine has
one store; on the driver's machine it is the driver's. A launcher restarts its worker when that dies. When a launcher is lost, the
engine creates another one, on the same machine or on another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import craton.actor as xo
from craton._native import __version__
from craton.actor.wire.peers import Peers
from craton.cluster import worker
from craton.cluster.hosts.base import ClusterNode, Host, StartedWorker, WorkerSpec, environment
from craton.cluster.hosts.launcher import UID as STARTER
from craton.cluster.hosts.launcher import MachineInfo, machine_info
from craton.cluster.transfer import UID as NODE
from craton.cluster.transfer import NodeActor
from craton.config import options
from craton.schedule.tasks import Band
from craton.store import default_store
from craton.store.process import current_store

#: The address at which processes of one machine reach each other.
LOOPBACK = "127.0.0.1"
# Seconds that launchers have to end their processes.
_END = 5.0


@dataclass(slots=True)
class Launched:
    """A launcher.

    Parameters
    ----------
    handle
        The engine's handle of it.
    host
        The host name or IP address at which the engine reaches its machine.
    machine_info
        Its description of the machine.
    threads
        The number of threads that the engine gives the worker.
    address
        The address of its pool; empty until :meth:`Launcher.serve` was called.
    """

    handle: Any
    host: str
    machine_info: MachineInfo
    threads: int
    address: str = ""

    @property
    def starter(self) -> Any:
        """A reference to its :class:`Starter`."""
        return xo.create_actor_ref(self.address, STARTER)


class EngineHost(Host):
    """Workers on a distributed engine.

    Parameters
    ----------
    address
        The engine's address.
    driver
        The host name or IP address at which workers reach this machine; by default the address of the network interface that
        routes to them, or the loopback address if all workers are on this machine.
    env
        Environment variables of the workers.
    timeout
        Seconds that the engine may take to provide room for all workers.
    nodes
        Tests only: treat the workers of one machine as if they were on this many machines.
    """

    def __init__(
        self,
        address: Any,
        *,
        driver: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        nodes: int = 1,
    ) -> None:
        self.address, self.timeout = address, timeout
        self._driver, self._env, self._simulated_nodes = driver, dict(env or {}), nodes
        self._launched: list[Launched] = []
        self._started: list[StartedWorker] = []
        self._nodes: list[ClusterNode] = []
        self._machines: list[str] = []  # the machine of each node
        self._stores: list[str] = []  # the address of its store
        self._owners: list[int] = []  # the launcher that started the store's process
        self._memory: int | None = None

    # ---- implemented for each engine; called in any thread ----

    @abstractmethod
    def connect(self, spec: WorkerSpec) -> int:
        """Connect to the engine, or start one; return the number of launchers to create."""

    @abstractmethod
    def launch(self, number: int) -> Launched:
        """Create the launcher of this number, or replace it if it was lost.

        Raises
        ------
        Exception
            If the engine has no room for it, or any other error of the engine.
        """

    @abstractmethod
    def serve(self, launched: Launched, key: bytes, host: str) -> str:
        """Call :meth:`Launcher.serve` through the engine."""

    @abstractmethod
    def disconnect(self) -> None:
        """Release all launchers and disconnect; end the engine if :meth:`connect` started it. Further calls do nothing."""

    # ---- the host ----

    def open(self, spec: WorkerSpec) -> str:
        """Connect to the engine and create the launchers; see :meth:`Host.open`."""
        try:
            count = self.connect(spec)
            with ThreadPoolExecutor(count, "craton-launch") as threads:
                self._launched = list(threads.map(self._launch, range(count)))
        except BaseException:
            self.close()
            raise
        own = machine_info().machine
        away = next((one.host for one in self._launched if one.machine_info.machine != own), None)
        return self._driver or (LOOPBACK if away is None else address_towards(away))

    def close(self) -> None:
        """Disconnect from the engine; see :meth:`Host.close`."""
        self.disconnect()

    def _launch(self, number: int) -> Launched:
        launched = self.launch(number)
        if launched.machine_info.version != __version__:
            raise RuntimeError(
                f"{launched.machine_info.name} has Craton {launched.machine_info.version}, and this process has {__version__}; "
                f"install the same version on all machines"
            )
        return launched

    async def start(self, spec: WorkerSpec) -> list[StartedWorker]:
        """Start the workers; see :meth:`Host.start`."""
        if spec.memory is not None and current_store() is None:
            options.memory_limit = spec.memory  # of the store that is opened now
        self._memory = spec.memory
        self._nodes = [ClusterNode(0, socket.gethostname(), self.pool.external_address)]
        self._machines, self._owners = [machine_info().machine], [-1]
        self._stores = [default_store().address or default_store().serve()]
        numbers = range(len(self._launched))
        self._locks = [asyncio.Lock() for _ in numbers]
        self._starting_store = asyncio.Lock()
        await asyncio.gather(*[self._serve(number) for number in numbers])
        bands = [await self._band(number) for number in numbers]
        self._started = list(await asyncio.gather(*[self._start_worker(band) for band in bands]))
        return list(self._started)

    async def _serve(self, number: int) -> None:
        """Start a launcher's pool, check that it and the driver reach each other, and tie its lifetime to this process."""
        launched, driver = self._launched[number], self.pool.external_address
        host = LOOPBACK if driver.startswith(f"{LOOPBACK}:") else launched.host
        try:
            launched.address = await asyncio.to_thread(self.serve, launched, Peers.here().key(), host)
            self.pool.spawn(self._hold(launched))
            await launched.starter.reach(driver, "craton-supervisor")
        except (OSError, xo.ActorNotExist) as error:
            raise RuntimeError(
                f"{launched.machine_info.name} at {host} and this process at {driver} cannot connect to each other; if workers reach this "
                f"machine at another address, pass it as driver=…: {error}"
            ) from error

    async def _hold(self, launched: Launched) -> None:
        with contextlib.suppress(ConnectionError, xo.ActorNotExist):
            await launched.starter.watch()

    def _machine(self, number: int) -> str:
        share = number * self._simulated_nodes // len(self._launched)
        return self._launched[number].machine_info.machine + (f" {share}" if share else "")

    async def _band(self, number: int) -> Band:
        """Return the band of a launcher's worker; start the store of its machine if it is not running."""
        machine, launched = self._machine(number), self._launched[number]
        same = sum(self._machine(other) == machine for other in range(len(self._launched)))
        async with self._starting_store:
            if machine not in self._machines:
                node = len(self._nodes)
                self._machines.append(machine)
                self._stores.append(f"@craton-{secrets.token_hex(12)}")
                self._nodes.append(ClusterNode(node, launched.machine_info.name, ""))
                self._owners.append(number)
            node = self._machines.index(machine)
            limit = self._memory or (launched.machine_info.memory if node else default_store().limit)
            if node and not await self._is_running(self._owners[node], self._nodes[node].address):
                address = await self._start_store(launched, node, limit // self._simulated_nodes)
                self._nodes[node] = replace(self._nodes[node], address=address)
                self._owners[node] = number
        return Band(number, launched.threads, limit // self._simulated_nodes // same, node)

    async def _is_running(self, number: int, address: str) -> bool:
        """Return whether a launcher's process at an address is running, or has been restarted."""
        try:
            return bool(address) and await self._launched[number].starter.wait_restarted(address)
        except (ConnectionError, xo.ActorNotExist):
            return False

    async def _start_store(self, launched: Launched, node: int, limit: int) -> str:
        """Start the process of a machine's store; return its address."""
        variables = {"CRATON_STORE": "", "CRATON_MEMORY_LIMIT": str(limit), "CRATON_CLUSTER": "embedded"}
        address = await launched.starter.add(f"node-{node}", {**self._env, **variables})
        await xo.create_actor(NodeActor, node, self._stores[node], uid=NODE, address=address)
        return address

    async def _start_worker(self, band: Band) -> StartedWorker:
        variables = {
            **environment(band.threads),
            **self._env,
            "CRATON_STORE": self._stores[band.node],
            "CRATON_MEMORY_LIMIT": str(self._memory or self._launched[band.number].machine_info.memory),
        }
        address = await self._launched[band.number].starter.add(f"band-{band.number}", variables)
        await self._create_actor(band, address)
        return StartedWorker(band, address)

    async def _create_actor(self, band: Band, address: str) -> None:
        path = [os.path.abspath(entry) for entry in sys.path]
        folder = os.getcwd() if self.shares_working_directory else None
        await xo.create_actor(worker.WorkerActor, band, path, folder, uid=worker.UID, address=address)

    @property
    def shares_working_directory(self) -> bool:
        """Whether workers use the driver's working directory, if it exists on their machine."""
        return True

    async def restart(self, number: int) -> StartedWorker:
        """Restart a worker; see :meth:`Host.restart`."""
        async with self._locks[number]:
            started = self._started[number]
            reached = await self._responds(number)
            if reached:
                await self._band(number)  # restarts the machine's store if necessary: the worker waits for it
            lost = not (reached and await self._is_running(number, started.address))
            if lost and not (reached and await self._remove_worker(number)):
                try:
                    self._launched[number] = await asyncio.to_thread(self._launch, number)
                except OSError:
                    raise
                except Exception as error:
                    raise RuntimeError(str(error)) from error
                await self._serve(number)
            band = await self._band(number)
            if lost:
                self._started[number] = await self._start_worker(band)
            # The pool restarted the process, but creating the actor failed if the machine's store was not running yet.
            elif not await xo.has_actor(xo.create_actor_ref(started.address, worker.UID)):
                await self._create_actor(band, started.address)
            return self._started[number]

    async def _responds(self, number: int) -> bool:
        """Return whether a launcher responds."""
        try:
            await self._launched[number].starter.wait_restarted("")
        except (ConnectionError, xo.ActorNotExist):
            return False
        return True

    async def _remove_worker(self, number: int) -> bool:
        """Remove a launcher's worker; return whether the launcher responded, and so can start another."""
        try:
            await self._launched[number].starter.remove(self._started[number].address)
        except (ConnectionError, xo.ActorNotExist):
            return False
        return True

    async def end(self, number: int) -> None:
        """Kill a worker's process; see :meth:`Host.end`."""
        with contextlib.suppress(ConnectionError, xo.ActorNotExist):
            await self._launched[number].starter.kill(self._started[number].address)

    async def stop(self) -> None:
        """End the workers; see :meth:`Host.stop`."""
        await asyncio.gather(*[self._end(launched) for launched in self._launched if launched.address])
        self._started, self._nodes = [], self._nodes[:1]

    async def _end(self, launched: Launched) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, xo.ActorNotExist):
            await asyncio.wait_for(launched.starter.remove(), _END)

    @property
    def nodes(self) -> list[ClusterNode]:
        return self._nodes

    @property
    def stores(self) -> list[str]:
        return self._stores


def address_towards(host: str) -> str:
    """Return the IP address of the interface of this machine that routes to another machine."""
    family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect(address)  # a datagram socket: this chooses the route and sends nothing
        return sock.getsockname()[0]


def most_threads(cores: list[int], workers: int) -> int:
    """Return the most threads, at least 1, that each of `workers` can have on machines with these numbers of cores.

    Examples
    --------
    >>> most_threads([8, 8], 2), most_threads([8, 8], 3), most_threads([2], 5)
    (8, 4, 1)
    """
    return next(
        (many for many in range(max(cores, default=1), 1, -1) if sum(own // many for own in cores) >= workers), 1
    )
