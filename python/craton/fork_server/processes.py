"""Descriptors, children and the end of a process that has one thread."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import NoReturn

__all__ = [
    "adopt_orphans",
    "children",
    "close_all_but",
    "end_children",
    "end_with_parent",
    "exit_now",
    "high",
    "is_stopped",
    "kill",
    "reap",
]

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
_C = ctypes.CDLL(None, use_errno=True)


def close_all_but(kept: Iterable[int]) -> None:
    """Close all other descriptors of this process."""
    wanted = set(kept)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with contextlib.suppress(OSError):  # the one that lists them
                os.close(int(name))


def high(fd: int) -> int:
    """Give a descriptor a high number, and return it: a function that closes descriptors uses low ones."""
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 400)
    except OSError:  # above the limit of this process
        return fd
    os.close(fd)
    return moved


def adopt_orphans() -> None:
    """Make this process the parent of those of its descendants whose parents end (it becomes a subreaper)."""
    _C.prctl(_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Have the system kill this process when its parent ends."""
    _C.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def children() -> list[int]:
    """Return the children of this process, which has one thread."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(one) for one in file.read().split()]
    except OSError:  # the kernel does not offer it
        return [int(one) for one in os.listdir("/proc") if one.isdecimal() and _parent(one) == pid]


def _parent(pid: str) -> int | None:
    status = _status(pid)
    return int(status[1]) if status else None


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal; one that a debugger holds was not."""
    status = _status(pid)
    return bool(status) and status[0] == "T"


def _status(pid: int | str) -> list[str]:
    """Return what the system says of a process, from its state on; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def reap() -> list[tuple[int, int]]:
    """Remove children that have ended from the system's table of processes; return their numbers and what ``waitpid`` said."""
    reaped: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            reaped.append(ended)
    return reaped


def kill(pids: Iterable[int]) -> None:
    """Kill processes; those that have ended are left out."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def end_children(but: int = 0, pause: float = 0.001) -> None:
    """Kill all children except the process `but`, and all that they leave behind, which this process adopts; wait at most 5 s.

    Parameters
    ----------
    pause
        Seconds between two looks.
    """
    until = time.monotonic() + 5
    while (left := [one for one in children() if one != but]) and time.monotonic() < until:
        kill(left)
        for one in left:
            with contextlib.suppress(OSError):
                os.waitpid(one, os.WNOHANG)
        time.sleep(pause)


def exit_now(status: int) -> NoReturn:
    """End this process without the exit handlers, which belong to the process that it was forked from."""
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    os._exit(status)
