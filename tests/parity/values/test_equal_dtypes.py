"""Dtypes that compare equal but differ: a result cached for one must not be used for the other."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd

STEPS: dict[str, Callable[[Any], Any]] = {
    "first": lambda df: df.groupby("k")["c"].first(),
    "last of frames": lambda df: df.groupby("k").last(),
    "groups": lambda df: df.groupby("c", observed=True)["k"].sum(),
    "shift of groups": lambda df: df.groupby("k").shift(1),
    "filled groups": lambda df: df.groupby("k").ffill(),
    "nth": lambda df: df.groupby("k").nth(0),
    "filter and first": lambda df: df[df["k"] > 1].groupby("k")["c"].first(),
    "filled": lambda df: df.shift(1)["c"].fillna(df["c"].iloc[0]),
    "where": lambda df: df["c"].where(df["k"] > 1),
    "concat": lambda df: df["c"].head(1),
    "sorted": lambda df: df.sort_values("k", ascending=False, kind="stable")["c"],
}


def plain(obj: Any) -> Any:
    """The object with pandas' own classes."""
    return (pandas.DataFrame if isinstance(obj, pandas.DataFrame) else pandas.Series)(obj)


CATEGORIES = (["x", "y"], ["y", "x"], ["x", "y", "z"])
ZONES = (dt.UTC, zoneinfo.ZoneInfo("UTC"))


def categorical(module: Any, order: list[str]) -> Any:
    return module.DataFrame({"k": [1, 1, 2, 2], "c": pandas.Categorical(["x", "y", "y", "x"], categories=order)})


def zoned(module: Any, zone: Any) -> Any:
    times = pandas.DatetimeIndex(np.array([3, 1, 2, 4], dtype="M8[ns]")).tz_localize(zone)
    return module.DataFrame({"k": [1, 1, 2, 2], "c": times})


@pytest.mark.parametrize("step", STEPS)
def test_the_order_of_categories_is_that_of_each_column(step: str) -> None:
    with craton.option_context(small_rows=0):
        for order in (*CATEGORIES, *reversed(CATEGORIES)):
            expected = STEPS[step](categorical(pandas, order))
            result = STEPS[step](categorical(pd, order))
            if isinstance(expected, pandas.DataFrame):
                pandas.testing.assert_frame_equal(plain(result), expected)
                expected, result = expected["c"], result["c"]
            else:
                pandas.testing.assert_series_equal(plain(result), expected)
            if expected.dtype == "category":
                assert list(result.cat.categories) == list(expected.cat.categories)
            if expected.index.dtype == "category":
                assert list(result.index.categories) == list(expected.index.categories)


@pytest.mark.parametrize("step", STEPS)
def test_the_time_zone_is_the_object_of_each_column(step: str) -> None:
    with craton.option_context(small_rows=0):
        for zone in (*ZONES, *reversed(ZONES)):
            expected, result = STEPS[step](zoned(pandas, zone)), STEPS[step](zoned(pd, zone))
            if isinstance(expected, pandas.DataFrame):
                expected, result = expected["c"], result["c"]
            pandas.testing.assert_series_equal(plain(result), expected)
