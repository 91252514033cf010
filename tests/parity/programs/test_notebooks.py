"""The notebooks of ``examples/notebooks`` print, compute and write the same under Craton as under pandas."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import same

import craton
from bench.notebooks.cells import NOTEBOOKS, Outcome, cells, run
from bench.notebooks.data import GENERATORS, make

COMPARED = (pd.DataFrame, pd.Series, pd.Index, np.ndarray, bool, float, int, str, list, tuple)


@pytest.fixture(scope="module")
def under_pandas(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], tuple[Path, Path, Outcome]]:
    """For notebooks and numbers of rows: the folder of generated files, that of pandas' run, and its outcome."""
    return {}


def prepared(known: dict[Any, Any], name: str, rows: int, folder: Path) -> tuple[Path, Path, Outcome]:
    if (name, rows) not in known:
        data = make(name, rows, folder / "data")
        shutil.copytree(data, folder / "pandas")
        known[name, rows] = data, folder / "pandas", run(name, "pandas", folder / "pandas")
    return known[name, rows]


def same_file(got: Path, expected: Path) -> None:
    """Compare files: their bytes or, if sums of floats may differ in their last digits, the tables that pandas reads."""
    if got.read_bytes() == expected.read_bytes():
        return
    read = pd.read_parquet if got.suffix == ".parquet" else pd.read_csv
    same(read(got), read(expected))


@pytest.mark.parametrize("rows", [700, 4000])
@pytest.mark.parametrize("small_rows", [0, 1000])
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_equals_pandas(name: str, small_rows: int, rows: int, under_pandas: Any, tmp_path: Path) -> None:
    data, written, expected = prepared(under_pandas, name, rows, tmp_path)
    folder = shutil.copytree(data, tmp_path / "craton")
    with craton.option_context(small_rows=small_rows):
        got = run(name, "craton.pandas", folder)
        assert got.printed == expected.printed
        for variable, value in expected.names.items():
            if isinstance(value, COMPARED) and not variable.startswith("__"):
                same(got.names[variable], value, rtol=1e-9)  # a variance of means multiplies their last digits
    for path in written.iterdir():
        same_file(folder / path.name, path)


def test_notebooks_are_programs_of_many_lines() -> None:
    assert set(NOTEBOOKS) == set(GENERATORS)
    assert len(NOTEBOOKS) == 10
    for name in NOTEBOOKS:
        parts = cells(name)
        lines = [line for part in parts for line in part.source.splitlines() if line.strip()]
        assert len(lines) >= 100
        assert len({part.title for part in parts}) == len(parts)
