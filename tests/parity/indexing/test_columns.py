"""Column selection, masks and assignment against pandas."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5, 4],
        "f": [1.5, np.nan, -0.0, 2.5, np.inf],
        "s": ["b", None, "a", "c", "b"],
        "t": pandas.to_datetime(["2020-01-01", "2021-06-01", None, "1999-12-31", "2020-01-02"]),
        "b": [True, False, True, True, False],
    }
)


@pytest.mark.parametrize("key", ["i", ["i"], ["s", "i"], ["f", "f"]])
def test_select(key):
    check(lambda pd, df: df[key], FRAME)


@pytest.mark.parametrize(
    "mask",
    [
        lambda df: df.i > 2,
        lambda df: df.f > 1,
        lambda df: df.f != 1.5,
        lambda df: df.s == "b",
        lambda df: df.s != "b",
        lambda df: (df.f < 2) | ~(df.i >= 3),
        lambda df: df.t >= "2020-01-01",
        lambda df: df.b,
    ],
)
def test_filter(mask):
    check(lambda pd, df: df[mask(df)], FRAME)


def test_unknown_column_raises_as_pandas():
    check(lambda pd, df: df["nope"], FRAME, native=None)


def test_assignment_is_copy_on_write():
    def program(pd, df):
        other = df[["i", "f"]]
        other["g"] = other.i * 2.0 + other.f
        other["i"] = other.i + 1
        return other, df

    check(program, FRAME)


@pytest.mark.parametrize("first", ["s", "ns"])
def test_equal_scalars_of_different_units(first):
    def run(pd, df):
        spans = [pandas.Timedelta(days=1).as_unit(unit) for unit in (first, "s", "ms", "ns")]
        return [df["a"] * span for span in spans], [df["a"] * span.to_timedelta64() for span in spans]

    check(run, pandas.DataFrame({"a": [1, 2, 3]}), native=None)
