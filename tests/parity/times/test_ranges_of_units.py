"""Datetimes and timedeltas that overflow their unit: the call raises, as in pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

import craton

UNITS = ["s", "ms", "us", "ns"]
FAR = {"ns": ["1700-01-01", "2200-01-01"], "us": ["0001-01-01", "9999-12-31"]}


def ends(kind: str, unit: str) -> pandas.Series:
    """The least and the greatest number of ticks, and some numbers between them."""
    if unit == "s":  # which is stored in milliseconds
        ticks = [-(2**63) // 1000 + 2, 2**63 // 1000 - 2, 0, 5]
    else:
        ticks = [-(2**63) + 2, 2**63 - 2, 0, 5]
    return pandas.Series(np.array(ticks, dtype="int64").view(f"{kind}8[{unit}]"), name="x")


@pytest.mark.parametrize("periods", [1, -1, 2, 0])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["M", "m"])
def test_differences(kind: str, unit: str, periods: int) -> None:
    times = ends(kind, unit)
    check(lambda _, s: s.diff(periods) is None, times, native=None)
    check(lambda _, s: s.to_frame().diff(periods) is None, times, native=None)
    near = times.iloc[2:]
    check(lambda _, s: (s.diff(periods), s.to_frame().diff(periods), s.diff(periods).max()), near, native=None)


@pytest.mark.parametrize("unit", FAR)
def test_differences_of_dates(unit: str, tmp_path: Any) -> None:
    dates = pandas.Series(np.array([*FAR[unit], "NaT", FAR[unit][0]], dtype=f"M8[{unit}]"), name="t")
    frame = pandas.DataFrame({"t": dates, "k": [1, 2, 3, 1]})

    def program(_: Any, df: Any) -> Any:
        return df.sort_values("k")["t"].diff().sum(), df["t"].diff(2), df["t"].diff() > pandas.Timedelta(0)

    check_sources(program, frame, tmp_path)


def test_differences_of_many_dates() -> None:
    rng = np.random.default_rng(1)
    dates = pandas.Series(rng.integers(0, 10**9, 120_000).astype("M8[s]"))
    check(lambda _, s: (s.diff().dt.total_seconds().abs().sum(), s.diff(3).min(), s.sort_values().diff().max()), dates)


@pytest.mark.parametrize("other", UNITS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["M", "m"])
def test_units_put_together(kind: str, unit: str, other: str) -> None:
    far, near = ends(kind, unit), pandas.Series(np.array([1, 2], dtype=f"{kind}8[{other}]"), name="x")
    for one in (far, far.iloc[2:], far.iloc[:0]):
        check(lambda pd, a, b: pd.concat([a, b]) is None, one, near, native=None)
        check(
            lambda pd, a, b: pd.concat([b.to_frame(), a.to_frame()], ignore_index=True) is None, one, near, native=None
        )
    check(lambda pd, a, b: pd.concat([a, b]), far.iloc[2:], near, native=None)

    frame = pandas.DataFrame({"a": far.iloc[:2], "b": near})
    check(lambda _, f: f.melt() is None, frame, native=None)
    check(lambda _, f: f.melt(), pandas.DataFrame({"a": far.iloc[2:].reset_index(drop=True), "b": near}), native=None)


def test_an_error_does_not_wait_for_rows() -> None:
    """The call also raises for a large table."""
    early = craton.pandas.Series(np.zeros(50_000, dtype="M8[ns]"))
    late = craton.pandas.Series(np.full(50_000, np.datetime64("9999-12-31", "us")))
    with pytest.raises(pandas.errors.OutOfBoundsDatetime):
        craton.pandas.concat([late, early])
