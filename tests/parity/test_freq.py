"""The frequency of a DatetimeIndex: kept where the rows stay, dropped where they don't."""

from __future__ import annotations

import itertools

import numpy as np
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
        lambda df: df[::2].truncate(),
        lambda df: df[::2].truncate(before=df.index[1]),
        lambda df: df.sort_index(ascending=False).truncate(after="2020-01-02"),
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


@pytest.mark.parametrize("freq", ["D", "B", "2h", "-1D", "ME"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_the_freq_of_rows_that_a_mask_chooses(rows, freq):
    """Of a Series it is left where they are neighbours, of a frame where they are every k-th row too."""

    def run(pd):
        results = []
        for chosen in itertools.product([False, True], repeat=rows):
            mask = np.array(chosen)
            index = pd.date_range("2020-01-03", periods=rows, freq=freq)
            series = pd.Series(np.where(mask, 1.0, np.nan), index=index)
            frame = series.to_frame("a")
            tables = [
                series.dropna(),
                series[mask],
                series[pd.Series(mask, index=index)],
                series.loc[mask],
                series[series > 0],
                frame["a"][mask],
                frame[mask],
                frame.loc[mask],
                frame.dropna(),
                frame[frame["a"].notna()],
                frame.query("a > 0"),
            ]
            results += [str(table.index.freq) for table in tables]
        return results

    check(run, native=None)


@pytest.mark.parametrize("method", ["size", "nunique", "first", "std"])
@pytest.mark.parametrize("keys", [{"level": 0}, {"level": 0, "sort": False}, {"by": "d"}, {"by": ["d"]}], ids=str)
@pytest.mark.parametrize(
    "choose",
    [lambda df: df, lambda df: df[::2], lambda df: df[::-1], lambda df: df[df.b > 2], lambda df: df[df.b != 2]],
    ids=["all", "every other", "backwards", "behind", "with a gap"],
)
def test_groups_by_the_labels_keep_it(choose, keys, method):
    def run(pd, df):
        result = getattr(choose(df).groupby(**keys), method)()
        return result, str(result.index.freq)

    check(run, FRAME.rename_axis("d"), native=None)
