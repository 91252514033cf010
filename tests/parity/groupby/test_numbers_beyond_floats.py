"""Groups of integers, times and durations with more than 53 bits, which pandas converts to floats if a key is missing."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

COUNTS = np.array([2**60 + 1, 2**60 + 3, 2**60 + 7, 2**60 - 5, 2**60 + 2])
FAR = pandas.Series(COUNTS.astype("datetime64[us]"))
TIMES = pandas.Series(pandas.to_datetime(COUNTS))
COLUMNS = {
    "times": TIMES,
    "times of a zone": TIMES.dt.tz_localize("Europe/Berlin"),
    "far times": FAR,
    "durations": TIMES - pandas.Timestamp(0),
    "Arrow times": TIMES.astype("timestamp[ns][pyarrow]"),
    "Arrow durations": (TIMES - pandas.Timestamp(0)).astype("duration[ns][pyarrow]"),
    "integers": pandas.Series(COUNTS),
    "unsigned integers": pandas.Series(COUNTS.astype("uint64")),
    "nullable integers": pandas.Series(COUNTS).astype("Int64"),
    "Arrow integers": pandas.Series(COUNTS).astype("int64[pyarrow]"),
}
KEYS = {
    "one missing": pandas.Series(["a", None, "a", "b", "a"], dtype="str"),
    "a missing number": pandas.Series([1, None, 1, 2, 1], dtype="Int64"),
    "NaN": pandas.Series([1.0, np.nan, 1, 2, 1]),
    "all missing": pandas.Series([np.nan] * 5),
    "none missing": pandas.Series([1, 2, 1, 2, 1], dtype="Int64"),
}
CALLS = {
    name: lambda g, name=name: getattr(g, name)()
    for name in (
        "cummax",
        "cummin",
        "cumsum",
        "rank",
        "shift",
        "ffill",
        "bfill",
        "min",
        "max",
        "first",
        "last",
        "median",
    )
} | {
    "transform cummax": lambda g: g.transform("cummax"),
    "transform max": lambda g: g.transform("max"),
    "transform first": lambda g: g.transform("first"),
    "dense rank": lambda g: g.rank(method="dense", ascending=False),
    "head": lambda g: g.head(1),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column(column, keys, call):
    frame = pandas.DataFrame({"g": KEYS[keys], "k": COLUMNS[column]})
    check(lambda pd, df: CALLS[call](df.groupby("g")["k"]), frame, native=None)


PROGRAMS = {
    "of two keys": lambda df, call: call(df.groupby(["g", "h"])["k"]),
    "of chosen and sorted rows": lambda df, call: call(
        df[df["x"] != 3].sort_values("x", ascending=False).groupby("g")["k"]
    ),
    "with a group of missing keys": lambda df, call: call(df.groupby("g", dropna=False)["k"]),
    "of rows that have keys": lambda df, call: call(df[df["g"].notna()].groupby("g")["k"]),
    "as a new column": lambda df, call: df.assign(c=call(df.groupby("g")["k"])).groupby("h")["c"].max(),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("call", ["cummax", "cummin", "rank"])
@pytest.mark.parametrize("column", COLUMNS)
def test_programs_over_a_file(column, call, program, tmp_path):
    frame = pandas.DataFrame({"g": KEYS["one missing"], "h": [1, 1, 2, 2, 1], "k": COLUMNS[column], "x": range(5)})
    frame.to_parquet(tmp_path / "a.parquet")
    check(lambda pd: PROGRAMS[program](pd.read_parquet(tmp_path / "a.parquet"), CALLS[call]), native=None)
