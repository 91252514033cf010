"""A thread that starts the processes of sub pools, forwards their standard error, and keeps its last lines."""

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

# Lines kept of each process's standard error, and the most bytes kept of a line.
_LINES, _LINE = 40, 2000
# How many reads are done at most to empty a pipe that its process may keep filling.
_MAX_READS = 64


class StderrPipe:
    """The reading end of a process's standard error."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._rest = b""

    def fileno(self) -> int:
        """Return the pipe's descriptor."""
        return self._pipe.fileno()

    def forward(self) -> bool | None:
        """Read from the pipe once, and write the bytes to this process's standard error.

        Returns
        -------
        bool or None
            Whether bytes were read; None at the end of the pipe.
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
        # Bypasses `sys.stderr`: if the interpreter exits while this thread holds the lock of its buffer, it aborts.
        with contextlib.suppress(OSError):
            while found:
                found = found[os.write(2, found) :]
        return whole or None

    def drain(self) -> None:
        """Read everything that has been written so far."""
        for _ in range(_MAX_READS):
            if not self.forward():
                return

    @property
    def last(self) -> list[str]:
        """The last lines that the process wrote."""
        with self._lock:
            lines = [*self._lines, *([self._rest] if self._rest.strip() else [])]
        return [line.decode(errors="replace") for line in lines[-_LINES:]]

    def close(self) -> None:
        with self._lock:
            self._pipe.close()


class ProcessThread:
    """The thread, which starts processes and reads their standard error.

    Processes must be started by a long-lived thread, because Linux's parent-death signal is sent when the *thread* that
    started the process ends. The thread blocks SIGINT (Ctrl-C), and the processes inherit that until they unblock it.
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
        """Run a function in the thread. If the caller is cancelled meanwhile, pass the result to `undo`."""
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

    def add(self, pipe: BinaryIO) -> StderrPipe:
        """Start reading a pipe; called in the thread."""
        log = StderrPipe(pipe)
        self._selector.register(log, selectors.EVENT_READ, log)
        return log

    def close(self) -> None:
        """Forward the remaining output, and end the thread."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            os.write(self._waker, b".")
        self._thread.join(1)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._closing:
            self._poll(None)
        for _ in range(_MAX_READS):
            if not self._poll(0):
                break
        self._do_jobs()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data.close()
        self._selector.close()
        os.close(self._wake)
        os.close(self._waker)

    def _poll(self, timeout: float | None) -> bool:
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._do_jobs()
            elif key.data.forward() is None:
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
