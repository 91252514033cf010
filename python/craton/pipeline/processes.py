"""Descriptors and children of a process that has one thread."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable

__all__ = ["children", "close_all_but", "kill", "reap"]


def close_all_but(kept: Iterable[int]) -> None:
    """Close all other descriptors of this process."""
    wanted = set(kept)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with contextlib.suppress(OSError):  # the one that lists them
                os.close(int(name))


def children() -> list[int]:
    """Return the children of this process, which has one thread."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(one) for one in file.read().split()]
    except OSError:  # the kernel does not offer it
        return [int(one) for one in os.listdir("/proc") if one.isdecimal() and _parent(one) == pid]


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def reap() -> list[int]:
    """Remove children that have ended from the system's table of processes, and return them."""
    reaped: list[int] = []
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            reaped.append(pid)
    return reaped


def kill(pids: Iterable[int]) -> None:
    """Kill processes; those that have ended are left out."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
