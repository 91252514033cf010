"""``compare``: rows that differ, their dtypes, labels of every kind, and errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

DTYPES = ["int64", "float64", "str", "object", "category", "Int64", "boolean", "int64[pyarrow]", "datetime64[ns]"]
INDEXES = [
    pandas.RangeIndex(6),
    pandas.Index(list("aabbcd"), name="label"),
    pandas.MultiIndex.from_product([[1, 2], list("xyz")], names=["n", "m"]),
]


def column(dtype: str, numbers: list[int | None]) -> pandas.Series:
    values = pandas.Series(numbers, dtype="Int64")
    if None not in numbers:
        values = values.astype("int64")
    elif dtype in ("int64", "datetime64[ns]", "str", "object", "float64", "category"):
        values = values.astype("float64")
    if dtype == "int64" and None in numbers:
        return values
    if dtype == "boolean":
        return (values.astype("Int64") % 2 == 0).astype("boolean")
    return values.astype("datetime64[ns]" if dtype.startswith("date") else dtype)


@pytest.mark.parametrize("index", INDEXES, ids=["range", "duplicates", "levels"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_that_differ(dtype: str, index: Any) -> None:
    sides = [[1, 2, None, 4, None, 6], [1, 3, None, 5, 7, 6], [2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6]]
    if dtype == "category":
        categories = pandas.CategoricalDtype([float(i) for i in range(9)])
        columns = [pandas.Series([None if v is None else float(v) for v in side]).astype(categories) for side in sides]
    else:
        columns = [column(dtype, side) for side in sides]
    for one, other in itertools.pairwise([*columns, columns[0], columns[0]]):
        if one.dtype != other.dtype:
            continue
        left = pandas.DataFrame({"k": np.arange(6), "v": one, "same": 1}).set_axis(index)
        right = pandas.DataFrame({"k": [0, 1, 2, 3, 4, 9], "v": other, "same": 1}).set_axis(index)

        def program(pd: Any, a: Any, b: Any) -> Any:
            found = a.assign(k=a["k"] + 1).compare(b.assign(k=b["k"] + 1))
            return found, found.shape, a["v"].compare(b["v"]), a.compare(b, keep_equal=True), a["v"].compare(b["v"], 0)

        check(program, left, right, native=True if dtype not in ("object",) else None)


def test_nothing_differs_everything_differs_and_nothing_is_there() -> None:
    frame = pandas.DataFrame({"a": [1, 2, 2**60 + 1], "b": [1.5, np.nan, 0.0]})

    def program(pd: Any, df: Any) -> Any:
        other = df + 1
        none = df.head(0)
        return df.compare(df * 1), df.compare(other), none.compare(none * 1), (df["b"] * -0.0).compare(df["b"] * 0.0)

    check(program, frame)


def test_names_and_all_rows() -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": list("xyz")})
    check(lambda pd, df: df.compare(df.shift(1), result_names=("new", "old")).count(), frame)
    check(lambda pd, df: df.compare(df.shift(1), keep_shape=True, keep_equal=True), frame, native=None)


@pytest.mark.parametrize("other", ["rows", "columns", "class", "names"])
def test_errors(other: str) -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})

    def program(pd: Any, df: Any) -> Any:
        if other == "names":
            return df.compare(df + 1, result_names=["a", "b"])
        others = {"rows": df.head(2), "columns": df[["a"]], "class": df["a"]}
        return df.compare(others[other])

    assert isinstance(check(program, frame, native=None), (TypeError, ValueError))
