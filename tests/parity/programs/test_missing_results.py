"""Calls whose results may be missing although their inputs are not, and steps that read these results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from support import check

NEW_YORK = ["2024-11-03 01:30", "2024-11-03 05:00", "2024-03-10 02:30", "2024-07-01 12:00"]
TIMES = pandas.to_datetime(NEW_YORK)
PARIS = pandas.to_datetime(["2024-10-27 00:30", "2024-10-27 01:40", "2024-10-28 12:00", "2024-03-31 00:40"], utc=True)
SAO_PAULO = pandas.to_datetime(
    ["2018-11-04 03:20", "2018-11-05 12:00", "2018-11-06 12:00", "2018-11-04 04:00"], utc=True
)

#: By name: a call on a column, and the columns that it is tested with.
CALLS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "tz_localize": (
        lambda pd, s: s.dt.tz_localize("America/New_York", ambiguous="NaT", nonexistent="NaT"),
        TIMES,
    ),
    "tz_localize by position": (lambda pd, s: s.dt.tz_localize("America/New_York", "NaT", "NaT"), TIMES),
    "tz_localize and shift": (
        lambda pd, s: s.dt.tz_localize("America/New_York", ambiguous="NaT", nonexistent="shift_forward"),
        TIMES,
    ),
    **{
        f"{name} to {freq} in {zone}": (
            lambda pd, s, name=name, freq=freq: getattr(s.dt, name)(freq, ambiguous="NaT", nonexistent="NaT"),
            times.tz_convert(zone),
        )
        for name in ("floor", "ceil", "round")
        for freq in ("h", "D")
        for zone, times in (("Europe/Paris", PARIS), ("America/Sao_Paulo", SAO_PAULO))
    },
    "floor by position": (lambda pd, s: s.dt.floor("h", "NaT"), PARIS.tz_convert("Europe/Paris")),
    "to_datetime": (lambda pd, s: pd.to_datetime(s, errors="coerce"), ["2024-01-01", "x", "2024-02-30", "2024-03-01"]),
    "to_numeric": (lambda pd, s: pd.to_numeric(s, errors="coerce"), ["1", "x", "", "4"]),
    "to_timedelta": (lambda pd, s: pd.to_timedelta(s, errors="coerce"), ["1 day", "x", "2 h", "y"]),
    "str.get": (lambda pd, s: s.str.get(3), ["abcd", "x", "", "wxyz"]),
    "str.extract": (lambda pd, s: s.str.extract("([0-9])", expand=False), ["a1", "x", "", "9"]),
    "map": (lambda pd, s: s.map({"a": 1}), ["a", "b", "", "a"]),
    "shift": (lambda pd, s: s.shift(1), [1, 2, 3, 4]),
    "where": (lambda pd, s: s.where(s > 2), [1, 2, 3, 4]),
    "mask of times": (lambda pd, s: s.mask(s > "2024-06"), TIMES),
    "reindexed": (lambda pd, s: s.iloc[:2].reindex(s.index), [1.5, 2.5, 3.5, 4.5]),
    "division": (lambda pd, s: (s - 1) / (s - 1), [1, 2, 3, 1]),
    "floats of texts": (
        lambda pd, s: s.astype("Float64"),
        pandas.array(["1", "nan", "2", None], dtype="string[python]"),
    ),
    "small floats of texts": (
        lambda pd, s: s.astype("Float32"),
        pandas.array(["1", "nan", "2", "3"], dtype="string[python]"),
    ),
    "floats of strs": (lambda pd, s: s.astype("Float64"), pandas.array(["1", "nan", "2", None], dtype="str")),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", ["memory", "file"])
@pytest.mark.parametrize("call", CALLS)
def test_missing_results(call: str, source: str, tmp_path: Path) -> None:
    function, column = CALLS[call]
    data = pandas.DataFrame({"t": column, "v": [1, 2, 4, 8]})
    data.to_parquet(tmp_path / "rows.parquet")

    def program(pd: Any, df: Any) -> Any:
        if source == "file":
            df = pd.read_parquet(tmp_path / "rows.parquet")
        made = function(pd, df["t"])
        joined = df.assign(m=made)
        first = made.dropna().iloc[0]
        return (
            made,
            made.isna(),
            made.isna().value_counts(),
            made.count(),
            made.hasnans,
            made.dropna(),
            made.fillna(first),
            made.ffill(),
            made.isna().sum(),
            df[made.notna()]["v"].sum(),
            joined.dropna()["v"].sum(),
            joined.dropna(subset="m"),
            df["v"].where(made.isna()).sum(),
            df.groupby(made)["v"].sum(),
            df.groupby(made, dropna=False)["v"].sum(),
            joined.groupby("v")["m"].count(),
            joined.merge(joined[["m"]].drop_duplicates(), on="m"),
            made.nunique(),
            made.drop_duplicates(),
            made.sort_values(kind="stable"),
            made.sort_values(kind="stable", na_position="first"),
            made.isin([first]),
            made == first,
            made.max(),
            made.describe(),
            joined.describe(),
            joined.to_csv(),
        )

    check(program, data, native=None)
