"""Every Python block of the README runs as a separate program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCKS = [
    block
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    if not block.startswith("%")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the files that the README reads."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "orders").mkdir()
    days = pandas.to_datetime(["2024-01-03", "2024-01-09", "2024-02-01", "2024-02-20"])
    for month in (1, 2):
        pandas.DataFrame(
            {
                "region": ["north", "south", "north", "east"],
                "price": [10.0 * month, 20.5, 50.0, 64.0],
                "shipped": days,
                "promised": days[::-1],
            }
        ).to_parquet(folder / "orders" / f"{month}.parquet")
    return folder


def test_blocks_are_found() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(block: str, folder: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) == ("print(" in block)
