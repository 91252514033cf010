"""Reductions along the columns, and operators and methods with an argument for each column or row, in programs against pandas."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check
from test_tiles import engine

from craton.engine.tiled import using

#: pandas warns of infinities and of too few values.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

N = np.nan
FRAME = pandas.DataFrame(
    {
        "i": [3, 1, 2, 5, 4, -3],
        "j": np.array([1, 2, 3, 4, 5, -6], dtype="int8"),
        "f": [1.5, N, -0.0, 2.5, np.inf, -3.25],
        "g": [0.5, N, N, 2.5, 3.0, 0.0],
        "b": [True, False, True, True, False, False],
    },
    index=[4, 3, 3, 1, 0, 9],
)
FLOATS = FRAME[["f", "g"]].assign(h=[N, N, 4.0, 1.0, -2.0, 0.5])
FRAMES = {
    "mixed": FRAME,
    "numbers": FRAME[["i", "f", "g"]],
    "floats": FLOATS,
    "float32": FLOATS.astype("float32"),
    "ints": FRAME[["i", "j"]],
    "bools": FRAME[["b"]].assign(c=[False, True, False, True, False, True]),
    "bools and ints": FRAME[["b", "i"]],
    "nullable": FRAME[["i", "j"]].astype("Int64").where(FRAME["i"] > 1),
    "nullable floats": FLOATS.astype("Float64"),
    "one column": FRAME[["f"]],
    "empty": FRAME.iloc[:0],
    "empty floats": FLOATS.iloc[:0],
    "labels": FLOATS.set_axis(["a", "b", "a"], axis=1),
    "texts": FRAME[["i"]].assign(s=["x", None, "y", "x", "z", ""]),
    "levels": FLOATS.set_index(pandas.MultiIndex.from_arrays([list("aabbcc"), range(6)], names=["k", None])),
}
NAMES = [
    "sum",
    "prod",
    "mean",
    "median",
    "min",
    "max",
    "std",
    "var",
    "sem",
    "skew",
    "kurt",
    "count",
    "nunique",
    "any",
    "all",
]


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", NAMES)
def test_reductions(kind, name):
    rtol = 1e-5 if kind == "float32" else 1e-12
    check(lambda pd, df: getattr(df, name)(axis=1), FRAMES[kind], native=None, rtol=rtol)
    if name not in ("count", "nunique"):
        check(lambda pd, df: getattr(df, name)(axis="columns", skipna=False), FRAMES[kind], native=None, rtol=rtol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["numbers", "floats", "ints"])
def test_reductions_are_planned(kind, name):
    check(lambda pd, df: getattr(df, name)(axis=1), FRAMES[kind])


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.sum(axis=1, min_count=2),
        lambda df: df.prod(axis=1, min_count=1),
        lambda df: df.sum(axis=1, numeric_only=True),
        lambda df: df.std(axis=1, ddof=0),
        lambda df: df.any(axis=None),
        lambda df: df.all(axis=None),
        lambda df: df.max(axis=None),
        lambda df: df.count(axis=1, numeric_only=True),
        lambda df: df.nunique(axis=1, dropna=False),
        lambda df: df.idxmax(axis=1),
        lambda df: df.idxmin(axis=1, skipna=False),
        lambda df: df.idxmin(axis=1, numeric_only=True),
        lambda df: df.ffill(axis=1),
        lambda df: df.bfill(axis=1).iloc[:, 0],
        lambda df: df.isna().sum(axis=1),
        lambda df: df[df.isna().any(axis=1)],
        lambda df: df[df.notna().all(axis=1)].sum(axis=1),
        lambda df: df.agg("sum", axis=1),
        lambda df: df.agg("max", axis=1),
        lambda df: np.sum(df, axis=1),
        lambda df: np.mean(df, axis=1),
        lambda df: df.quantile(0.25, axis=1),
        lambda df: df.quantile(axis=1, interpolation="lower", numeric_only=True),
        lambda df: df.quantile([0.5], axis=1),
        lambda df: df.cumsum(axis=1),
        lambda df: df.cumprod(axis="columns", skipna=False),
        lambda df: df.cummax(axis=1),
        lambda df: df.diff(axis=1),
        lambda df: df.diff(-1, axis=1),
        lambda df: df.shift(axis=1),
        lambda df: df.shift(-2, axis=1),
        lambda df: df.shift(1, axis=1, fill_value=0),
        lambda df: df.rank(axis=1),
        lambda df: df.rank(axis=1, method="min", pct=True, na_option="bottom"),
        lambda df: df.transform("abs"),
        lambda df: df.transform("cumsum"),
        lambda df: df.transform(np.sign),
        lambda df: df.iloc[:, 0].transform(np.exp),
        lambda df: df.iloc[:, 0].transform("diff", 0, 2),
        lambda df: df.transform("nonsense"),
        lambda df: df.apply("sum"),
        lambda df: df.apply("max", axis=1),
        lambda df: df.apply(np.floor),
        lambda df: df.sum(axis=2),
        lambda df: df.sum(axis=1, skipna=None),
    ],
)
def test_options(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None, rtol=1e-5 if kind == "float32" else 1e-12)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df - df.mean(),
        lambda df: (df - df.mean()) / df.std(),
        lambda df: (df - df.min()) / (df.max() - df.min()),
        lambda df: df.mean() - df,
        lambda df: df / df.sum(),
        lambda df: df * df.iloc[0],
        lambda df: df > df.median(),
        lambda df: df.eq(df.max()),
        lambda df: df.sub(df.min(), axis=1),
        lambda df: df.rsub(df.min(), axis="columns"),
        lambda df: df.div(df.sum(axis=1), axis=0),
        lambda df: df + [2] * df.shape[1],
        lambda df: df * np.arange(df.shape[1]),
        lambda df: df * np.arange(df.shape[1], dtype="float32"),
        lambda df: df // df.max(),
        lambda df: df - df.mean()[::-1],
        lambda df: df + df.count(),
        lambda df: df * [1],
        lambda df: df.add({"f": 1, "g": 2.5, "h": 0}),
        lambda df: df.add(df.mean(), fill_value=0),
    ],
)
def test_operators(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None, rtol=1e-5 if kind == "float32" else 1e-12)


def test_operators_are_planned():
    for kind in ("numbers", "floats", "ints"):
        check(lambda pd, df: (df - df.mean()) / df.std(), FRAMES[kind])
        check(lambda pd, df: df.mean() - df, FRAMES[kind])
        check(lambda pd, df: df.div(df.sum(axis=1), axis=0), FRAMES[kind])


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.fillna(df.mean(numeric_only=True)),
        lambda df: df.fillna(df.max()),
        lambda df: df.fillna(-df),
        lambda df: df.clip(df.quantile(0.25), df.quantile(0.75), axis=1),
        lambda df: df.clip(lower=[0.5] * df.shape[1], axis=1),
        lambda df: df.clip(upper=df.iloc[:, 0], axis=0),
        lambda df: df.clip(lower=df.iloc[:, 0]),
        lambda df: df.where(df > 0, df.mean(), axis=1),
        lambda df: df.mask(df > 0, df.iloc[:, 0], axis=0),
        lambda df: df.where(df > 0, 1, axis=0),
        lambda df: df.round({"f": 1, "i": -1, "none": 3}),
        lambda df: df.round(pandas.Series({"f": 1, "h": 0})),
        lambda df: df.round(1),
        lambda df: df.dropna(axis=1),
        lambda df: df.dropna(axis="columns", how="all"),
        lambda df: df.dropna(axis=1, thresh=4),
        lambda df: df.dropna(axis=1, thresh=0).sum(numeric_only=True),
        lambda df: df.dropna(axis=1, ignore_index=True),
        lambda df: df.dot(df.count()),
        lambda df: df @ np.arange(df.shape[1]),
        lambda df: df.dot(np.ones(df.shape[1] + 1)),
    ],
)
def test_arguments_by_label(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None, rtol=1e-5 if kind == "float32" else 1e-12)


def test_arguments_by_label_are_planned():
    for call in (
        lambda df: df.fillna(df.mean()),
        lambda df: df.fillna(df * 0 + 1),
        lambda df: df.clip(lower=df.quantile(0.25), axis=1),
        lambda df: df.clip(upper=df["f"], axis=0),
        lambda df: df.where(df > 0, df.mean(), axis=1),
        lambda df: df.round({"f": 1}),
        lambda df: df.dropna(axis=1),
        lambda df: df.dot(df.count()),
        lambda df: df["f"].clip(df["g"], df["h"]),
        lambda df: df["f"].clip(lower=0.5, upper=df["h"]),
    ):
        check(lambda pd, df, call=call: call(df), FLOATS)


@pytest.mark.parametrize("tiles", [None, 1, 3, 7])
def test_programs(tiles):
    rng = np.random.default_rng(4)
    table = pandas.DataFrame(rng.normal(size=(50, 4)).round(2), columns=list("abcd")).mask(rng.random((50, 4)) < 0.3)
    table["k"] = rng.integers(0, 3, 50)

    def program(pd, df):
        numbers = df[["a", "b", "c", "d"]]
        lows = numbers.quantile(0.1)
        clipped = numbers.clip(lows, numbers.quantile(0.9), axis=1)
        lows.iloc[:] = 0  # after the call
        complete = clipped[clipped.notna().sum(axis=1) >= 3]
        look = complete.head(3).mean(axis=1)
        best = complete.dropna(how="all").idxmax(axis=1)
        scaled = (complete - complete.mean()) / complete.std()
        spread = scaled.max(axis=1) - scaled.min(axis=1)
        weights = np.array([1.0, 2.0, 0.5, 0.0])
        total = scaled.fillna(scaled.mean()).dot(weights)
        weights[:] = 0
        filled = complete["a"].interpolate(limit=1)
        return look, best, spread, total.abs().sum(), filled, complete.mean(axis=1).groupby(df["k"]).mean()

    with using(None if tiles is None else engine(tiles, 0)):
        check(program, table, native=None)
