"""Keys and constants that do not fit the data: tuples for row labels of one level, times without a zone, empty selections."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check

ROWS = pandas.DataFrame({"v": [1, 2, 3], "w": [1.0, 2.0, 3.0]}, index=pandas.Index([1, 2, 3], name="k"))
DAYS = pandas.DataFrame({"v": [1, 2, 3, 4]}, index=pandas.date_range("2024-02-05", periods=4))
ZONED = pandas.DataFrame({"t": pandas.date_range("2024-03-30", periods=5, freq="12h", tz="Europe/Berlin")})
ZONED["w"] = ZONED["t"].astype("timestamp[us, tz=Europe/Berlin][pyarrow]")

TUPLES = [("A", 1), (slice(None), 1), (1, 2), (1,), ("A", "B", "C"), (slice("A", "B"), [1]), ([1], [2]), ()]


@pytest.mark.parametrize("columns", ["v", ["v"], slice(None), "nope"], ids=case_id)
@pytest.mark.parametrize("key", TUPLES, ids=case_id)
def test_tuple_for_rows_of_one_level(key: tuple[Any, ...], columns: Any) -> None:
    check(lambda pd, df: df.assign(q=1).loc[key, columns], ROWS, native=None)


@pytest.mark.parametrize("key", TUPLES, ids=case_id)
def test_tuple_that_a_function_gives(key: tuple[Any, ...]) -> None:
    check(lambda pd, df: df.loc[lambda _: key], ROWS, native=None)
    check(lambda pd, df: df["v"].loc[lambda _: key], ROWS, native=None)


@pytest.mark.parametrize("column", ["t", "w"])
@pytest.mark.parametrize("text", ["{} > {}", "{1} <= {0}", "{} == {}", "{} != {}"])
@pytest.mark.parametrize(
    "value",
    [
        "2024-03-31",
        "2024-03-31T00:00+01:00",
        pandas.Timestamp("2024-03-31"),
        pandas.Timestamp("2024-03-31", tz="UTC"),
        datetime.datetime(2024, 3, 31),
        datetime.date(2024, 3, 31),
        np.datetime64("2024-03-31"),
    ],
    ids=repr,
)
def test_times_with_a_zone_in_expressions(value: Any, text: str, column: str) -> None:
    written = text.format(column, repr(value) if isinstance(value, str) else "@value")
    named = {"value": value}
    check(lambda pd, df: df.query(written, local_dict=named), ZONED, native=None)


FEW: dict[str, Callable[[Any], Any]] = {
    "no label": lambda df: df.loc["2024-02-01":"2024-02-03"],  # type: ignore[misc]
    "no row": lambda df: df.iloc[2:2],
    "one row": lambda df: df.iloc[2:3],
}
AGAIN: dict[str, Callable[[Any], Any]] = {
    "head": lambda df: df.head(1),
    "mask": lambda df: df[df["v"] > 0],
    "none": lambda df: df[df["v"] > 100],
    "take": lambda df: df.take([]),
    "steps": lambda df: df.iloc[::2],
    "backwards": lambda df: df.iloc[::-1],
    "time": lambda df: df.at_time("00:00"),
    "label": lambda df: df.loc["2024-02":],  # type: ignore[misc]
}


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("few", FEW)
def test_frequency_of_few_rows_chosen_again(few: str, again: str) -> None:
    check(lambda pd, df: AGAIN[again](FEW[few](df)), DAYS, native=None)
    check(lambda pd, df: AGAIN[again](FEW[few](df)["v"].to_frame()).index, DAYS, native=None)
