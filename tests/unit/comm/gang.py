"""Processes that are ranks of communicators, for tests: they live on, and run the programs that tests send them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import cloudpickle

#: Seconds after which a program is taken to hang.
DEADLINE = 60.0
_RANK = Path(__file__).with_name("rank.py")


class Hangs(AssertionError):
    """A rank has not answered."""


class Gang:
    """Processes, and the connections to them.

    Parameters
    ----------
    size : int
        The number of processes.
    launcher : str
        ``plain``, or ``mpi`` for processes that mpiexec starts.
    """

    def __init__(self, size: int, launcher: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="craton-gang-")
        path = os.path.join(self._folder.name, "gang")
        self._next = 0
        root = Path(__file__).resolve().parents[3]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root / "python"), os.environ.get("PYTHONPATH", "")]),
        }
        environment.pop("PYTEST_CURRENT_TEST", None)
        with Listener(path, "AF_UNIX", backlog=size) as listener:
            command = [sys.executable, str(_RANK), path]
            if launcher == "mpi":
                from craton.comm.mpi import launch_command

                self._processes = [
                    subprocess.Popen(launch_command(command, size), env=environment, stdout=subprocess.DEVNULL)
                ]
            else:
                self._processes = [subprocess.Popen([*command, str(number)], env=environment) for number in range(size)]
            found: dict[int, tuple[Connection, int]] = {}
            for _ in range(size):
                connection = listener.accept()
                number, pid = connection.recv()
                found[number] = connection, pid
        self.connections = [found[number][0] for number in range(size)]
        self.pids = [found[number][1] for number in range(size)]

    def is_whole(self) -> bool:
        """Whether all processes run."""
        return all(process.poll() is None for process in self._processes)

    def ranks(self, name: str, size: int) -> Ranks:
        """Make a communicator of the first processes."""
        self._next += 1
        made = Ranks(self, self._next, size)
        addresses = made.request("bind", name)
        key = secrets.token_bytes(32)
        made.request("connect", name, addresses, key)
        return made

    def kill(self, number: int, kind: int = signal.SIGKILL) -> None:
        """Send a signal to a process."""
        os.kill(self.pids[number], kind)

    def end(self) -> None:
        """End all processes."""
        for connection in self.connections:
            connection.close()
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()


class Ranks:
    """The ranks of one communicator."""

    def __init__(self, gang: Gang, number: int, size: int) -> None:
        self.gang, self.number, self.size = gang, number, size

    def start(self, program: Callable[..., Any], *arguments: Any, only: list[int] | None = None) -> None:
        """Start a program, a function of the communicator and of arguments, on all ranks or only on some."""
        pickled = cloudpickle.dumps((program, arguments))
        for rank in range(self.size) if only is None else only:
            self.gang.connections[rank].send(("run", self.number, rank, pickled))

    def results(self, only: list[int] | None = None) -> list[Any]:
        """Return what the ranks return; an exception that a rank has raised is returned."""
        found = []
        for rank in range(self.size) if only is None else only:
            if not self.gang.connections[rank].poll(DEADLINE):
                for number in range(len(self.gang.pids)):
                    self.gang.kill(number)
                raise Hangs(f"rank {rank} has not answered for {DEADLINE} s")
            found.append(cloudpickle.loads(self.gang.connections[rank].recv()))
        return found

    def run(self, program: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run a program on all ranks; return what they return."""
        self.start(program, *arguments)
        found = self.results()
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found

    def errors(self, program: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run a program; return what the ranks return or raise."""
        self.start(program, *arguments)
        return self.results()

    def request(self, what: str, *arguments: Any) -> list[Any]:
        for rank in range(self.size):
            self.gang.connections[rank].send((what, self.number, rank, cloudpickle.dumps(arguments)))
        found = self.results()
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found

    def close(self) -> None:
        """Close the communicator on all ranks."""
        if self.gang.is_whole():
            self.request("close")
