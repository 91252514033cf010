"""Rows below a reduction to a scalar are cached for the following queries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import polars as pl
import pytest

import craton
import craton.pandas as pd
from craton.engine import sharing
from craton.engine.result_cache import results
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.view import IndexSpec, Value, View
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, schema
from craton.plan.visit import topological


@pytest.fixture
def joined(tmp_path: Path) -> pd.DataFrame:
    """A frame over the join of two files."""
    pandas.DataFrame({"a": [1, 2, 3, 4], "x": [1.5, 2.5, 3.5, 4.5], "s": list("abcd")}).to_parquet(
        tmp_path / "l.parquet"
    )
    pandas.DataFrame({"b": [4, 2, 2], "y": [10, 20, 30], "z": [0.5, 0.25, 1.0]}).to_parquet(tmp_path / "r.parquet")
    left, right = view(pd.read_parquet(tmp_path / "l.parquet")), view(pd.read_parquet(tmp_path / "r.parquet"))
    base = Join(left.base, right.base, "inner", (left.base.column("a"),), (right.base.column("b"),))
    values = tuple(
        Value(base.column(name), old.dtype, old.nulls, old.nans)
        for name, old in zip(schema(base), (*left.values, *right.values), strict=True)
    )
    results.clear()
    return lazy(pd.DataFrame, View(base, values, pandas.Index(list(schema(base))), IndexSpec()))


def scanned_join(plan) -> bool:
    """Whether a plan still contains a join after cached results have been substituted."""
    return any(isinstance(op, Join) for op in topological(results.substitute(plan)))


def test_second_reduction_reads_the_cached_rows(joined):
    assert joined["x"].sum() == 9.5
    plan = Aggregate(
        view(joined).base, (), (("n", AggregateCall("max", (view(joined).base.column("x"),), pl.Float64())),)
    )
    assert not any(isinstance(op, Join) for op in topological(results.substitute(plan, ordered=False)))
    assert scanned_join(view(joined).base)
    assert joined["x"].max() == 4.5


def test_columns_of_live_plans_are_cached_too(joined, monkeypatch):
    monkeypatch.setattr(sharing, "FEW_COLUMNS", 2)
    product = joined["x"] * joined["y"]
    assert joined["x"].sum() == 9.5
    assert results.covers(view(joined).base, {"x", "y"})
    assert not results.covers(view(joined).base, {"x", "y", "s"})
    assert product.sum() == 2.5 * 20 + 2.5 * 30 + 4.5 * 10


def test_cached_rows_do_not_change_the_order(joined):
    assert joined["x"].sum() == 9.5
    assert joined["x"].tolist() == [2.5, 2.5, 4.5]


def test_too_many_rows_are_not_cached(joined, monkeypatch):
    monkeypatch.setattr(sharing, "SHARED_BYTES", 16)
    assert joined["x"].sum() == 9.5
    assert not results.covers(view(joined).base, {"x"})


def test_a_scan_is_not_cached(tmp_path):
    pandas.DataFrame({"a": [1, 2, 3, 4]}).to_parquet(tmp_path / "l.parquet")
    frame = pd.read_parquet(tmp_path / "l.parquet")
    results.clear()
    assert frame["a"].sum() == 10
    assert not results.covers(view(frame).base, {"a"})


def test_filters_above_cached_rows(joined):
    big = joined[joined["y"] > 15]
    assert big["x"].sum() == 5.0
    assert isinstance(sharing._expensive(view(big["x"]).base), Filter)
    assert big["x"].count() == 2


def test_a_group_by_over_a_filtered_file_is_computed_once(tmp_path):
    """Parallel float sums differ from run to run, so a filter must use the same sums from which its scalar was computed."""
    rows = 400_000
    rng = np.random.default_rng(0)
    data = pandas.DataFrame({"k": rng.integers(0, 5000, rows), "v": rng.random(rows), "d": rng.integers(0, 9, rows)})
    data.to_parquet(tmp_path / "data.parquet")
    for _ in range(5):
        craton.clear_memory()
        frame = pd.read_parquet(tmp_path / "data.parquet")
        chosen = frame[frame["d"] < 7]
        sums = chosen.groupby("k", as_index=False)["v"].sum()
        assert len(sums[sums["v"] == sums["v"].max()]) == 1
