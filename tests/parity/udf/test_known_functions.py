"""``map`` and ``apply`` with functions whose results depend on their argument alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "abs": abs,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "repr": repr,
    "chr": chr,
    "math.floor": math.floor,
    "math.sqrt": math.sqrt,
    "str.upper": str.upper,
    "str.title": str.title,
    "str.strip": str.strip,
    "str.isdigit": str.isdigit,
    "str.split": str.split,
    "str.encode": str.encode,
    "dict.get": {"a": 1, 3: "x", 2.5: None}.get,
    "whole dict.get": dict.fromkeys(["ß", "a b", " x", "7"], 2).get,
    "format": "<{:>4}>".format,
    "format of numbers": "{:.2f}".format,
    "join": "-".join,
    "np.sqrt": np.sqrt,
    "np.abs": np.abs,
    "np.floor": np.floor,
    "np.log": np.log,
    "np.isnan": np.isnan,
}
REPEATED = {
    "texts": pandas.Series(["ß", "a b", " x", "7"] * 700, dtype="str"),
    "texts and missing ones": pandas.Series(["a", None, "12", "ABC"] * 700, dtype="str"),
    "other texts": pandas.Series([f"t{i}" for i in range(2800)], dtype="str"),
    "integers": pandas.Series([3, -1, 0, 2**40] * 700),
    "least integers": pandas.Series([3, -(2**63)] * 1400),
    "small integers": pandas.Series([3, -128] * 1400, dtype="int8"),
    "unsigned integers": pandas.Series([3, 2**63 + 1] * 1400, dtype="uint64"),
    "floats": pandas.Series([2.5, -0.0, 1e10, 3.0] * 700),
    "floats and missing ones": pandas.Series([2.5, np.nan, -1.5] * 900),
    "huge floats": pandas.Series([2.5, 1e30, np.inf] * 900),
    "32-bit floats": pandas.Series([2.5, 0.1] * 1400, dtype="float32"),
    "booleans": pandas.Series([True, False] * 1400),
    "nullable integers": pandas.Series([1, None] * 1400, dtype="Int64"),
    "categories": pandas.Series(["a", "b"] * 1400, dtype="category"),
    "dates": pandas.Series(pandas.to_datetime(["2020-01-01", None] * 1400)),
    "few": pandas.Series(["a", "b"], dtype="str"),
    "none": pandas.Series([], dtype="str"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("data", REPEATED)
def test_a_function_of_each_value(data: str, name: str) -> None:
    function = FUNCTIONS[name]
    column = REPEATED[data].rename("v")
    column.index = column.index * 2 + 1

    def program(pd: Any, v: Any) -> Any:
        mapped = v.map(function)
        again = mapped[mapped.notna()].head(5)
        return mapped, again, v

    def ignoring(pd: Any, v: Any) -> Any:
        return v.map(function, na_action="ignore")

    def applied(pd: Any, v: Any) -> Any:
        return v.apply(function)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in (program, ignoring, applied):
            check(one, column, native=None)


def test_results_of_known_functions_continue_as_columns() -> None:
    data = pandas.DataFrame({"k": ["b", "a", "cc"] * 1000, "n": range(3000)})

    def program(pd: Any, df: Any) -> Any:
        df["length"] = df["k"].map(len)
        df["upper"] = df["k"].apply(str.upper)
        df["root"] = df["n"].apply(np.sqrt)
        df["text"] = df["n"].map(str)
        df["k"] = df["k"].where(df["n"] > 0, "zz")
        return df.groupby("upper")["length"].sum(), df[df["root"] > 10].head(3), df["text"].str.len().sum(), df

    check(program, data)


def test_lists_are_not_shared() -> None:
    def program(pd: Any, s: Any) -> Any:
        lists = s.map(str.split)
        lists.iloc[0].append("x")
        return lists

    check(program, pandas.Series(["a b", "c"] * 1500), native=None)
