"""``isin`` where one side holds integers that the other side's floats cannot hold: equal is what is equal exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

NUMBERS: dict[str, np.ndarray] = {
    "int64": np.array([5, 2**53 + 1, -(2**63), 2**63 - 1, 0], dtype="int64"),
    "uint64": np.array([5, 2**53 + 1, 2**64 - 1, 2**63, 0], dtype="uint64"),
    "float64": np.array([5.0, 2.0**53, np.nan, 2.0**63, -(2.0**63), np.inf, 2.0**64, 0.5, -0.0]),
    "float32": np.array([5.0, 2.0**53, np.nan, 2.0**63, -np.inf, 0.5], dtype="float32"),
    "int32": np.array([5, 2**31 - 1, 0], dtype="int32"),
    "bool": np.array([True, False]),
}
GIVEN: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "a Series": lambda pd, values: pd.Series(values),
    "a computed Series": lambda pd, values: pd.concat([pd.Series(values), pd.Series(values)]).drop_duplicates(),
    "an array": lambda pd, values: values,
    "an Index": lambda pd, values: pd.Index(values),
    "a list": lambda pd, values: values.tolist(),
    "a set": lambda pd, values: set(values.tolist()),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("among", NUMBERS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers(dtype: str, among: str, given: str) -> None:
    data = pandas.DataFrame({"x": NUMBERS[dtype]})

    def program(pd: Any, df: Any) -> Any:
        values = GIVEN[given](pd, NUMBERS[among])
        found = df["x"].isin(values)
        return found, df[found]["x"].count(), df.isin(values) if given in ("a list", "a set") else None, len(df[~found])

    check(program, data, native=None)
