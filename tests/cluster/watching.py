"""Conditions that the tests of sessions wait for, and processes that they watch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"the condition did not hold within {seconds} s"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Return whether a process is running."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a driver process that imports Craton and the modules of this folder."""
    path = os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent)])
    return {**os.environ, "PYTHONPATH": path, **more}


def driver(program: Path, *arguments: object, **more: str) -> subprocess.Popen[str]:
    """Start a driver process whose output is read, with additional environment variables."""
    return subprocess.Popen(
        [sys.executable, str(program), *map(str, arguments)],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
