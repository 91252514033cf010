"""Runs a notebook cell by cell, under pandas or under Craton.

The notebooks of ``examples/notebooks`` are Python files in the percent format: a line ``# %% Title`` begins a cell. They read files
from the working folder and write others there.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "NOTEBOOKS", "Cell", "Outcome", "cells", "run"]

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = tuple(sorted(path.stem for path in FOLDER.glob("*.py")))


@dataclass(frozen=True)
class Cell:
    """A part of a notebook.

    Attributes
    ----------
    title : str
        The text of its first line.
    source : str
        Its code, with as many empty lines before it as there are lines before it in the file, so that errors name the right line.
    """

    title: str
    source: str


@dataclass
class Outcome:
    """What a run of a notebook has done.

    Attributes
    ----------
    printed : dict
        The text that each cell has printed, by its title.
    seconds : dict
        The seconds that each cell has taken, by its title.
    names : dict
        The variables at the end.
    """

    printed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)


def cells(name: str) -> list[Cell]:
    """Return the cells of a notebook."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    starts = list(re.finditer(r"^# %% (.+)$", text, flags=re.MULTILINE))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return [
        Cell(start.group(1), "\n" * text.count("\n", 0, start.start()) + text[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    ]


def run(name: str, module: str, folder: Path) -> Outcome:
    """Run a notebook in a folder.

    Parameters
    ----------
    name : str
        The notebook.
    module : str
        The module that it imports as ``pd``.
    folder : path
        The folder of the files that it reads and writes.
    """
    outcome = Outcome()
    path = str(FOLDER / f"{name}.py")
    outcome.names["__name__"] = "__main__"
    with contextlib.chdir(folder):
        for cell in cells(name):
            source = cell.source.replace("import pandas as pd", f"import {module} as pd")
            code = compile(source, path, "exec")
            said = io.StringIO()
            began = time.perf_counter()
            with contextlib.redirect_stdout(said):
                exec(code, outcome.names)
            outcome.seconds[cell.title] = time.perf_counter() - began
            outcome.printed[cell.title] = said.getvalue()
    return outcome
