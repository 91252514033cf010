"""The engine of read_parquet and to_parquet: the parameter, the option, and pandas' warnings about them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check

ENGINES = [pandas.api.extensions.no_default, "auto", "pyarrow", "fastparquet", "nonsense", None]


def told(call: Any) -> Any:
    """The result or error of a call, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
            _ = getattr(result, "_mgr", None)
        except Exception as error:
            result = type(error).__name__, str(error)
    return result, [(entry.category.__name__, str(entry.message)) for entry in caught]


@pytest.mark.parametrize("option", ["auto", "pyarrow", "fastparquet"])
@pytest.mark.parametrize("engine", ENGINES, ids=case_id)
def test_engines(tmp_path: Path, engine: Any, option: str) -> None:
    pandas.DataFrame({"i": [1, 2]}).to_parquet(tmp_path / "a.parquet")

    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"i": np.arange(5)})[lambda d: d["i"] > 1]
        with pandas.option_context("io.parquet.engine", option):
            read = told(lambda: pd.read_parquet(tmp_path / "a.parquet", engine=engine))
            written = told(lambda: frame.to_parquet(tmp_path / "b.parquet", engine=engine))
        left = (tmp_path / "b.parquet").exists()
        (tmp_path / "b.parquet").unlink(missing_ok=True)
        return read, written, left

    check(program, native=None)


@pytest.mark.parametrize("engine", ["auto", "pyarrow"])
def test_frames_that_cannot_be_written(tmp_path: Path, engine: str) -> None:
    frame = pandas.DataFrame({"i": range(10), "f": [0.5] * 10})

    def program(pd: Any, given: Any) -> Any:
        groups = given.assign(c=pd.cut(given["i"], 2)).groupby("c", observed=True)[["f"]].mean()
        return told(lambda: groups.to_parquet(tmp_path / "a.parquet", engine=engine))

    check(program, frame, native=None)
