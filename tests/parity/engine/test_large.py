"""Frames with so many rows that sorts, joins and group-bys use row numbers."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

RANDOM = np.random.default_rng(11)
ROWS = 30_000


def keys(kind: str) -> object:
    numbers = RANDOM.integers(-ROWS, ROWS, ROWS)
    if kind == "int":
        return numbers
    if kind == "far":
        return numbers * 10**14
    if kind == "small":
        return (numbers % 100).astype("int8")
    if kind == "date":
        return pandas.to_datetime(numbers, unit="h", origin="2000-01-01").as_unit("s")
    if kind == "gaps":
        return pandas.array(np.where(numbers % 17 == 0, None, numbers), dtype="Int64")
    if kind == "text":
        return pandas.array((numbers % 500).astype(str))
    return np.where(numbers % 13 == 0, np.nan, np.where(numbers % 11 == 0, -0.0, numbers / 7))


KINDS = ["int", "far", "small", "date", "gaps", "text", "float"]


def frame(kind: str, value: str) -> pandas.DataFrame:
    return pandas.DataFrame({"k": keys(kind), value: RANDOM.integers(0, 50, ROWS), f"{value}s": np.arange(ROWS) / 3})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_merge(kind, how):
    left, right = frame(kind, "a"), frame(kind, "b")
    if kind in ("small", "text"):
        left, right = left.head(2000), right.tail(2000)
    check(lambda pd, a, b: a.merge(b, on="k", how=how), left, right)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ascending", [True, False])
def test_sort(kind, ascending):
    data = frame(kind, "a")
    check(lambda pd, f: f.sort_values("k", ascending=ascending, kind="stable"), data)
    check(lambda pd, f: f.sort_values(["a", "k"], ascending=[ascending, True], na_position="first"), data)
    native = None if kind == "small" else True
    check(lambda pd, f: f.set_index("k").sort_index(ascending=ascending, kind="stable"), data, native=native)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropna", [True, False])
def test_group(kind, dropna):
    data = pandas.concat([frame(kind, "a") for _ in range(5)], ignore_index=True)
    check(lambda pd, f: f.groupby("k", dropna=dropna).agg({"a": "sum", "as": ["min", "count"]}), data)
    check(lambda pd, f: f.groupby("k", as_index=False, dropna=dropna)["a"].first(), data)
    check(lambda pd, f: f.groupby("k", sort=False, dropna=dropna)["a"].max(), data)


def test_pipeline():
    left, right = frame("int", "a"), frame("int", "b")

    def program(pd, a, b):
        totals = a.merge(b, on="k").groupby("k", as_index=False).agg({"a": "sum", "b": "sum"})
        return totals.sort_values("a", kind="stable") + 7

    check(program, left, right)


def test_counted_only():
    check(
        lambda pd, a, b: (len(a.merge(b, on="k")), a.merge(b, on="k", how="left")["bs"].count()),
        frame("int", "a"),
        frame("int", "b"),
    )
