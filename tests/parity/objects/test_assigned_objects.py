"""Columns of Python objects, and of dtypes that plans carry, which are assigned to planned frames: the frames stay planned."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame({"k": [3, 1, 2, 1, 5], "t": ["a", "b", None, "a", "c"], "x": [1.5, None, 2.5, -1.0, 0.0]})
OBJECTS: dict[str, Callable[[], list[Any]]] = {
    "mixed": lambda: [1, "two", None, 4.5, np.nan],
    "texts": lambda: ["p", "q", np.nan, "p", "r"],
    "lists": lambda: [[1], [2, 3], [], None, [4]],
    "dates": lambda: [datetime.date(2020, 1, i) for i in (1, 2, 3, 1, 2)],
    "sets": lambda: [{1}, {2}, set(), {1}, {3}],
    "booleans with a gap": lambda: [True, None, False, True, True],
}
CARRIED: dict[str, Callable[[], Any]] = {
    "periods": lambda: pandas.period_range("2020-01", periods=5, freq="M").array,
    "intervals": lambda: pandas.arrays.IntervalArray.from_breaks([0, 1, 2, 3, 4, 5]),
    "complex": lambda: np.array([1j, 2, 3 + 1j, 0, 1]),
    "sparse": lambda: pandas.arrays.SparseArray([0, 0, 1, 0, 2]),
}
#: The labels of an assigned Series, beside those of the frame.
LABELS = {
    "same": [0, 1, 2, 3, 4],
    "other order": [4, 3, 2, 1, 0],
    "some": [1, 3, 4, 7, 9],
    "none": [10, 11, 12, 13, 14],
}
ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda pd, df: df,
    "rows": lambda pd, df: (df[df["k"] > 1], len(df[df["k"] > 1])),
    "sorted": lambda pd, df: df.sort_values("k", kind="stable").head(3),
    "numbers": lambda pd, df: (df["x"].sum(), df.groupby("t")["x"].sum()),
    "missing": lambda pd, df: (df["o"].isna().sum(), df[df["o"].notna()]),
    "merged": lambda pd, df: df.merge(pd.DataFrame({"k": [1, 2], "w": [7, 8]}), on="k", how="left"),
    "beside": lambda pd, df: pd.concat([df, df.add_prefix("p")], axis=1)["po"].count(),
    "below": lambda pd, df: pd.concat([df, df], ignore_index=True),
    "as objects": lambda pd, df: list(map(repr, df["o"].astype(object).tolist())),
    "renamed": lambda pd, df: df.rename(columns={"o": "q"}).drop(columns="x").reset_index(drop=True),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("values", [*OBJECTS, *CARRIED])
def test_a_series(values: str, labels: str, ending: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        rows = df[df["k"] > 0]
        given = (OBJECTS | CARRIED)[values]()
        dtype = object if values in OBJECTS else None
        column = pd.Series(given, index=LABELS[labels], dtype=dtype)
        rows["o"] = column
        rows["z"] = rows["x"] * 2
        column.iloc[0] = column.iloc[1]  # of no effect on the frame
        return ENDINGS[ending](pd, rows), rows["z"].sum(), rows.dtypes

    check(program, FRAME, native=None)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("values", [*OBJECTS, *CARRIED])
def test_a_list(values: str, ending: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        rows = df[df["k"] > 0]
        given = (OBJECTS | CARRIED)[values]()
        rows["o"] = given
        wide = rows.assign(p=given)
        given[0] = given[1]
        return ENDINGS[ending](pd, rows), ENDINGS[ending](pd, wide), rows.dtypes

    check(program, FRAME, native=None)


@pytest.mark.parametrize("values", [*OBJECTS, "periods", "intervals"])
def test_the_frame_stays_planned(values: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        rows = df[df["k"] > 1]
        rows["o"] = pd.Series((OBJECTS | CARRIED)[values](), dtype=object if values in OBJECTS else None)
        rows["again"] = rows["x"] + 1
        return rows.groupby("t")["again"].sum(), rows[rows["x"] > 1], rows["o"].isna().sum()

    check(program, FRAME)


def test_objects_are_the_ones_that_were_given() -> None:
    def program(pd: Any, df: Any) -> Any:
        rows, one = df[df["k"] > 1], [1]
        rows["o"] = [one, [2], [3]]
        later = rows[rows["k"] > 2]
        one.append(9)
        return later["o"].iloc[0] is one, rows, later

    check(program, FRAME)
