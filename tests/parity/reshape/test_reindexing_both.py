"""``reindex`` of rows and columns at once: pandas takes both of a frame with one block together, which changes all dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

DTYPES = [
    "int64",
    "int8",
    "uint64",
    "float64",
    "float32",
    "bool",
    "Int64",
    "datetime64[ns]",
    "timedelta64[s]",
    "str",
    "category",
]
ROWS: list[list[int]] = [[0, 1], [3, 9], [], [0, 1, 2, 3]]
COLUMNS = [["a"], ["b", "z"], ["z"], ["a", "b"], []]


@pytest.mark.filterwarnings("ignore:reindexing with a fill_value")
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("fill", [None, 0, np.nan])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, fill: Any, mixed: bool) -> None:
    numbers = pandas.Series([1, 0, 1, 1]).astype(dtype)
    frame = pandas.DataFrame({"a": numbers, "b": numbers.iloc[::-1].reset_index(drop=True)})
    if mixed:
        frame["other"] = ["x", "y", "z", "w"]
    for rows, columns in itertools.product(ROWS, COLUMNS):

        def program(pd: Any, df: Any, rows: Any = rows, columns: Any = columns) -> Any:
            held = df[df["a"].notna()]
            found = held.reindex(index=rows, columns=columns, **({} if fill is None else {"fill_value": fill}))
            return found, held.reindex_like(found), held["a"].count(), found.count()

        check(program, frame, native=None)
