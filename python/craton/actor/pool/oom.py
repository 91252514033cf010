"""Detects from the kernel's counters whether the OOM killer ended a process."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/vmstat")

_explained: Counter[Path] = Counter()
"""The number of OOM kills that were already attributed to the end of a process, by the counter's file."""


class OomKills:
    """Compares the OOM-kill counter of one process's control group with its value when the process started.

    Without a readable counter of the control group, the machine's counter is used, which shows only that some process
    was killed. Each kill is attributed to the end of one process only. The control group is looked up in the constructor,
    because the process has been reaped by the time `since` is called.

    Parameters
    ----------
    pid : int
        A running process.
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
        """Return the explanation for an error message; empty if the counter has not changed. The first result is kept."""
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
            ", probably because memory ran out (OOM kill): since it started, the system has killed "
            f"{killed} process{'es' * (killed > 1)} to free memory"
        )


def _counter_of(pid: int) -> Path | None:
    """Return the file with the OOM-kill counter of the process's control group (v1 or v2), if it can be read."""
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
