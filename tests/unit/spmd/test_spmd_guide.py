"""Every example of docs/spmd.md runs, in order, and prints what the page says; so does the program in examples/spmd."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import guides


def test_the_guide(tmp_path: Path) -> None:
    guides.check("spmd.md", guides.environment(tmp_path), tmp_path)


def test_the_example(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            str(guides.ROOT / "examples" / "spmd" / "auxiliary_data.py"),
            "--rows",
            "20000",
        ],
        env=guides.environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "equal to one process: True" in done.stdout
