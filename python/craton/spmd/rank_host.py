"""An actor on each machine of a cluster other than the driver's, which starts ranks there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import craton.actor as xo
from craton.cluster.sessions import Session
from craton.spmd.starting import server_for

__all__ = ["RankHost", "RemoteStarter", "rank_host"]

#: The uid of the actor in the pool of a machine's store.
UID = "craton-ranks"


class RankHost(xo.StatelessActor):
    """Starts ranks on its machine. They end with its process, which ends with the session."""

    async def start(self, threads: Mapping[str, str], path: list[str], arguments: tuple[Any, ...]) -> int:
        """Start a rank, which connects to the executor; return the number of its process."""
        return await asyncio.to_thread(lambda: server_for(threads, path).start(arguments, []))

    async def kill(self, threads: Mapping[str, str], pid: int) -> None:
        """Kill a rank."""
        await asyncio.to_thread(lambda: server_for(threads).kill(pid))

    async def exit_code(self, threads: Mapping[str, str], pid: int, timeout: float) -> int | None:
        """Wait for the end of a rank; return its exit code, or None."""
        return await asyncio.to_thread(lambda: server_for(threads).exit_code(pid, timeout))


async def rank_host(address: str) -> Any:
    """Return a reference to the actor in a pool; create it if there is none."""
    with contextlib.suppress(xo.ActorAlreadyExist):
        return await xo.create_actor(RankHost, uid=UID, address=address)
    return await xo.actor_ref(UID, address=address)


class RemoteStarter:
    """Starts ranks by the actor of a machine; see :class:`craton.spmd.gang.Starter`.

    Parameters
    ----------
    session
        The session.
    host
        A reference to the machine's :class:`RankHost`.
    threads
        Environment variables that limit the threads of numeric libraries.
    path
        The module path.
    """

    def __init__(self, session: Session, host: Any, threads: Mapping[str, str], path: list[str]) -> None:
        self._session, self._host, self._threads, self._path = session, host, dict(threads), path

    def start(self, arguments: tuple[Any, ...], _fds: list[int]) -> int:
        """Start a rank; return the number of its process."""
        pid: int = self._session.call(self._host.start(self._threads, self._path, arguments))
        return pid

    def kill(self, pid: int) -> None:
        """Kill a rank, unless its machine is lost or the session has ended: then it ends by itself."""
        with contextlib.suppress(RuntimeError, ConnectionError, xo.ActorError):
            self._session.call(self._host.kill(self._threads, pid))

    def exit_code(self, pid: int, timeout: float) -> int | None:
        """Wait for the end of a rank; return its exit code, or None."""
        with contextlib.suppress(RuntimeError, ConnectionError, xo.ActorError):
            code: int | None = self._session.call(self._host.exit_code(self._threads, pid, timeout))
            return code
        return None
