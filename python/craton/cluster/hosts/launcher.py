"""The launcher: an actor of Ray or Dask that starts, and restarts, the process of one worker.

The engine creates a :class:`Launcher` where it has room for a worker. From then on the driver communicates with the launcher, the
worker and the store of the machine by `craton.actor`, without the engine. When the driver's connection ends, all processes that
the launcher started end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import craton.actor as xo
from craton._native import __version__
from craton.actor.wire.peers import Peers
from craton.config import options

#: The uid of the starter in a launcher's pool.
UID = "craton-starter"
# Seconds that a launcher's pool may take to start.
_SERVES = 30.0


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """A description of a launcher's machine.

    Parameters
    ----------
    version
        The version of Craton.
    machine
        An identifier: processes with equal identifiers can share memory, sockets and files.
    name
        The machine's name, for display.
    memory
        Bytes that Craton may use there.
    """

    version: str
    machine: str
    name: str
    memory: int


def machine_info() -> MachineInfo:
    """Return the description of this process's machine."""
    return MachineInfo(__version__, machine(), socket.gethostname(), options.memory_limit)


def machine() -> str:
    """Return an identifier of this machine or container, and of the user: processes where it is equal can share a store."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = [str(os.stat(f"/proc/self/ns/{space}").st_ino) for space in ("mnt", "net", "pid", "user")]
    except OSError:
        boot, spaces = platform.node(), []
    return "/".join([boot, *spaces, str(os.getuid())])


class Launcher:
    """Starts the worker's processes; an actor of the engine."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def machine_info(self) -> MachineInfo:
        """Return the description of its machine."""
        return machine_info()

    def serve(self, key: bytes, host: str) -> str:
        """Start an actor pool with a :class:`Starter`, in a new thread; return its address.

        Parameters
        ----------
        key
            The session's authentication key.
        host
            The host name or IP address at which others reach this machine.

        Raises
        ------
        OSError
            If this machine cannot listen at `host`.
        """
        served: Future[str] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(_serve(key, host, served)), name="craton-launcher", daemon=True
        )
        self._thread.start()
        return served.result(_SERVES)


async def _serve(key: bytes, host: str, served: Future[str]) -> None:
    Peers.here().secret = key
    try:
        pool = await xo.create_actor_pool(host, n_process=0, auto_recover="actor")
    except BaseException as error:
        served.set_exception(error)
        return
    ended = asyncio.Event()
    pool.make(UID.encode(), Starter, (pool, ended), {})
    served.set_result(pool.external_address)
    try:
        await ended.wait()
    finally:
        await pool.stop(force=True)


class Starter(xo.StatelessActor):
    """Starts processes for the driver.

    Parameters
    ----------
    pool
        The launcher's pool; the processes are its sub pools.
    ended
        Set when the driver disconnects.
    """

    def __init__(self, pool: Any, ended: asyncio.Event) -> None:
        super().__init__()
        self._pool, self._ended = pool, ended

    async def watch(self) -> None:
        """Never return. When the caller disconnects, the pool and its processes end."""
        try:
            await asyncio.Event().wait()
        finally:
            self._ended.set()

    async def reach(self, address: str, uid: str) -> None:
        """Check that an actor can be reached from here.

        Raises
        ------
        ConnectionError
            If it cannot be reached.
        """
        await xo.actor_ref(uid, address=address)

    async def add(self, label: str, variables: dict[str, str]) -> str:
        """Start a sub pool in a process with these environment variables; return its address."""
        return await self._pool.append_sub_pool(label=label, env=variables)

    async def wait_restarted(self, address: str) -> bool:
        """Wait for a process that is being restarted; return whether it is running."""
        if address not in self._pool.config.get_external_addresses():
            return False
        try:
            await self._pool.wait_recovered(address)
        except ConnectionError:
            return False
        return True

    async def kill(self, address: str) -> None:
        """Kill a process; the pool restarts it."""
        with contextlib.suppress(ValueError):  # it is being restarted already
            await self._pool.kill_pool(address)

    async def remove(self, address: str | None = None) -> None:
        """Kill a process, or all if no address is given, without a restart; return when they have ended."""
        addresses = self._pool.config.get_external_addresses()[1:] if address is None else [address]
        await asyncio.gather(*[self._remove(each) for each in addresses])

    async def _remove(self, address: str) -> None:
        with contextlib.suppress(ValueError):
            await self._pool.remove_sub_pool(address, force=True)
