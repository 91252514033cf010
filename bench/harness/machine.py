"""The description of the machine for the results, and warming up its memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

__all__ = ["available_memory", "describe", "warm_memory"]

TOUCH = "import sys; held = bytearray(int(sys.argv[1])); held[::4096] = b'x' * len(range(0, len(held), 4096))"


def describe() -> dict[str, Any]:
    """Return the processor, its cores, the memory, the system, and how busy it all was."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count() or os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


def available_memory() -> int:
    """Return the bytes that programs can have without swapping."""
    return int(psutil.virtual_memory().available)


def warm_memory(size: int) -> None:
    """Touch so many bytes in a process that then ends.

    A fresh virtual machine is slow to provide memory for the first time, which would be a disadvantage for the first contestant.
    Less is touched where less is free.
    """
    size = min(size, available_memory() // 2)
    if size > 0:
        subprocess.run([sys.executable, "-c", TOUCH, str(size)], check=True)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
