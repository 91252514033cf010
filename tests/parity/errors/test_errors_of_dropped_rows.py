"""A value that would make a call raise is in a row that the program has dropped before the call, so nothing is raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from support import check


def make(pd: Any) -> Any:
    return pd.DataFrame(
        {
            "g": [1, 1, 2, 2, 3],
            "v": [1.0, 1.0, 2.0, 3.0, 4.0],
            "s": ["1", "2", "x", "30", ""],
            "d": ["2020-01-01", "2020-02-01", "nope", "2020-03-01", ""],
            "i": np.array([1, 2, 2**63 - 1, 300, 5]),
            "f": [1.0, 2.0, np.nan, np.inf, 5.5],
            "a": pd.array([1, 2, 3, 4, 5], dtype="double[pyarrow]"),
            "b": pd.array([1, 2, 2**63 - 1, 300, 5], dtype="int64[pyarrow]"),
            "t": pd.to_datetime(
                ["2020-01-01 00:00", "2020-02-01 00:00", "2020-03-29 02:30", "2020-10-25 02:30", "2020-01-02 00:00"]
            ),
        }
    )


def refuses(text: str) -> bool:
    """Raise an error for the texts in rows that the program drops."""
    if text in ("x", "30", ""):
        raise RuntimeError(text)
    return text == "1"


DROPS = {
    "filter": lambda pd, a: a[a["v"] < 2],
    "query": lambda pd, a: a.query("v < 2"),
    "two filters": lambda pd, a: a[a["v"] < 3][lambda f: f["g"] == 1],
    "filter, sort": lambda pd, a: a[a["v"] < 2].sort_values("i"),
    "filter, nth": lambda pd, a: a[a["v"] < 2].groupby("g").nth([0, 1]),
    "filter, distinct": lambda pd, a: a[a["v"] < 2].drop_duplicates("i"),
    "merge": lambda pd, a: a.merge(pd.DataFrame({"g": [1], "z": [3]}), on="g"),
    "isin": lambda pd, a: a[a["g"].isin([1])],
    "semi-join": lambda pd, a: a[a["g"].isin(a["g"][a["v"] < 2])],
    "window": lambda pd, a: a[a["v"].cumsum() < 3],
    "by group": lambda pd, a: a[a.groupby("g")["v"].transform("max") < 2],
    "head": lambda pd, a: a.nsmallest(2, "v"),
    "dropna": lambda pd, a: a.assign(v=a["v"].where(a["v"] < 2)).dropna(subset=["v"]),
    "concat": lambda pd, a: pd.concat([a[a["v"] < 2], a[a["g"] == 1]]),
}

MASKS = {
    "comparison with Arrow": lambda pd, b: b["i"] < b["a"] + 1,
    "sum of Arrow": lambda pd, b: (b["b"] + b["b"]) > 2,
    "power of Arrow": lambda pd, b: b["b"] ** 2 > 1,
    "float to integer": lambda pd, b: b["f"].astype("int64") > 1,
    "text to integer": lambda pd, b: b["s"].astype(int) > 1,
    "dates": lambda pd, b: pd.to_datetime(b["d"], format="%Y-%m-%d") > pd.Timestamp("2020-01-15"),
    "zone": lambda pd, b: b["t"].dt.tz_localize("Europe/Berlin").dt.month > 1,
    "Python": lambda pd, b: b["s"].map(refuses),
}

USES = {
    "rows": lambda b, m: b.loc[m, ["g", "i"]],
    "sum": lambda b, m: b[m]["g"].sum(),
    "group": lambda b, m: b[m].groupby("g")["v"].sum(),
    "assigned": lambda b, m: b.assign(q=m)[lambda f: f["q"]]["g"].sum(),
    "merged": lambda b, m: b[m].merge(b[["g"]].drop_duplicates(), on="g")["v"].sum(),
}


@pytest.mark.parametrize("from_file", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("drop", DROPS)
def test_calls_see_the_remaining_rows_only(tmp_path: Path, drop: str, mask: str, from_file: bool) -> None:
    make(pandas).to_parquet(tmp_path / "a.parquet")

    def program(pd: Any) -> Any:
        rows = DROPS[drop](pd, pd.read_parquet(tmp_path / "a.parquet") if from_file else make(pd))
        found = MASKS[mask](pd, rows)
        return [use(rows, found) for use in USES.values()]

    check(program, native=None)


def test_a_row_that_is_there_still_raises() -> None:
    check(lambda pd: make(pd)[lambda a: a["v"] < 3][lambda b: (b["b"] + b["b"]) > 2].sum(), native=None)
