"""Group-bys by periods of time (``dt.to_period``): the rows are grouped in the plan, and pandas makes the labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.memory import clear_memory

Program = Callable[..., Any]


def table(rows: int = 400) -> pandas.DataFrame:
    """A table with days, of which some are missing in ``gaps``, and values to aggregate."""
    rng = np.random.default_rng(rows)
    days = pandas.to_datetime(rng.integers(0, 400, rows), unit="D")
    return pandas.DataFrame(
        {
            "day": days,
            "gaps": days.where(rng.random(rows) > 0.1),
            "k": rng.integers(0, 4, rows),
            "v": rng.integers(-9, 99, rows) * 0.25,
            "w": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 9, rows)),
            "s": rng.choice(list("ab"), rows),
            "c": pandas.Categorical(rng.choice(list("xyz"), rows)),
        }
    )


METHODS = ["sum", "mean", "size", "count", "first", "last", "min", "max", "std", "median", "nunique"]
METHODS += ["cumsum", "cumcount", "shift", "diff", "rank", "pct_change"]

PROGRAMS: dict[str, Program] = {
    name: lambda pd, df, by, name=name: getattr(df.groupby(by)["v"], name)() for name in METHODS
}
PROGRAMS |= {
    "broadcast": lambda pd, df, by: (df["v"] - df.groupby(by)["v"].transform("mean")).abs().sum(),
    "several": lambda pd, df, by: df.groupby(by)["v"].agg(["size", "mean"]),
    "named": lambda pd, df, by: df.groupby(by).agg(a=("v", "sum"), b=("w", "count"), c=("s", "first")),
    "first rows": lambda pd, df, by: df.groupby(by).head(2)["v"],
    "of several keys": lambda pd, df, by: df.groupby([by, "k"])["v"].sum(),
    "as columns": lambda pd, df, by: df.groupby(["s", by])[["v", "w"]].mean().unstack(0),
    "as they come": lambda pd, df, by: df.groupby(by, sort=False)["v"].sum(),
    "not as labels": lambda pd, df, by: df.groupby(by, as_index=False)["v"].sum(),
    "with categories": lambda pd, df, by: df.groupby([by, "c"], observed=False)["v"].sum(),
    "then a difference": lambda pd, df, by: df.groupby(by)[["v", "w"]].sum().reset_index(drop=True).diff(),
    "labels": lambda pd, df, by: [df.groupby(by)["v"].sum().index, df.groupby(by)["v"].sum().index.freqstr],
    "by a period": lambda pd, df, by: df.groupby(by)["v"].sum().get(by.dropna().iloc[0] if len(by.dropna()) else None),
    "by a function": lambda pd, df, by: df.groupby(by)["v"].apply(lambda values: values.max() - values.min()),
    "with missing keys": lambda pd, df, by: df.groupby(by, dropna=False)["v"].sum(),
    "changed afterwards": lambda pd, df, by: [
        df.groupby(by)["v"].sum(),
        df.__setitem__("v", 1.0),
        df.groupby(by)["v"].sum(),
    ],
    "frames": lambda pd, df, by: [(str(label), len(rows)) for label, rows in df.groupby(by)],
    "kept rows": lambda pd, df, by: df.groupby(by).filter(lambda rows: len(rows) > 20)["v"],
    "counts": lambda pd, df, by: df.groupby(by)["k"].value_counts(),
}


@pytest.mark.parametrize("column", ["day", "gaps"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_pandas(name: str, column: str) -> None:
    for frequency in ("M", "Q", "W"):
        clear_memory()
        check(
            lambda pd, df, frequency=frequency: PROGRAMS[name](pd, df, df[column].dt.to_period(frequency)),
            table(),
            native=None,
        )


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("name", ["sum", "size", "cumsum", "named", "labels", "of several keys"])
def test_few_rows(name: str, rows: int) -> None:
    for column in ("day", "gaps"):
        check(
            lambda pd, df, column=column: PROGRAMS[name](pd, df, df[column].dt.to_period("M")), table(rows), native=None
        )


def test_all_periods_missing() -> None:
    data = table(20).assign(gaps=pandas.NaT)
    for name in ("sum", "cumsum", "size"):
        check(lambda pd, df, name=name: PROGRAMS[name](pd, df, df["gaps"].dt.to_period("M")), data, native=None)


@pytest.mark.parametrize("name", ["sum", "mean", "broadcast", "named", "of several keys", "cumsum"])
def test_rows_are_grouped_in_the_plan(name: str) -> None:
    periods = table()["day"].dt.to_period("M")
    check(lambda pd, df, by: PROGRAMS[name](pd, df, by), table(), periods.array)


def test_periods_of_another_table() -> None:
    check(lambda pd, df: df.groupby(df.iloc[::-1]["day"].dt.to_period("M"))["v"].sum(), table(), native=None)
    check(lambda pd, df: df[df["k"] > 1].groupby(df["day"].dt.to_period("M"))["v"].sum(), table(), native=None)
    check(lambda pd, df: df.groupby(pandas.PeriodIndex(df["day"].dt.to_period("M")))["v"].sum(), table(), native=None)
