"""Windows are computed once for an object that the program holds, and other kept rows are still found beside kept columns."""

from __future__ import annotations

import gc

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton.engine import kept_columns
from craton.engine.kept_columns import with_kept_columns
from craton.engine.result_cache import results
from craton.pandas.core.execute import planned
from craton.pandas.core.lazy import view
from craton.plan.operators import Join, Scan, Window
from craton.plan.sources import FileSource
from craton.plan.visit import topological

ROWS = 4_000


@pytest.fixture(autouse=True)
def fresh():
    with craton.option_context(small_rows=0):
        results.clear()
        yield


def data() -> pandas.DataFrame:
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({"k": rng.integers(0, 300, ROWS), "x": rng.integers(0, 50, ROWS), "y": rng.random(ROWS)})
    frame["t"] = pandas.Series([f"{key}/{key % 7}" for key in frame["k"]], dtype="str")
    return frame


def operators(frame) -> list:
    """The operators that would run to compute a frame now."""
    plan = planned(view(frame))
    return topological(results.substitute(with_kept_columns(plan)))


def with_windows(frame):
    ordered = frame[frame["x"] >= 2].sort_values(["k", "x"], kind="stable")
    ordered["total"] = ordered.groupby("k")["x"].cumsum()
    ordered["before"] = ordered.groupby("k")["y"].shift()
    ordered["rises"] = ordered["y"] > ordered["before"]
    ordered["mean"] = ordered.groupby("k")["x"].transform(lambda s: s.expanding().mean())
    ordered["of_window"] = ordered.groupby("k")["total"].shift(2)
    return ordered


def test_windows_are_computed_once_for_a_frame():
    ours, theirs = with_windows(pd.DataFrame(data())), with_windows(data())
    assert any(isinstance(op, Window) for op in operators(ours))
    for name in ("total", "mean", "of_window"):
        assert ours[name].sum() == theirs[name].sum()
    assert ours["rises"].sum() == theirs["rises"].sum()
    assert not any(isinstance(op, Window) for op in operators(ours))
    many, expected = ours[ours["total"] > 100], theirs[theirs["total"] > 100]
    pandas.testing.assert_frame_equal(pandas.DataFrame(many.reset_index()), expected.reset_index())
    for frame in (ours, theirs):
        frame["x"] = 1
        frame["total"] = frame["total"] - frame["x"]
    pandas.testing.assert_frame_equal(pandas.DataFrame(ours), theirs)


def test_windows_over_other_rows_are_other_windows():
    seen = []
    for frame in (pd.DataFrame(data()), data()):
        ordered = with_windows(frame)
        few = ordered[ordered["x"] > 25]
        few["total"] = few.groupby("k")["x"].cumsum()
        seen.append((int(ordered["total"].sum()), int(few["total"].sum()), int(ordered["total"].max()), len(few)))
    assert seen[0] == seen[1]


def test_windows_are_dropped_with_their_frame():
    gc.collect()
    kept_columns.drop_unused()
    before = results.digests()
    ordered = with_windows(pd.DataFrame(data()))
    assert ordered["total"].sum() > 0
    assert ordered["mean"].sum() > 0
    assert results.digests() > before
    del ordered
    gc.collect()
    kept_columns.drop_unused()
    assert not kept_columns.is_any_kept()


def test_kept_rows_are_found_beside_kept_columns():
    ours, theirs = pd.DataFrame(data()), data()
    names = {"key": pandas.Series(range(300)), "name": pandas.Series([f"n{i % 40}" for i in range(300)], dtype="str")}
    seen = []
    for frame, module in ((ours, pd), (theirs, pandas)):
        frame["part"] = frame["t"].str.extract(r"/(\d)", expand=False)
        parts = frame["part"].nunique()
        joined = frame.merge(module.DataFrame(names), left_on="k", right_on="key", how="left")
        sums = [joined["y"].count(), joined.groupby("name")["x"].sum().tolist(), joined["x"].max()]
        if frame is ours:
            assert kept_columns.is_any_kept()
            assert not any(isinstance(op, Join) for op in operators(joined.groupby("name")["x"].max()))
        seen.append((parts, *sums, joined["part"].value_counts().sort_index().tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows):
    ours, theirs = with_windows(pd.DataFrame(data().head(rows))), with_windows(data().head(rows))
    for _ in range(2):
        assert ours["total"].sum() == theirs["total"].sum()
    pandas.testing.assert_frame_equal(pandas.DataFrame(ours), theirs)


def test_all_columns_of_json_lines_are_read_once(tmp_path):
    path = tmp_path / "data.jsonl"
    data().to_json(path, orient="records", lines=True)
    ours, theirs = pd.read_json(path, lines=True), pandas.read_json(path, lines=True)
    for name in ("x", "y", "k"):
        assert ours[name].max() == theirs[name].max()
    assert results.covers(view(ours).base, {"x", "y", "k", "t"}, ordered=True)
    for frame in (ours, theirs):
        frame["part"] = frame["t"].str.split("/").str.join("-")
    assert ours["part"].nunique() == theirs["part"].nunique()
    assert not any(
        isinstance(op, Scan) and isinstance(op.source, FileSource) for op in operators(ours.drop(columns="part"))
    )
    path.write_text("")
    assert ours["t"].tolist() == theirs["t"].tolist()
