"""Memory control groups of the system, in which a program has a limit and no swap."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Limited", "run_limited"]

GROUPS = Path("/sys/fs/cgroup/memory")


@dataclass(frozen=True)
class Limited:
    """How a program ended: whether with exit status 0, what it printed, and the most memory of all its processes, in bytes."""

    completed: bool
    printed: str
    peak: int | None


def run_limited(command: Sequence[str], limit: float, timeout: float = 600) -> Limited:
    """Run a program in a memory control group; without one if the limit is 0.

    Parameters
    ----------
    command
        The program and its arguments.
    limit
        Gigabytes for all its processes.
    timeout
        Seconds, after which it is ended.

    Raises
    ------
    OSError
        If this process may not make groups.
    """
    group = GROUPS / f"craton-bench-{os.getpid()}"
    if limit:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(int(limit * 1e9)))

    def enter() -> None:
        if limit:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    try:
        with subprocess.Popen(command, preexec_fn=enter, stdout=subprocess.PIPE, text=True) as process:
            try:
                printed, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                printed, _ = process.communicate()
        peak = int((group / "memory.max_usage_in_bytes").read_text()) if limit else None
        return Limited(process.returncode == 0, printed, peak)
    finally:
        if limit:
            _remove(group)


def _remove(group: Path) -> None:
    for _ in range(100):
        for pid in (group / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                continue
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)
