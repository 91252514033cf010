"""Waits for conditions, finds processes, and names the communicator of the tests' executors."""

from __future__ import annotations

import time
from collections.abc import Callable

from craton.spmd import starting

COMMUNICATOR = "own"


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Return when a condition holds; fail if it does not hold in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition did not hold in time"
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def none_runs(pids: list[int]) -> bool:
    """Whether none of the processes runs."""
    return not any(runs(pid) for pid in pids)


def ranks_of_servers() -> list[int]:
    """The processes that this process's servers of ranks have forked, and what these have left behind."""
    return [pid for server in starting._servers.values() for pid in children_of(server._process.pid)]


def children_of(pid: int) -> list[int]:
    """The children of a process that has one thread; none if it has ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(one) for one in file.read().split()]
    except OSError:
        return []
