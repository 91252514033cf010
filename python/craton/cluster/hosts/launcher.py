"""What runs in a process of the engine, beside each worker: it starts the worker's process, and starts it again.

Ray and Dask make a :class:`Launcher` where they have room for a worker, as an actor of theirs. From then on the driver
speaks to it, to the worker and to the store of its machine by `craton.actor`; the engine has no part in that. When the
driver's connection ends, so does everything that was started.
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

#: The name of the starter in a launcher's pool.
UID = "craton-starter"
# Seconds until a launcher's pool must serve.
_SERVES = 30.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What a launcher knows of where it is.

    Parameters
    ----------
    version
        Of Craton.
    machine
        Tells machines apart: two processes of the same one can share memory, sockets and files.
    name
        The machine's, for people.
    memory
        Bytes that Craton may use there.
    """

    version: str
    machine: str
    name: str
    memory: int


def facts() -> Facts:
    """What there is to know of this process's machine."""
    return Facts(__version__, machine(), socket.gethostname(), options.memory_limit)


def machine() -> str:
    """Which machine, or container, and whose processes: where it is the same, a store can be shared."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = [str(os.stat(f"/proc/self/ns/{space}").st_ino) for space in ("mnt", "net", "pid", "user")]
    except OSError:
        boot, spaces = platform.node(), []
    return "/".join([boot, *spaces, str(os.getuid())])


class Launcher:
    """An actor of the engine."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def facts(self) -> Facts:
        """What there is to know of its machine."""
        return facts()

    def serve(self, key: bytes, host: str) -> str:
        """Serve a pool that has a :class:`Starter`, in a thread of its own; return its address.

        Parameters
        ----------
        key
            Of the session.
        host
            The name or number at which others reach this machine.

        Raises
        ------
        OSError
            If the host is not this machine's.
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
        The launcher's; the processes are sub pools of it.
    ended
        To be set when nobody needs it any more.
    """

    def __init__(self, pool: Any, ended: asyncio.Event) -> None:
        super().__init__()
        self._pool, self._ended = pool, ended

    async def watch(self) -> None:
        """Return never; when the caller ends, so does everything here."""
        try:
            await asyncio.Event().wait()
        finally:
            self._ended.set()

    async def reach(self, address: str, uid: str) -> None:
        """Try whether an actor can be reached from here.

        Raises
        ------
        ConnectionError
            If it cannot.
        """
        await xo.actor_ref(uid, address=address)

    async def add(self, label: str, variables: dict[str, str]) -> str:
        """Start a process with these environment variables, in which a pool serves; return its address."""
        return await self._pool.append_sub_pool(label=label, env=variables)

    async def recovered(self, address: str) -> bool:
        """Wait until a process has been started again; return whether it has."""
        if address not in self._pool.config.get_external_addresses():
            return False
        try:
            await self._pool.wait_recovered(address)
        except ConnectionError:
            return False
        return True

    async def kill(self, address: str) -> None:
        """Kill a process; it is started again."""
        with contextlib.suppress(ValueError):  # it is being started
            await self._pool.kill_pool(address)

    async def remove(self, address: str | None = None) -> None:
        """Kill a process, or all, for good; return when it has ended."""
        addresses = self._pool.config.get_external_addresses()[1:] if address is None else [address]
        await asyncio.gather(*[self._removed(each) for each in addresses])

    async def _removed(self, address: str) -> None:
        with contextlib.suppress(ValueError):
            await self._pool.remove_sub_pool(address, force=True)
