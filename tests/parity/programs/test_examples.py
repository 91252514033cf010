"""The examples print the same under Craton as under pandas, and most of their calls are planned."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def printed(*arguments: str, small_rows: str) -> str:
    """The output of a Python process in which warnings are errors."""
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "CRATON_SMALL_ROWS": small_rows}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_found() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_the_same(example: Path) -> None:
    expected = printed(str(example), small_rows="0")
    assert len(expected.splitlines()) > 15
    assert printed("-m", "craton", str(example), small_rows="0") == expected
    assert printed("-m", "craton", str(example), small_rows="100000") == expected
