"""The processes of sub pools: how they are started, how they end, and what they say last."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, BinaryIO

# Lines of a process that are kept, and bytes of one.
_LINES, _LINE = 20, 2000


class Watcher:
    """A thread that passes on what processes write to their standard error, and keeps the last of it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="craton-actor-log", daemon=True)
        self._closing = False
        self._lock = threading.Lock()
        self._new: list[tuple[BinaryIO, deque[bytes]]] = []
        self._thread.start()

    def add(self, pipe: BinaryIO) -> deque[bytes]:
        """Watch a pipe; return where its last lines come to be."""
        lines: deque[bytes] = deque(maxlen=_LINES)
        with self._lock:
            self._new.append((pipe, lines))
        os.write(self._waker, b".")
        return lines

    def close(self) -> None:
        """Pass on what is there, and end."""
        self._closing = True
        os.write(self._waker, b".")
        self._thread.join(1)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select(0 if self._closing else None):
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    with self._lock:
                        new, self._new = self._new, []
                    for pipe, lines in new:
                        self._selector.register(pipe, selectors.EVENT_READ, lines)
                else:
                    self._pass_on(key.fileobj, key.data)
            if self._closing:
                self._selector.close()
                os.close(self._wake)
                os.close(self._waker)
                return

    def _pass_on(self, pipe: Any, lines: deque[bytes]) -> None:
        found = os.read(pipe.fileno(), 65536)
        if not found:
            self._selector.unregister(pipe)
            pipe.close()
            return
        with contextlib.suppress(OSError, ValueError):
            sys.__stderr__.buffer.write(found)  # type: ignore[union-attr]
            sys.__stderr__.flush()  # type: ignore[union-attr]
        lines.extend(line[:_LINE] for line in found.splitlines() if line.strip())


class Process:
    """A sub pool's process.

    Attributes
    ----------
    address : str
        Where its pool is, once `ready` has returned.
    """

    def __init__(self, given: dict[str, Any], python: str | None, env: dict[str, str] | None, watcher: Watcher) -> None:
        reading, writing = os.pipe()
        given = {**given, "report": writing, "parent": os.getpid(), "path": _path()}
        environment = {**os.environ, **{name: str(value) for name, value in (env or {}).items()}}
        try:
            self._popen = subprocess.Popen(
                [python or sys.executable, "-m", "craton.actor.pool.sub"],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writing,),
                env={**environment, "PYTHONPATH": os.pathsep.join(_home(environment))},
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._report = os.fdopen(reading, "rb")
        self.address = ""
        self._owner = os.getpid()
        self.oom_before = _oom_kills()
        assert self._popen.stdin is not None
        assert self._popen.stderr is not None
        self._lines = watcher.add(self._popen.stderr)  # type: ignore[arg-type]
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(pickle.dumps(given, 5))
            self._popen.stdin.flush()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._popen.poll()

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._popen.poll() is None

    async def ready(self) -> str:
        """Wait until its pool serves; return its address.

        Raises
        ------
        OSError
            It cannot listen there.
        RuntimeError
            It ended before it did.
        """
        text = await asyncio.get_running_loop().run_in_executor(None, self._report.read)
        self._report.close()
        told = pickle.loads(text) if text else ("failed", "", None)
        if told[0] == "ready":
            self.address = told[1]
            return self.address
        await self.wait()
        if told[2] is not None:
            raise OSError(told[2], told[1])
        raise RuntimeError(f"a sub pool could not be started: {told[1] or self.how_it_ended()}")

    def kill(self) -> None:
        """End it at once."""
        self._popen.kill()

    def terminate(self) -> None:
        """Ask it to end."""
        self._popen.terminate()

    async def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return how it ended.

        Raises
        ------
        TimeoutError
            It has not ended in time.
        """
        if self._popen.poll() is None:
            await asyncio.wait_for(self._exited(), timeout)
        return self._popen.wait()

    async def _exited(self) -> None:
        loop = asyncio.get_running_loop()
        if hasattr(os, "pidfd_open"):
            try:
                descriptor = os.pidfd_open(self.pid)
            except ProcessLookupError:
                return
            event = loop.create_future()
            loop.add_reader(descriptor, lambda: None if event.done() else event.set_result(None))
            try:
                await event
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
            return
        while self._popen.poll() is None:
            await asyncio.sleep(0.05)

    def how_it_ended(self) -> str:
        """Say it for people: exit code or signal, and its last lines."""
        code = self._popen.poll()
        if code is None:
            how = "is running"
        elif code >= 0:
            how = f"exited with code {code}"
        else:
            how = f"was killed by {_signal_name(-code)}"
            if code == -signal.SIGKILL and _oom_kills() > self.oom_before:
                how += ", as it seems because memory ran out: the system has killed processes for that"
        last = [line.decode(errors="replace") for line in list(self._lines)]
        return how + (":\n  " + "\n  ".join(last) if last else "")

    def close(self) -> None:
        """Let go of the pipes: the process ends if it has not."""
        with contextlib.suppress(OSError):
            self._popen.stdin.close()  # type: ignore[union-attr]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _oom_kills() -> int:
    """Return how many processes the system has killed for want of memory, in this control group or at all."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def _path() -> list[str]:
    return [entry or os.getcwd() for entry in sys.path]


def _home(environment: dict[str, str]) -> list[str]:
    # The package itself must be found before the path is known; another interpreter brings its own dependencies.
    home = str(Path(__file__).parents[3])
    given = environment.get("PYTHONPATH")
    return [home, *([given] if given else [])]
