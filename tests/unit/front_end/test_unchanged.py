"""Columns and labels that a call does not change are those of the source, and later writes to either object do not reach the other."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import craton
import craton.pandas as pd
from craton.engine import run
from craton.pandas.core.lazy import view
from craton.pandas.core.unchanged import unchanged

INDEXES = {
    "default": None,
    "range": pandas.RangeIndex(5, 20, 3),
    "labels": pandas.Index(list("abcde"), name="n"),
    "times": pandas.date_range("2024-01-01", periods=5, freq="D", name="when"),
    "categories": pandas.CategoricalIndex(list("aabbc")),
    "multi": pandas.MultiIndex.from_product([[1, 2, 3, 4, 5], ["x"]], names=["one", "two"]),
}
CALLS = {
    "rename": lambda df: df.rename(columns={"i": "z"}),
    "drop": lambda df: df.drop(columns=["f", "c"]),
    "set_axis": lambda df: df.set_axis(list(range(df.shape[1])), axis=1),
    "copy": lambda df: df.copy(),
    "take columns": lambda df: df[["s", "i", "t"]],
    "add_prefix": lambda df: df.add_prefix("p"),
    "assign": lambda df: df.assign(w=df["i"] + 1),
    "twice": lambda df: df.assign(w=df["i"], v=df["i"]),
    "insert": lambda df: df.assign(i=df["f"]).rename(columns={"f": "g"}),
    "index name": lambda df: df.rename_axis("other") if df.index.nlevels == 1 else df.rename_axis(["o", "p"]),
    "reset_index": lambda df: df.reset_index(),
    "drop index": lambda df: df.reset_index(drop=True),
    "set_index": lambda df: df.set_index("s"),
    "shift": lambda df: df.assign(w=df["i"].shift()),
    "head": lambda df: df.head(3),
}


def frame(index: pandas.Index | None) -> pandas.DataFrame:
    df = pandas.DataFrame(
        {
            "i": [3, 1, 2, 5, 4],
            "f": [0.5, np.nan, -0.0, 2.0, 1.0],
            "s": ["a", None, "c", "d", "é"],
            "t": pandas.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04", "2024-01-05"]),
            "c": pandas.Categorical(["u", "v", None, "u", "v"]),
            "b": [True, False, True, True, False],
            "I": pandas.array([1, None, 3, 4, 5], dtype="Int64"),
        }
    )
    return df if index is None else df.set_axis(index)


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        yield


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("index", INDEXES)
def test_results_are_those_of_pandas(index, call):
    ours, theirs = CALLS[call](pd.DataFrame(frame(INDEXES[index]))), CALLS[call](frame(INDEXES[index]))
    assert_frame_equal(pandas.DataFrame(ours), theirs)
    assert getattr(ours.index, "freq", None) == getattr(theirs.index, "freq", None)
    assert [type(ours.index), list(ours.index.names)] == [
        getattr(craton.pandas, type(theirs.index).__name__, type(theirs.index)),
        list(theirs.index.names),
    ] or type(ours.index) is type(theirs.index)


@pytest.mark.parametrize("call", ["rename", "drop", "set_axis", "take columns", "twice"])
def test_writes_reach_one_object_only(call):
    source, expected = pd.DataFrame(frame(None)), frame(None)
    ours, theirs = CALLS[call](source), CALLS[call](expected)
    ours.iloc[0, 0] = theirs.iloc[0, 0] = theirs.iloc[2, 0]
    assert_frame_equal(pandas.DataFrame(source), expected)
    assert_frame_equal(pandas.DataFrame(ours), theirs)
    source.loc[1, "i"] = expected.loc[1, "i"] = 77
    source["s"] = expected["s"] = "new"
    assert_frame_equal(pandas.DataFrame(source), expected)
    assert_frame_equal(pandas.DataFrame(ours), theirs)


def test_a_write_before_the_result_is_computed_is_not_seen():
    source, expected = pd.DataFrame(frame(None)), frame(None)
    ours, theirs = source.rename(columns={"i": "z"}), expected.rename(columns={"i": "z"})
    source.loc[0, "i"] = expected.loc[0, "i"] = 99
    assert_frame_equal(pandas.DataFrame(ours), theirs)


def test_a_write_through_a_shared_array_is_not_seen():
    array = np.arange(5)
    source = pd.DataFrame({"a": pd.Series(array, copy=False), "b": 1.5})
    ours = source.rename(columns={"b": "c"})
    array[:] = -1
    assert ours["c"].sum() == 7.5
    assert pandas.DataFrame(ours)["c"].tolist() == [1.5] * 5


def test_arrays_that_users_get_are_not_those_of_the_other_object():
    source = pd.Series([1, 2, 3], name="a")
    ours = source.rename("b")
    ours.array[0] = 50
    assert source.tolist() == [1, 2, 3]


def test_nothing_runs_for_unchanged_data(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a plan ran")

    source = pd.DataFrame(frame(INDEXES["labels"]))
    renamed = source.rename(columns={"i": "z"}).drop(columns="f")
    monkeypatch.setattr(run, "_execute", fail)
    assert_frame_equal(pandas.DataFrame(renamed), frame(INDEXES["labels"]).rename(columns={"i": "z"}).drop(columns="f"))


def test_changed_columns_are_computed():
    source = pd.DataFrame(frame(None))
    held = view(source.assign(w=source["i"] * 2))
    assert set(unchanged(held).arrays) == set(range(7))
    assert not unchanged(view(source.sort_values("i"))).arrays
    assert not unchanged(view(source[source["i"] > 1])).arrays


@pytest.mark.parametrize("index", INDEXES)
def test_series_keep_their_labels(index):
    ours, theirs = pd.DataFrame(frame(INDEXES[index]))["f"].rename("g"), frame(INDEXES[index])["f"].rename("g")
    assert_series_equal(pandas.Series(ours), theirs)
    assert ours.shift().index.equals(theirs.index)


RIGHTS = {
    "unique": pandas.DataFrame({"i": [1, 2, 3, 9], "v": [10, 20, 30, 90], "u": ["p", "q", None, "r"]}),
    "all match": pandas.DataFrame({"i": [1, 2, 3, 4, 5], "v": [10, 20, 30, 40, 50]}),
    "repeated": pandas.DataFrame({"i": [1, 1, 3], "v": [1, 2, 3]}),
    "empty": pandas.DataFrame({"i": pandas.Series([], dtype="int64"), "v": pandas.Series([], dtype="int64")}),
    "other dtype": pandas.DataFrame({"i": np.array([1, 2, 3], dtype="int8"), "v": [1, 2, 3]}),
    "floats": pandas.DataFrame({"i": [1.0, 2.0, np.nan], "v": [1, 2, 3]}),
}
MERGES = {
    "merge": lambda df, other: df.merge(other, on="i", how="left"),
    "join": lambda df, other: df.join(other.set_index("i")[["v"]], on="i"),
    "indicator": lambda df, other: df.merge(other, on="i", how="left", indicator=True),
    "twice": lambda df, other: df.merge(other, on="i", how="left").merge(other, on="i", how="left"),
    "then filter": lambda df, other: df.merge(other, on="i", how="left").query("f > 0.4"),
    "then diff": lambda df, other: df.merge(other, on="i", how="left")["f"].diff(),
    "then sum": lambda df, other: df.merge(other, on="i", how="left")["v"].sum(),
    "inner": lambda df, other: df.merge(other, on="i"),
}


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("index", ["default", "labels"])
def test_left_rows_of_a_lookup_are_unchanged(index, right, merge, rows):
    with craton.option_context(small_rows=rows):
        expected = MERGES[merge](frame(INDEXES[index]), RIGHTS[right])
        found = MERGES[merge](pd.DataFrame(frame(INDEXES[index])), pd.DataFrame(RIGHTS[right]))
        if isinstance(expected, pandas.DataFrame):
            assert_frame_equal(pandas.DataFrame(found), expected)
        elif isinstance(expected, pandas.Series):
            assert_series_equal(pandas.Series(found), expected)
        else:
            assert found == expected


@pytest.mark.parametrize(("right", "kept"), [("unique", 7), ("repeated", 0), ("floats", 0)])
def test_a_join_is_a_lookup_if_no_key_repeats(right, kept):
    held = view(pd.DataFrame(frame(None)).merge(pd.DataFrame(RIGHTS[right]), on="i", how="left"))
    assert len(unchanged(held).arrays) == kept


def test_texts_are_converted_once():
    texts = pandas.Series([f"text {i}" for i in range(20_000)])
    one, other = pd.DataFrame({"a": texts}), pd.DataFrame({"b": texts})
    ours, theirs = view(one).base.source.frame, view(other).base.source.frame
    assert ours["a"].to_list() == theirs["b"].to_list() == texts.tolist()
    del one, other, ours, theirs, texts
