"""Every example of docs/spmd.md runs, in order, and prints what the page says; so do the programs in examples/spmd."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import guides
import pytest


def test_the_guide(tmp_path: Path) -> None:
    guides.check("spmd.md", guides.environment(tmp_path), tmp_path)


def run(tmp_path: Path, name: str, *arguments: str) -> str:
    program = str(guides.ROOT / "examples" / "spmd" / name)
    done = subprocess.run(
        [sys.executable, "-W", "error", program, *arguments],
        env=guides.environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_auxiliary_data(tmp_path: Path) -> None:
    assert "equal to one process: True" in run(tmp_path, "auxiliary_data.py", "--rows", "20000")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
def test_training(tmp_path: Path) -> None:
    shown = run(tmp_path, "torch_training.py", "--rows", "60000", "--ranks", "3", "--epochs", "4")
    losses = [float(loss) for loss in re.findall(r"^losses: (.*)$", shown, re.MULTILINE)[0].split()]
    assert len(losses) == 4
    assert losses[-1] < 0.02 < losses[0]  # the variance of the noise is 0.01
    assert "the same model on all ranks: True" in shown
