"""Selection of rows and columns, and setting, against pandas."""

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
LABELLED = FRAME.set_axis(["v", "w", "x", "y", "z"])
DUPLICATED = FRAME.set_axis([1, 1, 2, 3, 2])
FRAMES = {"default": FRAME, "labels": LABELLED, "duplicates": DUPLICATED, "empty": FRAME[:0]}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


@pytest.mark.parametrize("n", [0, 1, 3, 5, 9, -1, -3, -9])
@pytest.mark.parametrize("end", ["head", "tail"])
def test_head_tail(frame, n, end):
    check(lambda pd, df: getattr(df, end)(n), frame)
    check(lambda pd, df: getattr(df["i"], end)(n), frame)
    check(lambda pd, df: getattr(df[df.i > 1], end)(n), frame)


@pytest.mark.parametrize("start", [None, 0, 2, 9, -2, -9])
@pytest.mark.parametrize("stop", [None, 0, 3, 9, -1, -9])
def test_iloc_slice(frame, start, stop):
    check(lambda pd, df: df.iloc[start:stop], frame)
    check(lambda pd, df: df.iloc[start:stop, 1:3], frame)
    check(lambda pd, df: df.f.iloc[start:stop], frame)
    check(lambda pd, df: df[df.i > 1].iloc[start:stop], frame, native=None)


@pytest.mark.parametrize(
    "columns", ["i", ["i", "s"], slice("f", "t"), slice(None), ["i", "i"], [True, False, True, False, False], "nope", ["i", "nope"]]
)
def test_loc_mask_and_columns(frame, columns):
    check(lambda pd, df: df.loc[df.i > 2, columns], frame, native=None if "nope" in str(columns) else True)
    check(lambda pd, df: df.loc[:, columns], frame, native=None if "nope" in str(columns) else True)
    check(lambda pd, df: df.loc[lambda d: d.b, columns], frame, native=None if "nope" in str(columns) else True)


def test_loc_mask_of_series(frame):
    check(lambda pd, df: df.f.loc[df.i > 2], frame)
    check(lambda pd, df: df.f[df.i > 2], frame)


@pytest.mark.parametrize(
    "value",
    [7, 2.5, "x", True, None, np.nan, np.int8(3), np.float32(1.5), pandas.Timestamp("2020-01-01"),
     pandas.Timestamp("2020-01-01", tz="Europe/Berlin"), pandas.Timestamp("2020-01-01 00:00:00.123456789"),
     pandas.Timedelta("1D"), np.datetime64("2020-01-01"), pandas.NaT, pandas.NA, 2**63, 2**70],
)  # fmt: skip
def test_set_scalar(frame, value):
    def program(pd, df):
        before = df.copy()
        view = df[["i", "f"]]
        df["new"] = value
        df["i"] = value
        return df, before, view, df[df.b]["new"]

    check(program, frame, native=None)


def test_set_scalar_is_planned():
    def program(pd, df):
        df["new"] = 1.5
        return df.assign(a=1, b=lambda d: d.a + d.new, c="x")

    check(program, FRAME)


def test_assign_aligned_series(frame):
    check(lambda pd, df: df.assign(j=df.i * 2, k=lambda d: d.j + 1), frame)


def test_assign_other_rows():
    check(lambda pd, df: df.assign(j=df[df.i > 2].i), FRAME, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.drop(columns="i"),
        lambda df: df.drop(columns=["i", "s"]),
        lambda df: df.drop("i", axis=1),
        lambda df: df.drop(["i"], axis="columns"),
        lambda df: df.drop(columns=["i", "nope"], errors="ignore"),
        lambda df: df.drop(columns=df.columns[:2]),
        lambda df: df.rename(columns={"i": "I"}),
        lambda df: df.rename(columns=str.upper),
        lambda df: df.rename({"i": 0}, axis=1),
        lambda df: df.filter(["s", "nope", "i"]),
        lambda df: df.filter(items=["s", "i"]),
        lambda df: df.filter(like="i"),
        lambda df: df.filter(regex="^[fs]"),
        lambda df: df.i.to_frame(),
        lambda df: df.i.to_frame("x"),
        lambda df: df.i.rename("x"),
        lambda df: df.i.rename(("a", 1)).to_frame(),
        lambda df: df.i.rename(None),
    ],
)
def test_columns(frame, call):
    check(lambda pd, df: call(df), frame)


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.drop(columns="nope"),
        lambda df: df.drop(columns=["i", "nope"]),
        lambda df: df.rename(columns={"nope": "x"}, errors="raise"),
        lambda df: df.filter(),
        lambda df: df.filter(items=["i"], like="x"),
        lambda df: df.rename(),
        lambda df: df.head("3"),
        lambda df: df.iloc["a":],
        lambda df: df.drop(0),
        lambda df: df.i.rename({0: 9}),
        lambda df: df.iloc[:, 9],
        lambda df: df.loc[0],
    ],
)
def test_what_pandas_refuses_or_does_itself(frame, call):
    check(lambda pd, df: call(df), frame, native=None)


def test_inplace():
    def program(pd, df):
        other = df.copy()
        with pandas.option_context():
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = [df.drop(columns="i", inplace=True), df.rename(columns={"f": "g"}, inplace=True)]
        return df, other, [r is None for r in results]

    check(program, FRAME)


def test_inplace_warns_as_pandas():
    with pytest.warns(pandas.errors.Pandas4Warning, match="inplace keyword in DataFrame.drop") as caught:
        check(lambda pd, df: df.drop(columns="i", inplace=True), FRAME)
    assert all(warning.filename == __file__ for warning in caught)
