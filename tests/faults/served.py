"""Starts child processes, kills them at random moments, and lists what they leave behind."""

from __future__ import annotations

import functools
import multiprocessing
import multiprocessing.context
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import children


@functools.cache
def _context() -> multiprocessing.context.ForkServerContext:
    """Return a context whose children are forked, within milliseconds, from a process that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["children"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _environment()["PYTHONPATH"]  # the fork server does not inherit sys.path
    try:
        forkserver.ensure_running()
    finally:
        os.environ["PYTHONPATH"] = before or ""
    return context


#: Seconds that an expected event may take on a busy machine.
PATIENCE = 60.0


def wait_until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> None:
    """Wait until a condition holds; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} s: {what}"
        time.sleep(0.002)


class Child:
    """A process that runs a function of :mod:`children`, and the messages that it has sent."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.connection, other = _context().Pipe()
        self.process = _context().Process(target=work, args=(other, *arguments), daemon=True)
        self.process.start()
        other.close()
        self.messages: list[tuple[Any, ...]] = []

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def receive(self, patience: float | None) -> tuple[Any, ...] | None:
        """Return its next message, or None if none comes within `patience` seconds or it has ended."""
        try:
            if not self.connection.poll(patience):
                return None
            said = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return None
        self.messages.append(said)
        return said

    def expect(self, what: str) -> tuple[Any, ...]:
        """Wait for a message of this kind."""
        while True:
            said = self.receive(PATIENCE)
            assert said is not None, f"the child never sent {what!r}; its last messages: {self.messages[-3:]}"
            if said[0] == what:
                return said

    def run_to(self, chance: random.Random, steps: int) -> None:
        """Wait until a uniformly random moment of its `steps` steps, including before the first and after the last."""
        self.expect("started")
        begun = time.monotonic()
        for _ in range(chance.randrange(-1, steps)):
            self.expect("step")
        done = sum(said[0] == "step" for said in self.messages)
        step = (time.monotonic() - begun) / done if done else 0.005
        deadline = time.monotonic() + chance.uniform(0, 2 * step)
        while (left := deadline - time.monotonic()) > 0 and self.process.is_alive():
            self.receive(left)

    def kill(self) -> None:
        """Kill it with SIGKILL, and read its last messages."""
        self.process.kill()
        self.process.join(PATIENCE)
        while self.receive(0) is not None:
            pass
        self.connection.close()

    def end(self) -> None:
        """Ask it to end, and read its last messages."""
        self.connection.send("end")
        while self.receive(PATIENCE) is not None:
            pass
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0, self.messages[-3:]
        self.connection.close()

    def all(self, what: str) -> list[tuple[Any, ...]]:
        return [said for said in self.messages if said[0] == what]


@contextmanager
def server(address: Path | str, directory: Path, limit: int) -> Iterator[Child]:
    """Run a process that serves a store; end it properly, unless it was killed."""
    child = Child(children.serve, str(address), str(directory), limit)
    try:
        child.expect("serving")
        yield child
    finally:
        if child.process.is_alive():
            child.end()


@contextmanager
def command(address: Path, directory: Path, limit: int) -> Iterator[subprocess.Popen[str]]:
    """Run ``craton store serve``, as :func:`server`."""
    line = [sys.executable, "-m", "craton", "store", "serve", "--address", str(address)]
    line += ["--memory-limit", str(limit), "--directory", str(directory)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=_environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(address)
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


# ---- resources of processes ----


def segments(pid: int | str = "self") -> set[int]:
    """Return the inodes of the shared memory that a process has open or mapped."""
    found = set()
    for name in _listed(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        try:
            if os.readlink(path).startswith("/memfd:craton"):
                found.add(os.stat(path).st_ino)
        except OSError:
            continue
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return found
    return found | {int(line.split()[4]) for line in lines if "/memfd:craton" in line}


def holders(inodes: set[int]) -> list[str]:
    """Return the processes that have one of these segments open or mapped."""
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and segments(pid) & inodes]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def resources() -> dict[str, int]:
    """Count the descriptors, mappings and threads of this process."""
    maps = Path("/proc/self/maps").read_text()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "segments mapped": maps.count("/memfd:craton"),
        "mappings": maps.count("\n"),
        "threads": len(os.listdir("/proc/self/task")),
    }


def files_below(folder: Path) -> list[str]:
    """List everything in a folder: files, folders, sockets. Other processes may remove some of it meanwhile."""
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, folders, files in os.walk(folder)  # skips a folder that has just been removed
        for name in (*folders, *files)
    )
