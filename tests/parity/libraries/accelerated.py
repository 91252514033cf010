"""Runs programs that pass frames to other libraries, under pandas and accelerated, and compares what they print.

Each program starts with ``import pandas as pd``. It runs under Python and under ``python -m craton`` with the small-data path off.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import craton.pandas

PYTHON = Path(craton.pandas.__file__).parents[2]

RULE = "-" * 20

DATA = """
import numpy as np
import pandas as pd
rng = np.random.default_rng(7)
frame = pd.DataFrame({
    "width": rng.normal(2.0, 0.5, 120),
    "height": rng.normal(5.0, 1.0, 120),
    "colour": rng.choice(["red", "green", "blue"], 120),
    "grade": pd.Categorical(rng.choice(["low", "high"], 120), categories=["low", "high"], ordered=True),
    "day": pd.date_range("2024-01-01", periods=120, freq="D"),
    "count": rng.integers(0, 9, 120),
})
frame["big"] = (frame["width"] * frame["height"] + frame["count"] > 14).astype("int64")
frame = frame[frame["width"] > 1.2]
"""


def output(program: str, folder: Path, *, accelerated: bool) -> str:
    path = folder / "program.py"
    path.write_text(program)
    environment = os.environ | {"PYTHONPATH": str(PYTHON), "CRATON_SMALL_ROWS": "0", "MPLCONFIGDIR": str(folder)}
    command = [sys.executable, *(("-m", "craton") if accelerated else ()), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(programs: dict[str, str], preparation: str, folder: Path, after: str = "") -> None:
    """Run all programs in one process with pandas and in one with Craton, and compare the output of each program."""
    text = preparation
    for name, program in programs.items():
        text += f"print({f'{RULE}{name}'!r})\n{textwrap.dedent(program)}{after}\n"
    expected = output(text, folder, accelerated=False).split(RULE)
    got = output(text + "assert pd.__name__ == 'craton.pandas'\n", folder, accelerated=True).split(RULE)
    assert len(expected) == len(programs) + 1
    difference = difflib.unified_diff(
        "".join(expected).splitlines(), "".join(got).splitlines(), "pandas", "Craton", lineterm=""
    )
    assert got == expected, "\n".join(difference)
