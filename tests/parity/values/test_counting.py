"""value_counts, unique, mode and other methods of distinct values, against pandas."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas
import pytest
from support import check
from test_reductions import FRAMES, SERIES
from test_tiles import engine

from craton.engine.tiled import using

MORE = {
    **SERIES,
    "ties": pandas.Series([3, 1, 3, 2, 1, 2], name="n"),
    "float ties": pandas.Series([0.5, np.nan, 0.5, np.nan, -1, 0.0, -0.0]),
    "strings": pandas.Series(["b", "a", None, "b", "a", "c", None], name="s"),
    "times": pandas.Series(pandas.to_datetime(["2020-01-01", None, "2020-01-01", "1999-01-01"])),
    "rising": pandas.Series([1, 2, 2, 3]),
    "falling": pandas.Series([3.5, 2.5, 2.5]),
    "labels": pandas.Series([1.5, 0.5, np.nan, 2.5, 0.5, 2.5], index=list("uvwxyz")),
    "rising strings": pandas.Series(["a", "b", "b"]),
    "one nan": pandas.Series([np.nan]),
}


@pytest.mark.parametrize("kind", MORE)
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.value_counts(),
        lambda s: s.value_counts(normalize=True),
        lambda s: s.value_counts(ascending=True),
        lambda s: s.value_counts(sort=False),
        lambda s: s.value_counts(dropna=False),
        lambda s: s.value_counts(normalize=True, dropna=False),
        lambda s: s.value_counts(bins=2),
        lambda s: s.unique(),
        lambda s: s.mode(),
        lambda s: s.mode(dropna=False),
        lambda s: s.is_unique,
        lambda s: s.hasnans,
        lambda s: s.is_monotonic_increasing,
        lambda s: s.is_monotonic_decreasing,
        lambda s: s.idxmin(),
        lambda s: s.idxmax(),
        lambda s: s.argmin(),
        lambda s: s.argmax(),
        lambda s: s.idxmax(skipna=False),
        lambda s: (s.first_valid_index(), s.last_valid_index()),
        lambda s: s.shift(2).first_valid_index(),
        lambda s: s.iloc[:0].first_valid_index(),
        lambda s: s.nunique(),
        lambda s: s.value_counts().head(2),
        lambda s: s.value_counts().index.tolist(),
    ],
)
def test_series(kind, call):
    check(lambda pd, s: call(s), MORE[kind], native=None)


@pytest.mark.parametrize("call", [
    lambda s: s.value_counts(), lambda s: s.value_counts(normalize=True), lambda s: s.unique(), lambda s: s.mode(),
    lambda s: s.is_unique, lambda s: s.is_monotonic_increasing, lambda s: s.first_valid_index(),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["ties", "float ties", "strings", "times"])
def test_series_is_planned(kind, call):
    check(lambda pd, s: call(s), MORE[kind])


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.value_counts(),
        lambda df: df.value_counts(normalize=True),
        lambda df: df.value_counts(df.columns[0]),
        lambda df: df.value_counts([df.columns[0]]),
        lambda df: df.value_counts(list(df.columns[:2]), ascending=True),
        lambda df: df.value_counts(dropna=False),
        lambda df: df.value_counts(sort=False),
        lambda df: df.value_counts("nope"),
        lambda df: df.value_counts([]),
    ],
)
def test_frame(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None)


def test_frame_is_planned():
    check(lambda pd, df: df.value_counts(), FRAMES["numbers"])
    check(lambda pd, df: df.value_counts(["i", "b"]), FRAMES["numbers"])


def test_positions_of_many():
    values = pandas.Series(np.random.default_rng(0).integers(0, 100, 300_000))
    check(lambda pd, s: (s.argmin(), s.argmax(), s.idxmin(), s.idxmax()), values)


@pytest.mark.parametrize("tiles", [None, 1, 2, 3, 7])
@pytest.mark.parametrize("index", ["default", "texts", "levels", "times"])
def test_labels_of_valid_rows_in_programs(tiles, index):
    """After rows were moved, dropped or set to missing, the labels are those of the rows at that point."""
    rows = 23
    frame = pandas.DataFrame({"k": [i % 4 for i in range(rows)], "t": [(i * 7) % rows for i in range(rows)]})
    frame["x"] = pandas.Series([np.nan if i % 5 < 2 or i > 19 else i / 2 for i in range(rows)])
    frame["s"] = pandas.Series([None if i % 3 else f"v{i}" for i in range(rows)], dtype="str")
    frame.index = {
        "default": frame.index,
        "texts": pandas.Index([f"r{i}" for i in range(rows)], name="label"),
        "levels": pandas.MultiIndex.from_arrays([frame["k"], frame["t"]]),
        "times": pandas.date_range("2020-01-01", periods=rows),
    }[index]

    def both(s):
        return s.first_valid_index(), s.last_valid_index()

    programs = [
        lambda pd, df: both(df["x"]),
        lambda pd, df: both(df.sort_values("t")["x"]),
        lambda pd, df: both(df[df["t"] > 9].sort_values("t", ascending=False)["s"]),
        lambda pd, df: both(df.sort_values("t")["x"].shift(3).where(df["k"] != 1)),
        lambda pd, df: both(df.groupby("k")["x"].shift(2)),
        lambda pd, df: both(df.groupby("k")["x"].min().where(lambda s: s > 100)),
        lambda pd, df: both(df[df["t"] > 99]["x"]),
        lambda pd, df: df.loc[df.sort_values("t")["x"].first_valid_index()].tolist(),
    ]
    with contextlib.nullcontext() if tiles is None else using(engine(tiles, 1)):
        for program in programs:
            check(program, frame, native=None)
