"""Starts rank servers, and ranks from them."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from craton import forks
from craton.fork_server.starting import ServerProcess, module_path

__all__ = ["RankServer", "StartFailed", "server_for"]

_MESSAGE = 1 << 12


class StartFailed(RuntimeError):
    """Ranks cannot be started; the text says why."""


class RankServer(ServerProcess):
    """A process that ranks are forked from.

    Parameters
    ----------
    variables
        Its environment variables, and those that ranks begin with.
    path
        The module path.
    """

    def __init__(self, variables: Mapping[str, str], path: list[str]) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._numbers = 0
        self._started: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self.closed = False
        super().__init__("craton.spmd.server", "ranks", variables, path)

    def start(self, arguments: tuple[Any, ...], fds: list[int]) -> int:
        """Fork a rank; return the number of its process.

        Parameters
        ----------
        arguments
            Plain values for :func:`craton.spmd.rank.main`.
        fds
            Descriptors that the rank gets copies of.

        Raises
        ------
        StartFailed
            If the server has ended.
        """
        try:
            with self.lock:
                self._numbers += 1
                number = self._numbers
                self.send(pickle.dumps(("start", number, arguments)), fds)
                with self._changed:
                    self._changed.wait_for(lambda: number in self._started or self.closed)
                    if number not in self._started:
                        raise StartFailed(self.explanation())
                    return self._started.pop(number)
        except OSError as error:
            raise StartFailed(self.explanation()) from error

    def kill(self, pid: int) -> None:
        """Kill a rank, if it has not ended."""
        with self.lock, contextlib.suppress(OSError):
            if pid not in self._ended and not self.closed:
                self.send(pickle.dumps(("kill", pid)), [])

    def exit_code(self, pid: int, timeout: float) -> int | None:
        """Wait for the end of a rank; return its exit code, negative for a signal; None if it has not ended in time."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._ended or self.closed, timeout)
            return self._ended.get(pid)

    def became_ready(self) -> None:
        """Begin to read what it reports."""
        self._thread = threading.Thread(target=self._read, name="craton-ranks", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while said := self.channel.recv(_MESSAGE):
                what, first, second = pickle.loads(said)
                with self._changed:
                    (self._started if what == "started" else self._ended)[first] = second
                    self._changed.notify_all()
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """End it and its ranks."""
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)
        self.wait()
        if self._thread is not None:
            self._thread.join(5)
        self.closed = True
        with self.lock:
            self.forget()


_servers: dict[tuple[Any, ...], RankServer] = {}
_lock = forks.lock()
_owner = 0


def server_for(threads: Mapping[str, str], more_path: Sequence[str] = ()) -> RankServer:
    """Return this process's server of ranks with these limits of threads; start it if there is none.

    Parameters
    ----------
    threads
        Environment variables that limit the threads of numeric libraries.
    more_path
        What is added to this process's module path.

    Notes
    -----
    Libraries read these variables when they are imported, so each combination has a server of its own.
    """
    global _owner
    own_path = module_path()
    path = [*own_path, *(entry for entry in more_path if entry not in own_path)]
    key = tuple(sorted(threads.items()))
    with _lock:
        if _owner != os.getpid():
            _servers.clear()
            _owner = os.getpid()
            atexit.register(close_servers)
        found = _servers.get(key)
        if found is not None and found.closed:
            found.close()
        if found is None or found.closed:
            found = _servers[key] = RankServer({**os.environ, **threads, "CRATON_CLUSTER": "embedded"}, path)
        return found


def close_servers() -> None:
    """End the servers of this process, and all ranks that were started from them."""
    with _lock:
        if _owner == os.getpid():
            for server in _servers.values():
                server.close()
            _servers.clear()
