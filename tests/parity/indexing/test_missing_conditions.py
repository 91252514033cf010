"""Conditions that are missing in some rows: ``where`` and ``mask`` replace such values, but keep them with ``inplace=True``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from support import check

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS: dict[str, Any] = {
    "int64": np.array([1, 2, 3, 4]),
    "float64": np.array([1.0, np.nan, 3.0, 4.0]),
    "Int8": pandas.array([1, None, 3, 4], dtype="Int8"),
    "str": pandas.array(["a", None, "c", "d"], dtype="str"),
    "string": pandas.array(["a", None, "c", "d"], dtype="string"),
    "bool": np.array([True, False, True, True]),
    "boolean": pandas.array([True, None, True, False], dtype="boolean"),
    "datetime64": np.array(["2020", "2021", "NaT", "2022"], dtype="datetime64[s]"),
    "category": pandas.Categorical(["a", None, "b", "a"]),
    "int64[pyarrow]": pandas.array([1, None, 3, 4], dtype="int64[pyarrow]"),
    "object": np.array([1, "a", None, 2.5], dtype=object),
}

CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "missing": lambda frame: frame["m"] > 1,
    "missing, of Arrow": lambda frame: frame["q"] > 1,
    "of fewer rows": lambda frame: (frame["c"] > 1).iloc[1:3],
    "missing, of fewer rows": lambda frame: (frame["m"] > 1).iloc[:3],
    "in another order": lambda frame: (frame["m"] > 1)[::-1],
    "of objects": lambda frame: (frame["m"] > 1).astype(object),
    "complete": lambda frame: frame["c"] > 1,
}

OTHERS: dict[str, Any] = {"none": (), "NaN": (np.nan,), "NA": (pandas.NA,), "one": (1,), "text": ("a",), "half": (1.5,)}


def table(column: str) -> pandas.DataFrame:
    numbers = pandas.array([None, 1, 2, 3], dtype="Int8")
    arrow = pandas.array([2, None, 1, 3], dtype="int64[pyarrow]")
    return pandas.DataFrame({"x": COLUMNS[column], "m": numbers, "c": [1, 2, 3, 1], "q": arrow})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("method", ["where", "mask"])
def test_missing_conditions(method: str, column: str, condition: str) -> None:
    for other in (*OTHERS.values(), "reversed"):
        for series in (False, True):
            for inplace in (False, True):

                def program(
                    pd: Any, frame: Any, other: Any = other, series: bool = series, inplace: bool = inplace
                ) -> Any:
                    part = frame["x"] if series else frame[["x"]]
                    arguments = (part.iloc[::-1],) if other == "reversed" else other
                    result = getattr(part, method)(CONDITIONS[condition](frame), *arguments, inplace=inplace)
                    return result, part, part.isna().sum(), result is part

                check(program, table(column), native=None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("condition", ["missing", "missing, of Arrow", "complete"])
@pytest.mark.parametrize("column", COLUMNS)
def test_values_set_by_a_frame_of_conditions(column: str, condition: str) -> None:
    for other in (np.nan, pandas.NA, 1, "a", 1.5):

        def program(pd: Any, frame: Any, other: Any = other) -> Any:
            part = frame[["x", "c"]]
            chosen = CONDITIONS[condition](frame)
            part[pd.DataFrame({"x": chosen, "c": chosen})] = other
            return part, part["x"].count()

        check(program, table(column), native=None)
