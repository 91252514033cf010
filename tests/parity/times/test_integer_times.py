"""Dates and durations whose members and differences are arithmetic of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

from craton.pandas.values.times import integer_times

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
UNITS = ["ms", "us", "ns"]
FREQUENCIES = ["D", "h", "7min", "3D", "ms", "us", "ns", "W"]


def dates(unit: str, gaps: bool, zone: str | None = None) -> Any:
    day = 86_400_000 * {"ms": 1, "us": 10**3, "ns": 10**6}[unit]
    generator = np.random.default_rng(20)
    around = generator.integers(-200 * 365 * day, 200 * 365 * day, 200)
    edges = np.array([0, 1, -1, day, -day, day - 1, 1 - day, 10 * day, -10 * day - 1])
    values = np.concatenate([edges, around]).astype(f"datetime64[{unit}]")
    column = pandas.Series(values, name="t")
    if gaps:
        column = column.mask(np.arange(len(column)) % 7 == 3)
    return column if zone is None else column.dt.tz_localize("UTC").dt.tz_convert(zone)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_dates(unit: str, gaps: bool, zone: str | None) -> None:
    given = dates(unit, gaps, zone)

    def program(pd: Any, df: Any) -> Any:
        held = df[df["n"] >= 0]
        t = held["t"]
        stamp = pd.Timestamp("1999-12-31 23:59:59.123456", tz=zone).as_unit(unit)
        parts = [t.dt.microsecond, t.dt.nanosecond, t.dt.normalize()]
        moved = [t.dt.tz_localize("UTC")] if zone is None else [t.dt.tz_convert("Asia/Tokyo"), t.dt.tz_convert(None)]
        moved += [t.dt.tz_localize(None)] if zone == "UTC" else []
        since = [t - stamp, stamp - t, t - t.min(), t - t.shift(1), t.shift(-1) - t]
        back = [
            t + (t - t.min()) * 0,
            t - (t - stamp),
            t + pd.Timedelta(days=1),
            t - pd.Timedelta(1, "ms").as_unit("ms"),
        ]
        total = (t - t.min()).dt.total_seconds().sum()
        held["t"] = t.dt.normalize()
        return parts, moved, since, back, total, held["t"].nunique(), held["t"].max()

    check(program, pandas.DataFrame({"t": given, "n": np.arange(len(given))}), native=None)


@pytest.mark.parametrize("frequency", FREQUENCIES)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_floors(unit: str, frequency: str, zone: str | None) -> None:
    given = dates(unit, True, zone)

    def program(pd: Any, df: Any) -> Any:
        floored = df[df["n"] > 3]["t"].dt.floor(frequency)
        return floored, floored.nunique(), (df["t"].dt.floor(frequency) == df["t"]).sum()

    check(program, pandas.DataFrame({"t": given, "n": np.arange(len(given))}), native=None)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_durations(unit: str, gaps: bool) -> None:
    given = dates(unit, gaps).astype(f"datetime64[{unit}]") - pandas.Timestamp("1971-01-01").as_unit(unit)

    def program(pd: Any, df: Any) -> Any:
        d = df[df["n"] > 1]["t"]
        parts = [d.dt.days, d.dt.seconds, d.dt.microseconds, d.dt.nanoseconds, d.dt.total_seconds(), d.dt.floor("h")]
        return parts, d + d, d - d.shift(1), pd.Timedelta(days=3) + d, d.dt.days.sum(), d.dt.total_seconds().mean()

    check(program, pandas.DataFrame({"t": given, "n": np.arange(len(given))}), native=None)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_seconds_have_the_bits_of_pandas(unit: str, gaps: bool) -> None:
    generator = np.random.default_rng(7)
    numbers = [generator.integers(-(10**power), 10**power, 300) for power in (3, 9, 12, 15, 18)]
    near = [
        0,
        1,
        -1,
        999,
        -999,
        86_399_999_999_999,
        -86_400_000_000_001,
        2**53,
        2**53 + 1,
        -(2**53),
        -(2**53) - 1,
        MOST,
        LEAST + 2,
    ]

    def program(pd: Any, df: Any) -> Any:
        return df[df["n"] >= 0]["d"].dt.total_seconds(), df["d"].dt.total_seconds().max()

    for each in (*numbers, near, near[:7]):
        spans = pandas.Series(np.array(each).astype(f"m8[{unit}]"))
        frame = pandas.DataFrame({"d": spans.mask(spans.index % 5 == 2) if gaps else spans, "n": 1})
        check(program, frame, rtol=0)


EDGES = [LEAST + 1, LEAST + 2, MOST, MOST - 1, -1, 0, 1, LEAST // 2, MOST // 2 + 1]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("first", EDGES)
def test_bounds(unit: str, first: int) -> None:
    """Differences that overflow raise pandas' error, and results that pandas takes for missing are missing."""
    left = np.array([first, 5]).view(f"datetime64[{unit}]")

    def program(pd: Any, df: Any) -> Any:
        found = []
        for call in (
            lambda df: df["t"] - df["u"],
            lambda df: df["t"] + df["d"],
            lambda df: df["d"] + df["d"],
            lambda df: df["d"] - df["d"].shift(1),
            lambda df: df["d"].dt.floor("3D"),
            lambda df: df["d"].dt.days,
        ):
            try:
                result = call(df[df["n"] >= 0])
                found.append((result, result.max()))
            except Exception as error:
                found.append((type(error), str(error)))
        return found

    for second in EDGES:
        frame = pandas.DataFrame(
            {
                "t": left,
                "u": np.array([second, 3]).view(f"datetime64[{unit}]"),
                "d": np.array([second, 1]).view(f"timedelta64[{unit}]"),
                "n": [0, 1],
            }
        )
        check(program, frame, native=None)


def test_pandas_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    original = integer_times.computed

    def spied(*args: Any) -> Any:
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(integer_times, "computed", spied)

    def program(pd: Any, df: Any) -> Any:
        t = df[df["n"] >= 0]["t"]
        return t.dt.tz_localize("UTC"), (t - t.shift(1)).dt.total_seconds().sum(), t.dt.floor("h"), t.dt.normalize()

    near = pandas.Series(pandas.date_range("2024", periods=60, freq="7h", unit="us"))
    check(program, pandas.DataFrame({"t": near.mask(near.index % 7 == 3), "n": 1}))
    assert len(found) >= 4
    assert all(one is not None for one in found)
