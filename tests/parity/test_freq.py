"""The frequency of a DatetimeIndex: kept where the rows stay, dropped where they don't."""

from __future__ import annotations

import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {"a": [3.0, 1.0, 2.0, 5.0], "b": [1, 2, 3, 4]}, index=pandas.date_range("2020-01-01", periods=4, freq="D")
)


@pytest.mark.parametrize(
    "program",
    [
        lambda df: df[["a"]],
        lambda df: df["a"] + df["b"],
        lambda df: df.assign(c=df.a * 2),
        lambda df: df.head(2),
        lambda df: df.iloc[1:3],
        lambda df: df[df.a > 1],
        lambda df: df[::2],
        lambda df: df[::-1],
        lambda df: df.take([0, 2]),
        lambda df: df.loc[df.b % 2 == 1],
        lambda df: df.loc["2020-01-02":],
        lambda df: df[df.a > 1].iloc[[1, 2]],
        lambda df: df[df.b == 2],
        lambda df: df[df.b > 9],
        lambda df: df.dropna(),
        lambda df: df[df.a > 0],
        lambda df: df.sort_values("b", kind="stable"),
        lambda df: df.sort_values("a", kind="stable"),
        lambda df: df.reset_index(drop=True).set_axis(df.index),
        lambda df: df.sort_values("a").set_axis(df.index).head(2),
        lambda df: df.loc[list(df.index)],
    ],
)
def test_freq(program):
    def run(pd, df):
        result = program(df)
        return result, str(result.index.freq)

    check(run, FRAME, native=None)


def test_setting_the_freq_is_seen():
    def run(pd, df):
        first = df[["a"]]
        df.index.freq = None
        return first, str(df[["b"]].index.freq)

    check(run, FRAME, native=None)
