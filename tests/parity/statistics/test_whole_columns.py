"""Correlations, covariances, skewness, kurtosis, modes, extremes and interpolation of columns, in programs against pandas."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check
from test_along_columns import FLOATS, FRAME, FRAMES
from test_tiles import engine

from craton.engine.tiled import using

#: pandas warns of infinities and of too few values.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "call",
    [
        lambda df: df.corr(),
        lambda df: df.corr(numeric_only=True),
        lambda df: df.corr("spearman", min_periods=3),
        lambda df: df.corr(method="kendall"),
        lambda df: df.corr(method="nonsense"),
        lambda df: df.corr(method=lambda a, b: 0.5),
        lambda df: df.cov(),
        lambda df: df.cov(min_periods=5, ddof=0),
        lambda df: df.cov(numeric_only=True),
        lambda df: df.skew(),
        lambda df: df.kurt(numeric_only=True),
        lambda df: df.kurtosis(skipna=False),
        lambda df: df.mode(),
        lambda df: df.mode(dropna=False, numeric_only=True),
        lambda df: df.idxmax(),
        lambda df: df.idxmin(numeric_only=True),
        lambda df: df.idxmin(skipna=False),
        lambda df: df.corrwith(df.iloc[:, 0]),
        lambda df: df.corrwith(df.iloc[:, 0], method="spearman"),
        lambda df: df.corrwith(-df.iloc[:, :1]),
        lambda df: df.corrwith(-df.iloc[:, :1], drop=True),
        lambda df: df.corrwith(df.iloc[0], axis=1),
        lambda df: df.interpolate(),
        lambda df: df.interpolate(limit=1, limit_direction="both"),
        lambda df: df.interpolate(method="index"),
        lambda df: df.interpolate(limit_area="inside"),
        lambda df: df.interpolate(limit_direction="backward", limit_area="outside"),
        lambda df: df.agg(["skew", "sum"]),
        lambda df: df.agg(["count", "size", "nunique"]),
        lambda df: df.agg(["idxmin"]),
        lambda df: df.agg("size"),
        lambda df: df.agg(low=("f", "min"), high=("g", "skew")),
    ],
)
def test_frames(kind, call):
    check(lambda pd, df: call(df), FRAMES[kind], native=None, rtol=1e-5 if kind == "float32" else 1e-12)


def test_planned():
    for call in (
        lambda df: df.corr(),
        lambda df: df.cov(),
        lambda df: df.corrwith(df["f"]),
        lambda df: df["f"].corr(df["g"]),
        lambda df: df["f"].cov(df["g"], min_periods=2),
        lambda df: df["f"].dot(df["g"]),
        lambda df: df["f"].autocorr(2),
        lambda df: df.skew(),
        lambda df: df["f"].kurt(),
        lambda df: df.mode(),
        lambda df: df.idxmax(),
        lambda df: df.interpolate(),
        lambda df: df["f"].value_counts(bins=2),
        lambda df: df["f"].mode(dropna=False),
        lambda df: df.agg(["skew", "kurt"]),
        lambda df: df.agg(low=("f", "min"), high=("g", "max")),
    ):
        check(lambda pd, df, call=call: call(df), FLOATS.replace(np.inf, 7.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda df: df["f"].corr(df["g"][::-1]),
        lambda df: df["f"].corr(df["g"].reset_index(drop=True)),
        lambda df: df["f"].corr(df["i"], method="kendall"),
        lambda df: df["b"].corr(df["i"]),
        lambda df: df["f"].corr(3),
        lambda df: df["f"].cov(df["i"], ddof=0),
        lambda df: df["i"].autocorr(),
        lambda df: df["i"].skew(),
        lambda df: df["f"].interpolate("linear"),
        lambda df: df["f"].interpolate(limit=0),
        lambda df: df["f"].interpolate(limit_direction="nowhere"),
        lambda df: df["f"].interpolate(inplace=True),
        lambda df: df.reset_index()["f"].interpolate(method="values"),
        lambda df: df["i"].interpolate(),
        lambda df: df["b"].interpolate(),
        lambda df: df["g"].set_axis(pandas.date_range("2024", periods=6)).interpolate("time"),
        lambda df: df["i"].value_counts(bins=[0, 2, 9]),
        lambda df: df["i"].value_counts(bins=3, normalize=True, sort=False),
        lambda df: df["i"].astype("category").value_counts(),
        lambda df: df["i"].astype("category").mode(),
        lambda df: pandas.Series(df.index).astype("datetime64[ns]").mean(),
    ],
)
def test_series(call):
    check(lambda pd, df: call(df), FRAME, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.mean(),
        lambda s: s.median(),
        lambda s: s.std(),
        lambda s: s.sem(),
        lambda s: s.sum(),
        lambda s: s.mean(skipna=False),
        lambda s: s.describe(),
        lambda s: s.iloc[:0].mean(),
    ],
)
@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_times(call, unit):
    times = pandas.Series(
        pandas.to_datetime(["2020-01-01", None, "2021-06-01 12:30", "1999-12-31"], format="ISO8601")
    ).astype(f"M8[{unit}]")
    check(lambda pd, s: call(s), times, native=None)
    check(lambda pd, s: call(s), times - pandas.Timestamp("2000-01-01"), native=None)


@pytest.mark.parametrize("tiles", [None, 1, 3, 7])
def test_programs(tiles):
    rng = np.random.default_rng(7)
    table = pandas.DataFrame(rng.normal(size=(60, 3)).round(1), columns=list("xyz")).mask(rng.random((60, 3)) < 0.2)
    table["k"] = rng.integers(0, 3, 60)
    table["s"] = rng.choice(list("ab"), 60)

    def program(pd, df):
        some = df[df["k"] > 0]
        matrix = some.corr(numeric_only=True)
        strongest = matrix.abs().idxmin()
        first = some["x"].corr(some["y"])
        df["x"] = 0.0  # after the call
        filled = some[["x", "y"]].interpolate(limit_direction="both")
        shapes = some[["x", "y", "z"]].agg(["skew", "kurt"])
        rows = some[["x", "y", "z"]].idxmax()
        modes = some.groupby("k")["s"].count(), some[["k", "s"]].mode()
        return (
            matrix,
            strongest,
            first,
            filled.sum(),
            filled.corrwith(some["z"]),
            shapes,
            rows,
            some.loc[rows["x"], "k"],
            modes,
        )

    with using(None if tiles is None else engine(tiles, 0)):
        check(program, table, native=None)
