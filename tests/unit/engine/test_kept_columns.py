"""Columns that are costly to compute are computed once for an object that the program holds, and never differ from new ones."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton.engine import kept_columns
from craton.engine.result_cache import results
from craton.pandas.core.lazy import view
from craton.plan import build
from craton.plan.expr import is_costly
from craton.plan.visit import topological

ROWS = 5_000
PATTERN = r"/(\w+)$"


@pytest.fixture(autouse=True)
def planned():
    with craton.option_context(small_rows=0):
        results.clear()
        yield


def data() -> pandas.DataFrame:
    rng = np.random.default_rng(3)
    urls = pandas.Series([f"/a/{'xyz'[i % 3]}{i % 40}" if i % 11 else None for i in range(ROWS)], dtype="str")
    return pandas.DataFrame({"url": urls, "n": rng.integers(0, 9, ROWS)})


@pytest.fixture
def frames():
    return pd.DataFrame(data()), data()


def costly_plan(frame, column: str):
    """The plan of a column, as the kernel would run it now."""
    base = view(frame).base
    value = view(frame).exprs[list(frame.columns).index(column)]
    plan = build.project(base, (("v", value),))
    return results.substitute(kept_columns.with_kept_columns(plan))


def searches(plan) -> bool:
    return any(is_costly(expr) for op in topological(plan) for exprs in op.expressions for expr in exprs)


def test_the_first_run_keeps_the_column_of_a_frame(frames):
    seen = []
    for frame in frames:
        frame["page"] = frame["url"].str.extract(PATTERN, expand=False).fillna("none")
        if frame is frames[0]:
            assert searches(costly_plan(frame, "page"))
        seen.append(frame.groupby("page")["n"].sum().to_dict())
    assert not searches(costly_plan(frames[0], "page"))
    assert seen[0] == seen[1]
    for frame in frames:
        frame["long"] = frame["page"] + "!"
    ours, theirs = frames
    assert ours["page"].nunique() == theirs["page"].nunique()
    assert ours[ours["page"] == "x0"]["n"].sum() == theirs[theirs["page"] == "x0"]["n"].sum()
    assert list(ours.sort_values(["long", "n"])["page"].head(30)) == list(
        theirs.sort_values(["long", "n"])["page"].head(30)
    )


def test_values_are_those_before_a_later_assignment(frames):
    counts = []
    for frame in frames:
        frame["page"] = frame["url"].str.extract(PATTERN, expand=False)
        first = frame["page"].nunique()
        frame["url"] = frame["url"].str.replace("x", "q")
        second = frame["page"].nunique()
        frame["page"] = frame["url"].str.extract(PATTERN, expand=False)
        counts.append((first, second, frame["page"].nunique(), sorted(frame["page"].dropna().unique())))
    assert counts[0] == counts[1]


def test_writing_into_the_array_of_a_frame_does_not_change_what_was_computed():
    texts = np.array([f"k{i % 30}/{i % 7}" for i in range(ROWS)], dtype=object)
    ours = pd.DataFrame({"t": pd.Series(texts, dtype="str")})
    number = ours["t"].str.extract(r"/(\d)", expand=False)
    assert number.nunique() == 7
    texts[:] = "k0/0"
    ours.loc[ours["t"].str.startswith("k1"), "t"] = "k/9"
    assert number.nunique() == 7
    assert ours["t"].str.extract(r"/(\d)", expand=False).nunique() == 8


def test_masks_are_searched_once(frames):
    ours, theirs = frames
    robots, expected = ours["url"].str.contains("x[0-3]"), theirs["url"].str.contains("x[0-3]")
    assert robots.sum() == expected.sum()
    count = len(results)
    assert count
    assert ours[robots.fillna(False).astype(bool)]["n"].sum() == theirs[expected.fillna(False).astype(bool)]["n"].sum()
    assert robots.mean() == expected.mean()


def test_rows_that_are_only_shown_are_not_all_computed(frames):
    ours, _ = frames
    ours["page"] = ours["url"].str.extract(PATTERN, expand=False)
    assert len(ours.head(3)) == 3
    str(ours)
    assert searches(costly_plan(ours, "page"))


def test_values_are_dropped_with_their_object(frames):
    ours, _ = frames
    gc.collect()
    kept_columns.drop_unused()
    before = results.digests()
    page = ours["url"].str.extract(PATTERN, expand=False)
    assert page.nunique() > 1
    assert results.digests() > before
    del page
    gc.collect()
    kept_columns.drop_unused()
    assert results.digests() == before
    assert not kept_columns.is_any_kept()


def test_nothing_is_kept_without_a_result_cache(frames):
    ours, theirs = frames
    persisted = results.digests()  # by objects that other tests hold
    with craton.option_context(result_memory=0):
        page = ours["url"].str.extract(PATTERN, expand=False)
        assert page.nunique() == theirs["url"].str.extract(PATTERN, expand=False).nunique()
        assert results.digests() == persisted


def test_added_columns_do_not_matter(frames):
    ours, theirs = frames
    for frame in frames:
        frame["page"] = frame["url"].str.extract(PATTERN, expand=False)
    assert ours["page"].nunique() == theirs["page"].nunique()
    for frame in frames:
        frame["r"] = np.arange(ROWS) % 5
    assert not searches(costly_plan(ours, "page"))
    assert ours.groupby("r")["page"].nunique().tolist() == theirs.groupby("r")["page"].nunique().tolist()
    selected, expected = (
        ours[ours["page"].notna() & (ours["r"] > 1)],
        theirs[theirs["page"].notna() & (theirs["r"] > 1)],
    )
    assert selected.index.tolist() == expected.index.tolist()
    assert selected["page"].tolist() == expected["page"].tolist()


def test_several_threads_get_the_same_values(frames):
    ours, theirs = frames
    ours["page"] = ours["url"].str.extract(PATTERN, expand=False)
    expected = theirs["url"].str.extract(PATTERN, expand=False).nunique()
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(ours["page"].nunique())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 6


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows):
    ours, theirs = pd.DataFrame(data().head(rows)), data().head(rows)
    for frame in (ours, theirs):
        frame["page"] = frame["url"].str.extract(PATTERN, expand=False)
    for _ in range(2):
        assert ours["page"].count() == theirs["page"].count()
        assert ours[ours["page"].notna()]["page"].tolist() == theirs[theirs["page"].notna()]["page"].tolist()


def test_a_column_that_a_filter_reads_is_kept_and_read_above_the_filter(frames):
    seen = []
    for frame in frames:
        frame["page"] = frame["url"].str.extract(PATTERN, expand=False).fillna("none")
        none = frame["page"].eq("none")
        count = none.sum()
        rest = frame[~none]
        if frame is frames[0]:
            assert not searches(costly_plan(frame, "page"))
            rest["n"].max()
            assert not searches(costly_plan(rest, "page"))
        copies = rest.duplicated(["page", "n"], keep=False)
        rest = rest.drop_duplicates(["page", "n"], keep="last").reset_index(drop=True)
        rest["n"] = rest["n"].where(rest["page"].str.len() > 2, -1)
        seen.append([int(count), int(copies.sum()), rest["n"].sum(), rest["page"].tolist(), rest["n"].tolist()])
    assert seen[0] == seen[1]


def test_equal_expressions_of_objects_keep_values_until_the_last_is_gone(frames):
    frame, expected = frames
    one = frame["url"].str.extract(PATTERN, expand=False).fillna("-")
    two = frame["url"].str.extract(PATTERN, expand=False).fillna("-")
    assert one.nunique() == expected["url"].str.extract(PATTERN, expand=False).fillna("-").nunique()
    del one
    gc.collect()
    kept_columns.drop_unused()
    assert kept_columns.is_any_kept()
    assert two.nunique() == expected["url"].str.extract(PATTERN, expand=False).fillna("-").nunique()
    del two
    gc.collect()
    kept_columns.drop_unused()
    assert not kept_columns.is_any_kept()
