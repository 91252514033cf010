"""Actors and helpers that the tests of actors share."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import craton.actor as xo

#: Timeout of `until`, in seconds.
DEADLINE = 20.0


class Worker(xo.Actor):
    """An actor whose methods count, sleep, fail, block or end its process."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value
        self.log: list[Any] = []

    def add(self, n: int) -> int:
        self.value += n
        return self.value

    def echo(self, value: Any) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def env(self, name: str) -> str | None:
        return os.environ.get(name)

    def loaded(self, name: str) -> bool:
        return name in sys.modules

    def executable(self) -> str:
        return sys.executable

    @xo.no_lock
    async def sleep(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "slept"

    def block(self, seconds: float) -> None:
        time.sleep(seconds)

    def busy_in_c(self) -> int:
        return sum(range(1 << 60))  # one call that never releases the GIL

    def exit(self, code: int, words: str = "") -> None:
        sys.stderr.write(words)
        sys.stderr.flush()
        os._exit(code)

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(os.getpid(), number)

    @xo.no_lock
    async def ask(self, ref: Any, method: str, *args: Any) -> Any:
        return await getattr(ref, method)(*args)

    async def fork(self) -> int:
        import multiprocessing

        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
        process.start()
        return process.pid or 0

    def eat(self, count: int) -> int:
        return len(bytearray(b"x") * count)


async def until(condition: Callable[[], Any], what: str = "", seconds: float = DEADLINE) -> Any:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        await asyncio.sleep(0.005)


def runs(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def free_port(family: int = socket.AF_INET) -> int:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return int(sock.getsockname()[1])


def descriptors() -> int:
    """Return the number of open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def program(text: str, **options: Any) -> subprocess.Popen[str]:
    """Start a program that creates pools; it can import this module as `actors`."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[2] / "python")])
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        **options,
    )


def of(index: int) -> Any:
    """Return a strategy that places an actor in the pool of a process index."""
    return xo.allocate_strategy.ProcessIndex(index)
