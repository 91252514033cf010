"""NumPy functions that pandas dispatches to operators give the operators' results, dtypes and errors, for every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check

COLUMNS = {
    "float64": pandas.Series([1.5, -0.0, np.nan, np.inf, -2.0]),
    "float32": pandas.Series([1.5, -0.0, np.nan, np.inf, -2.0], dtype="float32"),
    "int64": pandas.Series([3, 0, -1, 2**63 - 1, -(2**63)]),
    "int8": pandas.Series([3, 0, -1, 127, -128], dtype="int8"),
    "uint16": pandas.Series([3, 0, 1, 65535, 9], dtype="uint16"),
    "bool": pandas.Series([True, False, True, True, False]),
    "Int64": pandas.Series([3, None, -1, 7, 0], dtype="Int64"),
    "Float64": pandas.Series([1.5, None, -0.0, 7, 0], dtype="Float64"),
    "boolean": pandas.Series([True, None, False, True, False], dtype="boolean"),
    "arrow int": pandas.Series([3, None, -1, 7, 0], dtype="int64[pyarrow]"),
    "arrow float": pandas.Series([1.5, None, -0.0, 7, 0], dtype="double[pyarrow]"),
    "arrow bool": pandas.Series([True, None, False, True, False], dtype=pandas.ArrowDtype(pa.bool_())),
    "time": pandas.Series(pandas.to_datetime(["2024-01-01", None, "2020-02-29", "1999-12-31", "2024-01-01"])),
    "span": pandas.Series(pandas.to_timedelta([1, None, -2, 3, 0], unit="h")),
    "str": pandas.Series(["a", None, "b", "", "c"]),
    "object": pandas.Series([1, 2.5, True, 3, -1], dtype=object),
    "category": pandas.Series(["a", None, "b", "a", "c"], dtype="category"),
}
UNARY = ["negative", "positive", "absolute"]
BINARY = ["bitwise_and", "bitwise_or", "bitwise_xor"]


def _steps(pd: Any, s: Any) -> Any:
    """The rows of a plan with a filter and a sort, which has not run yet."""
    f = pd.DataFrame({"v": s, "k": [2, 1, 0, 4, 3], "w": [1.0, 2.0, 3.0, 4.0, 5.0]})
    return f[f["k"] != 4].sort_values("k")


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", UNARY)
def test_of_one_operand(name: str, column: str) -> None:
    function = getattr(np, name)

    def program(pd: Any, s: Any) -> Any:
        f = _steps(pd, s)
        once = function(f["v"])
        length = len(once)
        return length, once, once.isna().sum(), function(function(f["v"])).shift(), function(f[["v", "w"]])

    check(program, COLUMNS[column], native=None)
    check(lambda pd, s: +_steps(pd, s)["v"], COLUMNS[column], native=None)
    check(lambda pd, s: (+_steps(pd, s)).count(), COLUMNS[column], native=None)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_operands(name: str, column: str) -> None:
    function = getattr(np, name)
    for other in (True, 3, 1.5, None, pandas.NA, np.int8(3)):
        check(lambda pd, s, other=other: function(_steps(pd, s)["v"], other), COLUMNS[column], native=None)
        check(lambda pd, s, other=other: function(other, _steps(pd, s)["v"]), COLUMNS[column], native=None)
    for other in COLUMNS.values():
        # In the second call, the labels are not the same, and pandas' operators fill in missing values.
        check(lambda pd, s, t: function(s, t), COLUMNS[column], other, native=None)
        check(lambda pd, s, t: function(_steps(pd, s)["v"], t.iloc[::-1].iloc[1:]), COLUMNS[column], other, native=None)


def test_booleans_and_numbers_are_planned() -> None:
    for column in ("float64", "int8", "uint16", "bool", "Int64", "boolean"):
        check(lambda pd, s: np.positive(s), COLUMNS[column])
    for function in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        check(lambda pd, s, function=function: function(s, ~s), COLUMNS["bool"])
