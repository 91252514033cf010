"""Columns of the same unordered categories in different orders, which pandas takes for one dtype although their codes differ."""

from __future__ import annotations

import pandas
import pytest

import craton
import craton.pandas as cpd
from craton.pandas.core.dtypes import same_dtype


def columns(pd):
    return pd.DataFrame(
        {
            "a": pd.Categorical(["a", None, "b", "c", None], categories=["a", "b", "c"]),
            "b": pd.Categorical(["b", "c", "a", "c", None], categories=["c", "b", "a"]),
            "n": [1, 2, 3, 4, 5],
            "o": pd.Categorical(["b", "c", "a", "c", None], categories=["c", "b", "a"], ordered=True),
        }
    )


PROGRAMS = {
    "fillna": lambda pd, d: d["a"].fillna(d["b"]),
    "where": lambda pd, d: d["a"].where(d["n"] > 2, d["b"]),
    "mask": lambda pd, d: d["a"].mask(d["n"] > 2, d["b"]),
    "eq": lambda pd, d: d["a"] == d["b"],
    "ne": lambda pd, d: d["a"] != d["b"],
    "lt": lambda pd, d: d["o"] < "b",
    "combine_first": lambda pd, d: d["a"].combine_first(d["b"]),
    "concat": lambda pd, d: pd.concat([d["a"], d["b"]]),
    "concat frames": lambda pd, d: pd.concat([d[["a"]], d[["b"]].rename(columns={"b": "a"})]),
    "melt": lambda pd, d: d.melt(id_vars="n", value_vars=["a", "b"]),
    "merge": lambda pd, d: d[["a", "n"]].merge(d[["b", "n"]], left_on="a", right_on="b"),
    "merge on": lambda pd, d: d[["a", "n"]].merge(d[["b", "n"]].rename(columns={"b": "a"}), on="a", how="outer"),
    "merge left": lambda pd, d: d[["a", "n"]].merge(d[["b", "n"]].rename(columns={"b": "a"}), on="a", how="left"),
    "merge right": lambda pd, d: d[["a", "n"]].merge(d[["b", "n"]].rename(columns={"b": "a"}), on="a", how="right"),
    "join index": lambda pd, d: d[["a", "n"]].set_index("a").join(d[["b"]].assign(m=d["n"]).set_index("b")),
    "isin": lambda pd, d: d["a"].isin(d["b"]),
    "setitem": lambda pd, d: d.assign(a=d["a"].mask(d["n"] == 1, d["b"])),
    "loc set": lambda pd, d: _loc(d),
    "map": lambda pd, d: d["a"].map(d.dropna(subset="b").drop_duplicates("b").set_index("b")["n"]),
    "astype": lambda pd, d: d["a"].astype(d["b"].dtype),
    "astype cat eq": lambda pd, d: d["a"].astype(d["b"].dtype) == d["b"],
    "frame where": lambda pd, d: d[["a"]].where(
        d[["n"]].rename(columns={"n": "a"}) > 2, d[["b"]].rename(columns={"b": "a"})
    ),
    "group first": lambda pd, d: d.groupby("n")[["a", "b"]].first(),
    "stack": lambda pd, d: d[["a", "b"]].stack(),
    "update": lambda pd, d: _upd(d),
    "bfill axis": lambda pd, d: d[["a", "b"]].bfill(axis=1),
    "fillna frame": lambda pd, d: d[["a"]].fillna({"a": "c"}),
    "fillna frame2": lambda pd, d: d[["a"]].fillna(d[["b"]].rename(columns={"b": "a"})),
    "set rows": lambda pd, d: _rows(d),
    "compare": lambda pd, d: d["a"].compare(d["b"].astype(d["a"].dtype)),
    "equals": lambda pd, d: d["a"].equals(d["b"]),
    "drop_duplicates": lambda pd, d: pd.concat([d["a"], d["b"].astype(d["a"].dtype)]).drop_duplicates(),
    "append groupby": lambda pd, d: (
        pd.concat([d[["a", "n"]], d[["b", "n"]].rename(columns={"b": "a"})]).groupby("a", observed=True)["n"].sum()
    ),
    "nunique": lambda pd, d: d[["a", "b"]].nunique(axis=1),
}


def _loc(d):
    d = d.copy()
    d.loc[d["n"] > 2, "a"] = d["b"]
    return d


def _rows(d):
    d = d.copy()
    d.loc[d["n"] > 3, ["a"]] = d[["b"]].rename(columns={"b": "a"})
    return d


def _upd(d):
    d = d.copy()
    d["a"] = d["b"].where(d["n"] > 3, d["a"])
    return d


@pytest.mark.parametrize("rows", [0, 1, 1_000])
@pytest.mark.parametrize("labels", [None, list("vwxyz")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, labels, rows):
    with craton.option_context(small_rows=rows):
        outcomes = []
        for pd in (pandas, cpd):
            data = columns(pd) if labels is None else columns(pd).set_axis(labels)
            try:
                result = PROGRAMS[name](pd, data)
            except Exception as error:
                result = type(error)
            outcomes.append(result)
    expected, found = outcomes
    if isinstance(expected, pandas.Series):
        pandas.testing.assert_series_equal(pandas.Series(found), expected)
    elif isinstance(expected, pandas.DataFrame):
        pandas.testing.assert_frame_equal(pandas.DataFrame(found), expected)
    else:
        assert found == expected


def test_dtypes_of_the_same_values():
    one, other = pandas.CategoricalDtype(["a", "b"]), pandas.CategoricalDtype(["b", "a"])
    assert one == other
    assert not same_dtype(one, other)
    assert same_dtype(one, pandas.CategoricalDtype(["a", "b"]))
    assert same_dtype(pandas.CategoricalDtype(), pandas.CategoricalDtype())
    assert same_dtype(pandas.Int64Dtype(), pandas.Int64Dtype())
