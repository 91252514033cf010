"""What the tests of sessions look at and wait for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether a process runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def environment(**more: str) -> dict[str, str]:
    """The environment of a driver that imports Craton and the modules beside this one."""
    path = os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent)])
    return {**os.environ, "PYTHONPATH": path, **more}


def driver(program: Path, *arguments: object, **more: str) -> subprocess.Popen[str]:
    """Start a driver in a process of its own, whose output is read; with more in its environment."""
    return subprocess.Popen(
        [sys.executable, str(program), *map(str, arguments)],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
