"""Whether the system has killed a process for want of memory, from the counters that it keeps of that."""

from __future__ import annotations

import contextlib
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


class OomKills:
    """The counters that concern one process, as they were when it started.

    A control group's counter is about the process itself; where there is none, the machine's is read, which tells only
    that some process was killed. The process is already reaped when `since` is asked, so its group is looked up first.

    Parameters
    ----------
    pid : int
        The process, which runs.
    """

    def __init__(self, pid: int) -> None:
        self._group = _counter_of(pid)
        self._before = self._read()

    def _read(self) -> tuple[int | None, int | None]:
        return (
            None if self._group is None else _value(self._group, "oom_kill"),
            _value(Path("/proc/vmstat"), "oom_kill"),
        )

    def since(self) -> str:
        """Say for people what the counters say since then; nothing if they have not moved."""
        (group, machine), (group_now, machine_now) = self._before, self._read()
        if group is not None and group_now is not None:
            return ", because its control group's memory ran out (OOM kill)" if group_now > group else ""
        if machine is not None and machine_now is not None and machine_now > machine:
            killed = machine_now - machine
            return (
                ", probably because memory ran out (OOM kill): since it started the system has killed "
                f"{killed} process{'es' * (killed > 1)} for that"
            )
        return ""


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
