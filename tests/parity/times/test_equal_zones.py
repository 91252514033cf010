"""Dtypes that compare equal, in programs of several steps: time zones of one name, and categories in different orders."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import pandas
import pytest
from support import check

ZONES = [zoneinfo.ZoneInfo("UTC"), datetime.UTC]
PROGRAMS = {
    "parts": lambda pd, s: [s.dt.tz, s.sort_values().dt.tz, s.drop_duplicates().dt.tz, pd.concat([s, s]).dt.tz],
    "groups": lambda pd, s: [getattr(s.groupby([1, 1]), name)().dt.tz for name in ("max", "first", "last", "shift")],
    "values": lambda pd, s: [one.tz for one in (s.max(), s.iloc[0], s.mean(), s.quantile(0.5), s.groupby([1, 1]).max().max())],
    "steps": lambda pd, s: [(s + pandas.Timedelta("1D")).dt.tz, s.shift(fill_value=s.max()).dt.tz, s.mode().dt.tz],
}  # fmt: skip


@pytest.mark.parametrize("zones", [ZONES, ZONES[::-1]], ids=["named first", "plain first"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_time_zones(name: str, zones: list[Any]) -> None:
    for zone in zones:
        stamps = pandas.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize(zone)
        check(lambda pd, s: [type(zone) for zone in PROGRAMS[name](pd, s)], pandas.Series(stamps), native=None)


@pytest.mark.parametrize("categories", [["a", "b"], ["b", "a"]], ids=str)
def test_categories(categories: list[str]) -> None:
    series = pandas.Series(pandas.Categorical(["a", "b", "a"], categories=categories))

    def program(pd: Any, s: Any) -> Any:
        found = [
            s.groupby([1, 1, 2]).first(),
            s.mode(),
            s.drop_duplicates(),
            s.shift(),
            s.fillna("a"),
            s.cat.as_ordered(),
        ]
        return [list(one.cat.categories) for one in found], list(s.value_counts().index), s.cat.codes

    check(program, series, native=None)
