"""Starts rank servers, and ranks from them."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from craton import forks

__all__ = ["RankServer", "StartFailed", "server_for"]

_CODE = """
import json, sys
requests, path = sys.argv[1:]
sys.path[:] = json.loads(path)
sys.argv[:] = ["-c"]
from craton.spmd.server import main
main(int(requests))
"""
_MESSAGE = 1 << 12


class StartFailed(RuntimeError):
    """Ranks cannot be started; the text says why."""


class RankServer:
    """A process that ranks are forked from.

    Parameters
    ----------
    variables
        Its environment variables, and those that ranks begin with.
    path
        The module path.
    """

    def __init__(self, variables: Mapping[str, str], path: list[str]) -> None:
        self._lock, self._changed = threading.Lock(), threading.Condition()
        self._ready = False
        self._thread: threading.Thread | None = None
        self._numbers = 0
        self._started: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self.closed = False
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = os.memfd_create("craton-ranks", os.MFD_CLOEXEC)
        self._channel = here
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(there.fileno()), json.dumps(path)],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=dict(variables),
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        except BaseException:
            here.close()
            os.close(self._said)
            raise
        finally:
            there.close()

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
            with self._lock:
                self._wait()
                self._numbers += 1
                number = self._numbers
                socket.send_fds(self._channel, [pickle.dumps(("start", number, arguments))], fds)
                with self._changed:
                    self._changed.wait_for(lambda: number in self._started or self.closed)
                    if number not in self._started:
                        raise StartFailed(self.explanation())
                    return self._started.pop(number)
        except OSError as error:
            raise StartFailed(self.explanation()) from error

    def kill(self, pid: int) -> None:
        """Kill a rank, if it has not ended."""
        with self._lock, contextlib.suppress(OSError):
            if pid not in self._ended and not self.closed:
                socket.send_fds(self._channel, [pickle.dumps(("kill", pid))], [])

    def exit_code(self, pid: int, timeout: float) -> int | None:
        """Wait for the end of a rank; return its exit code, negative for a signal; None if it has not ended in time."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._ended or self.closed, timeout)
            return self._ended.get(pid)

    def _wait(self) -> None:
        """Wait until its modules are imported; then a thread reads what it reports."""
        if self._ready:
            return
        if self._channel.recv(1) != b"r":
            raise BrokenPipeError
        self._ready = True
        self._thread = threading.Thread(target=self._read, name="craton-ranks", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while said := self._channel.recv(_MESSAGE):
                what, first, second = pickle.loads(said)
                with self._changed:
                    (self._started if what == "started" else self._ended)[first] = second
                    self._changed.notify_all()
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def explanation(self) -> str:
        """Return a sentence for errors after it has ended, with what it wrote."""
        if self._said < 0:
            return "the process that ranks are started from has ended"
        said = os.pread(self._said, 1 << 16, max(os.fstat(self._said).st_size - (1 << 16), 0))
        text = said.decode(errors="replace").strip()
        return "the process that ranks are started from has ended" + (f":\n{text}" if text else "")

    def close(self) -> None:
        """End it and its ranks."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:  # it was stopped by a signal
            self._process.kill()
            self._process.wait()
        if self._thread is not None:
            self._thread.join(5)
        self.closed = True
        with self._lock:
            self._channel.close()
            if self._said >= 0:
                os.close(self._said)
                self._said = -1


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
    own_path = [os.path.abspath(entry) for entry in sys.path]
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
