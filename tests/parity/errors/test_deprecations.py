"""Deprecated parameters: pandas' warning is given once, and names the line of the user's program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import to_craton

import craton
import craton.pandas


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("method", ["dropna", "drop_duplicates", "reset_index", "rename", "sort_index"])
@pytest.mark.parametrize("small", [0, 1000])
def test_deprecated_parameters_warn_at_the_users_line(method, inplace, small):
    frames = pandas.DataFrame({"a": [1.0, 1.0, np.nan]})
    for frame in (frames, frames["a"]):
        if method == "reset_index" and frame.ndim == 1 and inplace:
            continue  # a Series cannot become a frame in place
        arguments = [{"a": "b"}] if method == "rename" else []
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            getattr(to_craton(frame.copy()), method)(*arguments, inplace=inplace)
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]


@pytest.mark.parametrize("small", [0, 1000])
def test_reindex_like_with_a_method_warns_at_the_users_line(small):
    frames = pandas.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[0, 2, 4])
    for frame in (frames, frames["a"]):
        other = to_craton(frame.reindex(range(5)))
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            filled = to_craton(frame.copy()).reindex_like(other, method="ffill")
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
        with pytest.warns(pandas.errors.Pandas4Warning) as caught:
            expected = frame.reindex_like(frame.reindex(range(5)), method="ffill")
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
        assert filled.to_dict() == expected.to_dict()


@pytest.mark.parametrize("small", [0, 1000])
def test_values_that_become_objects_warn_at_the_users_line(small):
    for data in (pandas.period_range("2000", periods=4), pandas.IntervalIndex.from_breaks([1, 2, 3, 4])):
        series = pandas.Series(data)
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            values = to_craton(series.copy()).values
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
        assert list(values) == list(data)
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            later = to_craton(series.copy()).iloc[1:].values
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
        assert list(later) == list(data[1:])


@pytest.mark.parametrize("small", [0, 1000])
def test_functions_of_users_warn_at_the_users_line(small):
    """Craton calls them in its own loops; pandas warns in what it makes of their results."""
    times = pandas.date_range("2000-01-01", freq="s", periods=40)
    df = pandas.DataFrame({"A": [1] * 20 + [2] * 12 + [3] * 8, "B": np.arange(40)}, index=times)
    told = []
    for made in (df, to_craton(df)):
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            found = made.groupby("A").resample("2s").apply(lambda rows: rows.resample("2s").sum())
        told.append([(one.category, str(one.message), Path(one.filename).name) for one in caught])
        assert found["B"].to_list() == df.groupby("A").resample("2s")["B"].sum().to_list()
    assert told[0] == told[1]
    assert {name for _, _, name in told[1]} == {Path(__file__).name}


@pytest.mark.parametrize("small", [0, 1000])
def test_the_engine_auto_of_parquet_warns(tmp_path, small):
    path = tmp_path / "data.parquet"
    frame = to_craton(pandas.DataFrame({"a": [1, 2]}))
    calls = (
        lambda: frame.to_parquet(path, engine="auto"),
        lambda: craton.pandas.read_parquet(path, engine="auto"),
    )
    for call in calls:
        with craton.option_context(small_rows=small), pytest.warns(pandas.errors.Pandas4Warning) as caught:
            call()
        assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
        assert str(caught[0].message).startswith("engine='auto' is deprecated")


def test_the_engine_that_is_not_named_does_not_warn(tmp_path, recwarn):
    path = tmp_path / "data.parquet"
    with craton.option_context(small_rows=0):
        to_craton(pandas.DataFrame({"a": [1, 2]})).to_parquet(path)
        craton.pandas.read_parquet(path)
        craton.pandas.read_parquet(path, engine="pyarrow")
    assert not recwarn.list


def test_programs_without_a_module_are_warned_too():
    """Code that ``exec`` runs with new globals has no ``__name__``."""
    names: dict[str, Any] = {"df": to_craton(pandas.DataFrame({"a": [1, 2]}))}
    with craton.option_context(small_rows=0), pytest.warns(pandas.errors.Pandas4Warning) as caught:
        exec("df.join(df, lsuffix='_l')", names)
    assert len(caught) == 1
