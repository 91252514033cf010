"""A thread that starts the processes of sub pools, passes on what they write, and keeps the last of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import selectors
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

_T = TypeVar("_T")

# Lines of a process that are kept, and bytes of one.
_LINES, _LINE = 40, 2000
# How often a pipe that never empties is read before whoever reads it goes on.
_ROUNDS = 64


class Log:
    """What a process writes to its standard error, from our end of the pipe."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._rest = b""

    def fileno(self) -> int:
        """Return the pipe's descriptor."""
        return self._pipe.fileno()

    def pass_on(self) -> bool | None:
        """Read what is there, and write it to this process's standard error.

        Returns
        -------
        bool or None
            Whether there was something; None at the end.
        """
        with self._lock:
            if self._pipe.closed:
                return None
            try:
                found = os.read(self._pipe.fileno(), 1 << 16)
            except BlockingIOError:
                return False
            *lines, self._rest = (self._rest + found).split(b"\n")
            self._rest = self._rest[-_LINE:]
            self._lines.extend(line[:_LINE] for line in lines if line.strip())
        whole = bool(found)
        # Not through Python's own buffer, which a thread must not hold when the interpreter ends.
        with contextlib.suppress(OSError):
            while found:
                found = found[os.write(2, found) :]
        return whole or None

    def drain(self) -> None:
        """Take in all that has been written until now."""
        for _ in range(_ROUNDS):
            if not self.pass_on():
                return

    @property
    def last(self) -> list[str]:
        """The last lines."""
        with self._lock:
            lines = [*self._lines, *([self._rest] if self._rest.strip() else [])]
        return [line.decode(errors="replace") for line in lines[-_LINES:]]

    def close(self) -> None:
        """Let go of the pipe."""
        with self._lock:
            self._pipe.close()


class Watcher:
    """The thread.

    It starts the processes because the system ends them with the *thread* that started them: this one lives as long as
    there are any. Ctrl-C is blocked in it, and so, until they are ready for it, in the processes that it starts.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._closing = False
        self._lock = threading.Lock()
        self._jobs: list[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = []
        self._thread = threading.Thread(target=self._run, name="craton-actor-log", daemon=True)
        self._thread.start()

    async def do(self, job: Callable[[], _T], undo: Callable[[_T], Any]) -> _T:
        """Do something in the thread; `undo` it if whoever waits is cancelled meanwhile."""
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        with self._lock:
            if self._closing:
                raise RuntimeError("the pool has been stopped")
            self._jobs.append((future, job))
            os.write(self._waker, b".")
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            future.add_done_callback(lambda done: None if done.exception() else undo(done.result()))
            raise

    def add(self, pipe: BinaryIO) -> Log:
        """Watch a pipe; called in the thread."""
        log = Log(pipe)
        self._selector.register(log, selectors.EVENT_READ, log)
        return log

    def close(self) -> None:
        """Pass on what is there, and end."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            os.write(self._waker, b".")
        self._thread.join(1)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._closing:
            self._go_round(None)
        for _ in range(_ROUNDS):
            if not self._go_round(0):
                break
        self._do_jobs()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data.close()
        self._selector.close()
        os.close(self._wake)
        os.close(self._waker)

    def _go_round(self, timeout: float | None) -> bool:
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._do_jobs()
            elif key.data.pass_on() is None:
                self._selector.unregister(key.fd)
                key.data.close()
        return bool(ready)

    def _do_jobs(self) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, []
        for future, job in jobs:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
