"""Whether the system has killed a process for want of memory, from the counters that it keeps of that."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/vmstat")

_explained: Counter[Path] = Counter()
"""Kills that were told as the reason of an end, by the counter that they were read from."""


class OomKills:
    """The counters that concern one process, as they were when it started.

    A control group's counter is about the few processes in it; where there is none, the machine's is read, which tells
    only that some process was killed. One kill explains one end only: what was told of a process's end is not told of
    another's. The process is already reaped when `since` is asked, so its group is looked up first.

    Parameters
    ----------
    pid : int
        The process, which runs.
    """

    def __init__(self, pid: int) -> None:
        self._group = _counter_of(pid)
        self._counter = self._group or _MACHINE
        self._before = self._unexplained()
        self._said: str | None = None

    def _unexplained(self) -> int | None:
        counted = _value(self._counter, "oom_kill")
        return None if counted is None else counted - _explained[self._counter]

    def since(self) -> str:
        """Say for people what the counter says since then, always the same; nothing if it has not moved."""
        if self._said is None:
            now = self._unexplained()
            killed = 0 if now is None or self._before is None else now - self._before
            self._said = self._explanation(killed) if killed > 0 else ""
        return self._said

    def _explanation(self, killed: int) -> str:
        _explained[self._counter] += 1
        if self._group is not None:
            return ", because its control group's memory ran out (OOM kill)"
        return (
            ", probably because memory ran out (OOM kill): since it started the system has killed "
            f"{killed} process{'es' * (killed > 1)} for that"
        )


def _counter_of(pid: int) -> Path | None:
    """Return the file with the counter of the process's control group, if there is one that can be read."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                candidates = [_ROOT / "memory" / path.lstrip("/") / "memory.oom_control"]
            elif not controllers:
                candidates = [_ROOT / path.lstrip("/") / "memory.events"]
            else:
                continue
            for candidate in candidates:
                if _value(candidate, "oom_kill") is not None:
                    return candidate
    return None


def _value(path: Path, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            found, _, value = line.partition(" ")
            if found == name:
                return int(value)
    return None
