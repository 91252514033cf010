"""``diff`` of times in groups, with and without a time zone, over a change of the clock."""

from __future__ import annotations

from typing import Any

import pandas
import pytest
from support import check


@pytest.mark.parametrize("rows", [0, 1, 9])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/New_York"])
def test_differences(zone: str | None, unit: Any, missing: bool, rows: int) -> None:
    times = pandas.Series(pandas.date_range("2024-03-30 22:10", periods=9, freq="47min", tz=zone, unit=unit))
    if missing:
        times[[1, 5]] = pandas.NaT
    keys = {"k": list("abaabbcab"), "j": [None, 1, 1, 2, 2, None, 1, 1, 2]}
    data = pandas.DataFrame({**keys, "t": times}).head(rows)

    def program(pd: Any, df: Any) -> Any:
        steps = [df.groupby("k")["t"].diff(periods) for periods in (1, -1, 3)]
        df["step"] = steps[0]
        by_missing = df.groupby("j")["t"].diff()
        total = df["step"].sum() if rows else None
        return *steps, df.groupby("k")[["t"]].diff(), by_missing, df.groupby("k")["step"].max(), total, df

    check(program, data)
