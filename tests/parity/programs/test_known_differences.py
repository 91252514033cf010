"""The differences in docs/known-differences.md exist; one that no longer exists must be removed from the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton.errors import SourceChanged


@pytest.fixture(autouse=True)
def _planned() -> Iterator[None]:
    with craton.option_context(small_rows=0):
        yield


def test_integers_divided_by_zero() -> None:
    frame = pandas.DataFrame({"k": [2], "w": [0]})
    later = pandas.DataFrame({"k": [2]})
    later["w"] = 0
    planned = pd.DataFrame(frame)[["k", "w"]]
    assert (planned // planned).dtypes.tolist() == (later // later).dtypes.tolist() == ["int64", "float64"]
    assert (frame // frame).dtypes.tolist() == ["float64", "float64"]
    assert (planned // planned).fillna(-1).to_numpy().tolist() == (frame // frame).fillna(-1).to_numpy().tolist()


def test_a_range_is_made_of_the_labels_that_are_left() -> None:
    frame = pandas.DataFrame({"v": [2.0, -2.25, -2.25, -1.0]})
    expected, got = frame.sort_values("v").head(3).index, pd.DataFrame(frame).sort_values("v").head(3).index
    assert expected.equals(got)
    assert type(expected) is pandas.Index
    assert type(got) is pandas.RangeIndex
    assert type(pd.DataFrame(frame).sort_values("v").head(3)["v"].idxmax()) is int


def test_sums_of_32_bit_floats_that_leave_their_range() -> None:
    frame = pandas.DataFrame({"x": np.array([3e38, 3e38, -3e38], dtype="float32")})
    with np.errstate(all="ignore"):
        assert frame["x"].sum() == frame["x"].cumsum().iloc[-1] == np.inf
    assert pd.DataFrame(frame)["x"].sum() == np.float32(3e38)
    assert pd.DataFrame(frame)["x"].cumsum().tolist()[-1] == np.float32(3e38)


def test_freq_is_not_inferred() -> None:
    frame = pandas.DataFrame({"x": range(6)}, index=pandas.date_range("2024", periods=6, freq="D"))
    assert frame.drop_duplicates().index.freq == "D"
    assert pd.DataFrame(frame).drop_duplicates().index.freq is None
    for select in (lambda f: f.iloc[::2], lambda f: f.iloc[::-1], lambda f: f.iloc[1:4]):
        assert select(pd.DataFrame(frame)).index.freq == select(frame).index.freq


def test_patterns_are_read(tmp_path: Path) -> None:
    pandas.DataFrame({"x": [1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(FileNotFoundError):
        pandas.read_parquet(f"{tmp_path}/*.parquet")
    assert len(pd.read_parquet(f"{tmp_path}/*.parquet")) == 1


def test_files_that_change(tmp_path: Path) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pandas.DataFrame({"x": [1, 2]}).to_parquet(path)
    pandas.DataFrame({"x": [3]}).to_parquet(other)
    replaced = pd.read_parquet(path)["x"] + 1
    os.replace(other, path)
    assert replaced.tolist() == [2, 3]
    overwritten = pd.read_parquet(path)["x"] + 1
    pandas.DataFrame({"x": [7, 8, 9]}).to_parquet(path)
    with pytest.raises(SourceChanged):
        overwritten.tolist()
