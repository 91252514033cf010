"""Skewness, kurtosis and standard errors of groups, which pandas converts to integers or not, depending on the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas
import pytest
from support import check

INTEGERS = ["int64", "int8", "uint64", "uint8", "Int64", "Int8", "UInt8", "int64[pyarrow]"]
BOOLEANS = ["bool", "boolean", "bool[pyarrow]"]
FLOATS = ["float64", "Float64", "double[pyarrow]"]
VALUES: dict[str, list[int | None]] = {
    "symmetric": [1, 2, 3, 1, 2, 3],
    "one group is": [1, 2, 3, 5, 6, 9],
    "equal in each group": [1, 1, 1, 2, 2, 2],
    "one group": [1, 2, 3],
    "a flat end": [0, 1, 0, 1, 0, 1, 0, 1],
    "whole numbers but zero": [0, 0, 1, 1] * 4,
    "large": [2**53 + 1, -4, 1, 2] * 4,
    "a missing value": [1, None, 3, 7, 1, 2, 9],
    "only missing values": [None] * 6,
    "no rows": [],
    "one row": [1],
}
ENDINGS: dict[str, Callable[[Any, str], Any]] = {
    "a column": lambda df, name: getattr(df.groupby("g")["w"], name)(),
    "a frame": lambda df, name: getattr(df.groupby("g")[["w"]], name)(),
    "beside a sum": lambda df, name: df.groupby("g").agg({"w": [name, "sum"]}),
    "named, then compared": lambda df, name: df.groupby("g", as_index=False).agg(q=("w", name)).query("q == 0"),
    # Exact on each row, while pandas' result differs from zero by rounding errors.
    "on each row": lambda df, name: df.groupby("g")["w"].transform(name).round(14),
    "added up": lambda df, name: (getattr(df.groupby("g")["w"], name)() + 1).sum(),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("dtype", INTEGERS + BOOLEANS + FLOATS)
def test_skewness_and_kurtosis(dtype: str, values: str, ending: str) -> None:
    given = VALUES[values]
    if dtype in BOOLEANS:
        given = [None if value is None else bool(value) for value in given]  # type: ignore[misc]
    if (
        None in given
        and dtype.startswith(("int64", "int8", "uint", "bool"))
        and "pyarrow" not in dtype
        and dtype != "boolean"
    ):
        pytest.skip("NumPy's integers and booleans have no missing values")
    if values == "large" and dtype not in ("int64", "Int64", "int64[pyarrow]"):
        pytest.skip("too large for the dtype, or zero up to the last digits")
    half = max(len(given) // 2, 1)
    groups = [1 if i < half else 2 for i in range(len(given))]
    wide = pandas.array(given, dtype="boolean" if dtype in BOOLEANS else "Int64")
    data = pandas.DataFrame({"g": pandas.array(groups, dtype="int64"), "w": wide}).astype({"w": dtype})
    for name in ("skew", "kurt"):
        check(lambda pd, df, name=name: ENDINGS[ending](df, name), data, native=None, rtol=1e-9)


def test_standard_errors_that_are_equal() -> None:
    data = pandas.DataFrame({"w": [3.0, 1.5, 0.5, -2.25, -2.25], "y": [-1, 6, -1, 6, 6]})

    def program(pd: Any, df: Any) -> Any:
        errors = df.groupby("y")[["w"]].sem()
        return errors.groupby("w")["w"].transform("count"), errors["w"].nunique(), df["w"].sem()

    check(program, data, native=None)
