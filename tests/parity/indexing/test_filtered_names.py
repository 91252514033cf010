"""``filter(items=…)`` of rows: the names of the row labels are those of pandas, whichever rows are kept."""

from __future__ import annotations

import pandas
import pytest
from support import check


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("items", [[], [0], [0, 1, 2], [2, 0], [9], ["x"]])
@pytest.mark.parametrize("name", ["k", None])
def test_names_of_rows(items: list[object], rows: int, name: str | None) -> None:
    labels = pandas.Index(range(rows), dtype="int64", name=name)
    frame = pandas.DataFrame({"a": range(rows), "s": pandas.Series(["x"] * rows, dtype="str")}).set_axis(labels)
    check(lambda pd, df: df["a"].filter(items=items), frame, native=None)
    check(lambda pd, df: df["s"].filter(items=items), frame, native=None)
    check(lambda pd, df: df.filter(items=items, axis=0), frame, native=None)
    check(lambda pd, df: df[df["a"] > 0].filter(items=items, axis=0)["a"].sum(), frame, native=None)
    check(lambda pd, df: df.filter(like="1", axis=0), frame, native=None)
