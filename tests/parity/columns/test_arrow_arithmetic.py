"""Arithmetic of 64-bit Arrow floats, and membership of Arrow's strings and integers, which are planned."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check

VALUES = [1.5, 0.0, np.nan, -0.0, None, np.inf, -np.inf, -1.0, 3.0, 1e308, 5e-324]
OTHERS = [0.0, 0.0, 1.0, 2.0, 5.0, np.inf, np.inf, 0.0, -0.0, 1e308, None]


def doubles(values: list[float | None]) -> pandas.Series:
    """A column in which NaN is not a missing value."""
    return pandas.Series(pandas.arrays.ArrowExtensionArray(pa.array(values, pa.float64(), from_pandas=False)))


def bits(column: pandas.Series) -> list[str]:
    """The values as text, which distinguishes 0.0, -0.0, NaN and a missing value."""
    return list(map(repr, column.array._pa_array.to_pylist()))


DATA = pandas.DataFrame(
    {"x": doubles(VALUES), "y": doubles(OTHERS), "i": pandas.array([1, 2**60 + 1] * 5 + [None], dtype="int64[pyarrow]")}
)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
@pytest.mark.parametrize(
    "other", [0, 1, -1, 0.0, -0.0, 2.5, 3, 7.0, np.float64(3), np.inf, 2**53, 10**308 * 1.0], ids=repr
)
def test_arithmetic_of_floats_and_scalars(name: str, other: Any) -> None:
    function = getattr(operator, name)

    def program(pd: Any, a: Any) -> Any:
        return (
            bits(function(a["x"], other)),
            bits(function(other, a["x"])),
            function(a["x"], a["y"]),
            bits(function(a["x"], a["y"])),
        )

    check(program, DATA, native=None)
    check(lambda pd, a: function(a["x"], other), DATA)
    check(lambda pd, a: function(other, a["x"]), DATA)


def test_chained_arithmetic() -> None:
    def program(pd: Any, a: Any) -> Any:
        a["z"] = a["x"] * (1 - a["y"]) / (a["x"] - a["x"])
        look = int(a["z"].isna().sum())
        a["t"] = 1 - a["z"] + a["y"]
        positive = a[a["t"] > 0]
        a.loc[0, "y"] = None
        return look, a, positive, a["t"].sum(), (a["x"] + 1).isna(), (a["x"] + 1).fillna(0.0).max(), a["z"].mean()

    check(program, DATA[["x", "y"]], native=None)


@pytest.mark.parametrize(
    "other", [True, 2**53 + 1, np.float32(0.1), np.int8(3), None, pandas.NA, np.nan, "1"], ids=repr
)
def test_operands_that_pandas_computes_with(other: Any) -> None:
    for name in ("add", "mul", "truediv"):
        check(lambda pd, a, name=name: getattr(operator, name)(a["x"], other), DATA, native=None)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "pow"])
def test_integers_and_single_floats(name: str) -> None:
    function = getattr(operator, name)
    data = DATA.assign(s=DATA["x"].astype("float[pyarrow]"), n=DATA["x"].astype("float64"))
    for left, right in (("i", "i"), ("i", "x"), ("x", "i"), ("s", "s"), ("s", "x"), ("x", "n"), ("n", "x")):
        check(lambda pd, a, left=left, right=right: function(a[left], a[right]), data, native=None)
        check(lambda pd, a, left=left: function(a[left], 2), data, native=None)


TEXTS = ["a", "b", None, "", "é", "a"]


@pytest.mark.parametrize("dtype", ["string[pyarrow]", "large_string[pyarrow]"])
@pytest.mark.parametrize(
    "values",
    [["a"], ["a", ""], pytest.param({"b", "é"}, id="set"), ("none",), [], ["a", None], ["a", np.nan], ["a", 1], [None]],
    ids=repr,
)
def test_membership_of_strings(dtype: str, values: Any) -> None:
    kind = pandas.ArrowDtype(pa.string() if dtype == "string[pyarrow]" else pa.large_string())
    data = pandas.DataFrame({"s": pandas.array(TEXTS, dtype=kind), "n": range(6)})

    def program(pd: Any, a: Any) -> Any:
        found = a["s"].isin(values)
        return found, a[found], a[~a["s"].isin(values) & (a["n"] > 0)]["n"].sum()

    check(program, data, native=None)
    if values and all(type(value) is str for value in values):
        check(program, data)


@pytest.mark.parametrize(
    "dtype", ["int64[pyarrow]", "int8[pyarrow]", "uint64[pyarrow]", "double[pyarrow]", "bool[pyarrow]"]
)
@pytest.mark.parametrize(
    "values", [[1], [0, 3], [-1, 300], [1, None], [1.0], [True], [2**63], [2**70], [257, -(2**63)]], ids=repr
)
def test_membership_of_numbers(dtype: str, values: Any) -> None:
    data = pandas.DataFrame({"n": pandas.array([1, 0, None, 1], dtype=dtype)})
    check(lambda pd, a: (a["n"].isin(values), a[a["n"].isin(values)]), data, native=None)
