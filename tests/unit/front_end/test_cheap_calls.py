"""Calls that pandas computes at once on data in memory, and plans that combine columns which share an Index in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import craton
import craton.pandas as pd
from craton import fallbacks
from craton.engine import run
from craton.pandas.core import cheap_calls
from craton.pandas.core.lazy import view
from craton.pandas.core.native import REGISTRY
from craton.pandas.core.routing import is_lazy
from craton.plan.operators import Attach, Filter
from craton.plan.visit import topological

ROWS = 60


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "i": rng.integers(0, 9, ROWS),
        "f": np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS)),
        "s": [None if i % 7 == 0 else f"t{i % 5}" for i in range(ROWS)],
        "t": pandas.date_range("2024-01-30", periods=ROWS, freq="7h"),
        "b": rng.random(ROWS) < 0.5,
    }


INDEXES: dict[str, Any] = {
    "default": None,
    "labels": [f"r{i}" for i in range(ROWS)],
    "duplicates": [i // 2 for i in range(ROWS)],
    "times": pandas.date_range("2020", periods=ROWS, freq="h"),
    "levels": pandas.MultiIndex.from_arrays([[i // 10 for i in range(ROWS)], list(range(ROWS))], names=["a", "b"]),
}

#: Programs whose first calls run in pandas, and whose later ones are planned over their results.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda pd, df: df[df["f"].diff() > 0],
    "two masks": lambda pd, df: df[(df["i"] > 3) & df["f"].notna()].groupby("s")["i"].sum(),
    "key of dates": lambda pd, df: df.groupby(df["t"].dt.month)["f"].sum(),
    "key of text": lambda pd, df: df.groupby(df["s"].str.upper())["i"].mean(),
    "assigned": lambda pd, df: df.assign(w=df["i"].cumsum()).groupby("b")["w"].max(),
    "set": lambda pd, df: _set(df).groupby("s")["w"].sum(),
    "where": lambda pd, df: df["f"].where(df["i"] > 2, df["i"]).groupby(df["b"]).sum(),
    "joined": lambda pd, df: df.assign(k=df["i"].clip(upper=3)).merge(df.head(5), on="i")["k"].sum(),
    "sorted": lambda pd, df: df["f"].fillna(0.0).sort_values().shift().sum(),
    "ranks": lambda pd, df: df["i"].diff().rank(),
    "share": lambda pd, df: df["i"] / df.groupby("b")["i"].transform("sum"),
    "get_dummies": lambda pd, df: pd.get_dummies(df["s"]).sum(),
    "concat": lambda pd, df: pd.concat([df, df.iloc[5:9]])["f"].sum(),
    "other order": lambda pd, df: df["i"] + df["i"].iloc[::-1],
    "other rows": lambda pd, df: df["f"] + df["f"].dropna(),
    "renamed index": lambda pd, df: df["i"].rename_axis(df.index.names) + df["f"],
    "mask of other rows": lambda pd, df: df[df["b"].iloc[:-1].reindex(df.index, fill_value=False)],
    "mutated": lambda pd, df: _mutated(df),
    "loc": lambda pd, df: df.loc[df.index[3:9], ["i", "f"]].sum(),
    "map": lambda pd, df: df["i"].map(pd.Series(range(100, 110))),
    "unique": lambda pd, df: pd.Series(df["s"].unique()),
    "astype": lambda pd, df: df["i"].astype("float32").groupby(df["s"].astype("category"), observed=True).sum(),
    "text to numbers": lambda pd, df: df["i"].astype(str).astype("int64").sum(),
}


def _set(df: Any) -> Any:
    df = df.copy()
    df["w"] = df["f"].abs().round(1)
    df["w"] += 1
    return df


def _mutated(df: Any) -> Any:
    df = df.copy()
    mask = df["i"] > 4
    shifted = df["f"].shift()
    df.loc[mask, "f"] = -1.0
    few = df[mask]
    df["f"] = 0.0
    return few["f"].sum() + shifted.sum()


@pytest.fixture(autouse=True)
def routed():
    with craton.option_context(small_rows=1):
        yield


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("index", INDEXES)
def test_programs(index, name):
    labels = INDEXES[index]
    try:
        expected = PROGRAMS[name](pandas, pandas.DataFrame(numbers(), index=labels))
    except Exception as error:
        with pytest.raises(type(error)):
            pandas.DataFrame(PROGRAMS[name](pd, pd.DataFrame(numbers(), index=labels)))
        return
    found = PROGRAMS[name](pd, pd.DataFrame(numbers(), index=labels))
    if isinstance(expected, pandas.DataFrame):
        assert_frame_equal(pandas.DataFrame(found), expected)
    elif isinstance(expected, pandas.Series):
        assert_series_equal(pandas.Series(found), expected)
    else:
        assert found == pytest.approx(expected, nan_ok=True)


def test_no_plan_runs_for_cheap_calls(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a plan ran")

    monkeypatch.setattr(run, "_execute", fail)
    df = pd.DataFrame(numbers())
    assert not is_lazy(df["f"].diff())
    assert not is_lazy(df["i"] + df["f"])
    assert not is_lazy(df["s"].str.upper())
    assert not is_lazy(df["t"].dt.year)
    assert not is_lazy(df.groupby("i")["f"].cumsum())
    assert not is_lazy(df.rename(columns={"i": "j"})["j"].abs())
    assert type(df["f"].diff()) is pd.Series


def test_calls_are_planned_if_an_operand_is():
    df = pd.DataFrame(numbers())
    few = df[df["i"] > 3]
    assert is_lazy(few["f"].diff())
    assert is_lazy(few["f"] + 1)
    assert is_lazy(few.groupby("i")["f"].cumsum())


def test_all_calls_are_planned_without_small_rows():
    with craton.option_context(small_rows=0):
        df = pd.DataFrame(numbers())
        assert is_lazy(df["f"].diff())
        assert is_lazy(df["t"].dt.year)


def test_cheap_calls_are_no_fallbacks():
    fallbacks.reset()
    df = pd.DataFrame(numbers())
    df["f"].diff()
    assert df["t"].dt.year.size == ROWS
    with craton.option_context(fallback="error"):
        df["i"].cumsum()
    assert craton.explain_fallbacks().empty


def test_functions_get_planned_objects():
    seen = []
    df = pd.DataFrame(numbers())
    df.assign(w=lambda d: seen.append(type(d)) or d["i"] + 1)
    assert seen == [pd.DataFrame]


def test_columns_with_one_index_are_combined_in_a_plan():
    df = pd.DataFrame(numbers())
    few = df[df["f"].diff() > 0]
    operators = topological(view(few).base)
    assert any(isinstance(op, Filter) for op in operators)
    assert any(isinstance(op, Attach) for op in operators)


@pytest.mark.parametrize("index", INDEXES)
def test_columns_of_the_same_index_only(index):
    labels = pandas.DataFrame(numbers(), index=INDEXES[index]).index
    with craton.option_context(small_rows=0):
        one = pd.Series(np.arange(ROWS), index=labels, name="x")
        other = pd.Series(np.arange(ROWS)[::-1], index=labels.copy(), name="x")
        shorter = pd.Series(np.arange(ROWS - 1), index=labels[1:], name="x")
        mine, its, less = map(pandas.Series, (one, other, shorter))
        assert_series_equal(pandas.Series(one + other), mine + its)
        if labels.is_unique:
            assert_series_equal(pandas.Series(one + shorter), mine + less)


def test_the_table_names_native_calls():
    frame = craton.pandas.DataFrame({"a": [1.0]})
    for window in (
        frame.rolling(1),
        frame.expanding(),
        frame.ewm(span=2),
    ):  # their classes are made when they are needed
        assert window.ndim == 2
    for name in (
        "concat",
        "cut",
        "get_dummies",
        "merge_asof",
        "pivot",
        "qcut",
        "to_datetime",
        "to_numeric",
        "to_timedelta",
        "wide_to_long",
    ):
        assert getattr(pd, name)  # imported when it is used
    planned = {label for label, entry in REGISTRY.items() if entry.planned}
    assert planned >= cheap_calls.CHEAP
    assert "DataFrame.merge" not in cheap_calls.CHEAP


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize(
    "key", [lambda frame: "k", lambda frame: frame["k"], lambda frame: ["k"]], ids=["label", "column", "list"]
)
def test_a_group_by_does_not_compute_a_lazy_frame(key, observed, tmp_path):
    rows = 200_000
    pandas.DataFrame({"k": np.arange(rows) % 7, "v": np.arange(rows)}).to_parquet(tmp_path / "f.parquet")
    frame = craton.pandas.read_parquet(tmp_path / "f.parquet")
    frame = frame.merge(
        frame[frame["v"] > 3].rename(columns={"k": "w"}), on="v", how="left"
    )  # dtypes depend on the data
    by = key(frame)
    groups = frame.groupby(by, observed=observed)
    assert "_mgr" not in frame.__dict__
    assert groups["v"].sum().index.tolist() == list(range(7))
    assert "_mgr" not in frame.__dict__
