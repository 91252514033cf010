"""``Series.apply`` with the name of a method: the planned method, and pandas for all other names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

COLUMNS: dict[str, pandas.Series] = {
    "floats": pandas.Series([1.5, np.nan, -2.0, 0.1, 7.25], name="x"),
    "integers": pandas.Series([3, 1, 2, 1, 0], index=list("abcab")),
    "texts": pandas.Series(["b", None, "a", "b", ""], dtype="str"),
    "times": pandas.Series(pandas.to_datetime(["2020-01-01", None, "2021-06-01"])),
    "booleans": pandas.Series([True, False, True]),
    "none": pandas.Series([], dtype="float64"),
}
NAMES = ["sum", "mean", "var", "std", "min", "count", "nunique", "median", "any", "cumsum", "diff", "rank", "shift"]
NAMES += ["isna", "abs", "describe", "sqrt", "head", "no such method", "index", "size", "ffill", "pct_change"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_name(column: str, name: str) -> None:
    def program(pd: Any, s: Any) -> Any:
        before = s.dropna()
        found = before.apply(name)
        return (
            found,
            before.apply(name).sum() if isinstance(found, pandas.Series) and column != "texts" else None,
            len(before),
        )

    check(program, COLUMNS[column], native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.apply("sum", min_count=9),
        lambda s: s.apply("var", ddof=0),
        lambda s: s.apply("shift", periods=2),
        lambda s: s.apply("sum", axis=1),
        lambda s: s.apply("sum", args=(0,)),
        lambda s: s.apply("sum", by_row=False),
        lambda s: s.apply("sum", no_such=1),
        lambda s: s.apply("clip", lower=0),
    ],
)
def test_arguments(call: Any) -> None:
    check(lambda pd, s: call(s), COLUMNS["floats"], native=None)


def test_it_is_the_method() -> None:
    check(lambda pd, s: (s.apply("var") == s.var(), s.apply("cumsum").sum(), s.apply("mean")), COLUMNS["floats"])
