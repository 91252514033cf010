"""Columns that hold one value, set from a scalar: comparisons with columns of other units, zones and dtypes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

pytestmark = pytest.mark.filterwarnings("ignore")

_DAY = 1_577_836_800  # 2020-01-01, in seconds
_TIMES = [_DAY * 10**9 + 1000, _DAY * 10**9, -1, np.iinfo(np.int64).min]

COLUMNS: dict[str, pandas.Series] = {
    **{
        f"times, {unit}": pandas.Series(np.array(_TIMES, "M8[ns]").astype(f"M8[{unit}]"))
        for unit in ("s", "ms", "us", "ns")
    },
    **{
        f"durations, {unit}": pandas.Series(np.array([1, 0, 86_400 * 10**9, _TIMES[3]], "m8[ns]").astype(f"m8[{unit}]"))
        for unit in ("s", "ms", "us", "ns")
    },
    "times in Berlin": pandas.Series(np.array(_TIMES, "M8[ns]").astype("M8[us]")).dt.tz_localize("Europe/Berlin"),
    "int64": pandas.Series([1, 2, 3, 300]),
    "int8": pandas.Series(np.array([1, 2, 3, -4], dtype="int8")),
    "Int64": pandas.Series([1, 2, None, 3], dtype="Int64"),
    "float32": pandas.Series(np.array([0.1, 1, np.nan, 2], dtype="float32")),
    "float64": pandas.Series([0.1, 1, np.nan, 2]),
    "bool": pandas.Series([True, False, True, False]),
    "str": pandas.Series(["a", "b", None, "c"]),
}

SCALARS: dict[str, list[Any]] = {
    "times": [
        np.datetime64("2020-01-01"),
        pandas.Timestamp("2020-01-01"),
        pandas.Timestamp("2020-01-01 00:00:00.000001"),
        pandas.Timestamp("2020-01-01 00:00:00.000000001"),
        pandas.Timestamp("2020-01-01", tz="UTC"),
        pandas.Timestamp("2020-01-01", tz="Europe/Berlin"),
        pandas.NaT,
        np.datetime64("NaT"),
    ],
    "durations": [
        pandas.Timedelta("1D"),
        pandas.Timedelta(1, "ns"),
        np.timedelta64(1, "s"),
        np.timedelta64("NaT", "s"),
    ],
    "numbers": [1, 2.5, np.float32("nan"), np.float64("nan"), np.float32(0.1), np.int8(-4), True, 2**40, None],
}


def scalars(column: str) -> list[Any]:
    kind = column.split(",", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    return SCALARS.get(kind, ["a", None] if column == "str" else SCALARS["numbers"])


@pytest.mark.parametrize("column", COLUMNS)
def test_comparisons_with_a_constant_column(column: str) -> None:
    for scalar in scalars(column):
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):

            def program(pd: Any, frame: Any, scalar: Any = scalar, name: str = name) -> Any:
                frame["v"] = scalar
                compared = getattr(operator, name)(frame["c"], frame["v"])
                mirrored = getattr(operator, name)(frame["v"], frame["c"])
                return compared, mirrored, frame[compared].shape, frame["c"].where(compared), int(mirrored.sum())

            check(program, COLUMNS[column].to_frame("c"), native=None)


@pytest.mark.parametrize("column", COLUMNS)
def test_programs_with_a_constant_column(column: str) -> None:
    for scalar in scalars(column):

        def program(pd: Any, frame: Any, scalar: Any = scalar) -> Any:
            frame = frame.assign(v=scalar)
            inside = frame["c"].between(frame["v"], frame["v"])
            queried = frame.query("c <= v")
            return (
                inside,
                queried,
                frame.groupby(inside)["c"].count(),
                frame["v"].isin(frame["c"]),
                frame["c"].fillna(frame["v"]),
            )

        check(program, COLUMNS[column].to_frame("c"), native=None)
