"""Quantiles of groups of 32-bit floats, which interpolate between values, and counts of distinct Arrow floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

INTERPOLATIONS = ["linear", "lower", "higher", "midpoint", "nearest"]
NUMBERS = [-0.25, 0.1, 0.75, None, 1.5, -0.3, 3e38, -3e38, float("inf"), 1e-40, 0.7]


@pytest.mark.parametrize("dtype", ["float32", "float64", "Float32", "Float64", "float[pyarrow]", "double[pyarrow]"])
@pytest.mark.parametrize("q", [0, 0.1, 0.3, 0.5, 0.9, 1])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_a_quantile_of_groups_has_the_digits_of_pandas(dtype, q, interpolation):
    data = pandas.DataFrame({"k": np.arange(33) % 4, "v": pandas.array(NUMBERS * 3, dtype=dtype)})

    def program(pd: Any, df: Any) -> Any:
        groups = df[df["v"] < 2].groupby("k")
        return (
            groups["v"].quantile(q, interpolation=interpolation),
            groups.quantile(q, interpolation=interpolation),
            groups["v"].agg("quantile"),
            df.groupby("k")["v"].quantile(q, interpolation=interpolation),
        )

    check(program, data, native=None)


@pytest.mark.parametrize("dtype", ["float[pyarrow]", "double[pyarrow]", "float64", "Float64"])
@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"dropna": False}, {"sort": False}], ids=str)
@pytest.mark.parametrize("columns", [["v"], ["v", "w"]])
def test_values_of_groups_are_counted_as_pandas_tells_them_apart(dtype, options, columns):
    data = pandas.DataFrame(
        {
            "k": [1, 1, 1, 2, 2, 2],
            "v": pandas.array([0.0, -0.0, 1.0, 2.0, None, 2.0], dtype=dtype),
            "w": [1, 1, 1, 2, 2, 3],
        }
    )

    def program(pd: Any, df: Any) -> Any:
        groups = df.groupby("k")
        return groups[columns[0]].value_counts(**options), groups[columns].value_counts(**options)

    check(program, data, native=None)
