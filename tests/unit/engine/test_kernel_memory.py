"""How long freed memory is kept: with ample memory, the arrays of a frame that is dropped serve the next frame."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Makes arrays of 8 MB, 160 MB in all, and drops them, five times; prints how often the system had to give memory the last time.
PROGRAM = """
import resource, sys
import numpy as np
import craton.pandas as pd
from craton.kernel import memory
def frame():
    return [np.full(1_000_000, 1.0) for _ in range(20)]
for _ in range(4):
    frame()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
frame()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**variables: str) -> int:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "_RJEM", "CRATON_"))}
    environment = given | {"PYTHONPATH": str(ROOT / "python")} | variables
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize(
    ("variables", "kept"),
    [
        ({"CRATON_MEMORY_LIMIT": str(8 << 30)}, True),
        ({"CRATON_MEMORY_LIMIT": str(2 << 30)}, False),
        ({"CRATON_MEMORY_LIMIT": str(8 << 30), "MALLOC_MMAP_THRESHOLD_": "1048576"}, False),
        ({"CRATON_MEMORY_LIMIT": str(8 << 30), "_RJEM_MALLOC_CONF": ""}, False),
    ],
    ids=["ample", "little", "configured", "the kernel's is configured"],
)
def test_freed_memory_is_kept_if_there_is_plenty(variables: dict[str, str], kept: bool) -> None:
    assert (faults(**variables) < 100) == kept
