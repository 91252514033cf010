"""Group-bys by a column of Python objects, with other columns, with other columns of objects, and with none."""

from __future__ import annotations

import datetime

import pandas
import pytest
from support import check

DAYS = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), None]
FRAMES = {
    "alone": pandas.DataFrame({"g": DAYS}, dtype=object),
    "numbers": pandas.DataFrame({"g": pandas.Series(DAYS, dtype=object), "x": [1, 2, 3, 4]}),
    "objects": pandas.DataFrame({"g": pandas.Series(DAYS, dtype=object), "o": pandas.Series([{1}, 2, "a", None], dtype=object)}),
    "both": pandas.DataFrame({"x": [1.5, 2, 3, 4], "o": pandas.Series(DAYS, dtype=object), "g": pandas.Series(DAYS, dtype=object)}),
}  # fmt: skip
METHODS = [
    "shift",
    "cumsum",
    "cummax",
    "diff",
    "ffill",
    "bfill",
    "rank",
    "head",
    "tail",
    "size",
    "count",
    "first",
    "last",
    "nunique",
    "cumcount",
    "ngroup",
    "max",
    "sum",
]


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("method", METHODS)
def test_methods(method, frame):
    check(lambda pd, df: getattr(df.groupby("g"), method)(), frame, native=None)
    check(lambda pd, df: getattr(df.iloc[:1].groupby("g"), method)(), frame, native=None)
    check(lambda pd, df: getattr(df.groupby(df["g"]), method)(), frame, native=None)
