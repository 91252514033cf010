"""``isin`` between floats and integers that floats cannot represent: only exactly equal values match."""

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


LABELS: dict[str, list[Any]] = {
    "texts": ["a", "b", "c"],
    "numbers": [3, 1, 2],
    "a text and a number": ["a", 1, "c"],
    "missing": [None, "b", "c"],
    "floats": [0.5, 2, float("nan")],
    "booleans": [True, False, "c"],
    "pairs": [("a", 1), ("b", 2), ("c", 3)],
}


@pytest.mark.parametrize("kept", [slice(None), slice(1), slice(1, 3), slice(0)], ids=str)
@pytest.mark.parametrize("named", [None, "n"])
@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_columns_after_a_dict(labels: str, named: str | None, kept: slice) -> None:
    """pandas concatenates the columns and infers the dtype of their labels."""
    index = pandas.Index(LABELS[labels], dtype=object, name=named, tupleize_cols=False)
    data = pandas.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).set_axis(index, axis=1)

    def program(pd: Any, df: Any) -> Any:
        df = df.iloc[:, kept]
        found = df.isin({label: [1.0, 5.0] for label in LABELS[labels][:2] if label is not None})
        return found, found.columns, found.sum().sum(), df.iloc[:0].isin({}).columns

    check(program, data, native=None)
