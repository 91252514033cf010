"""where and mask with the values of another frame, whose columns pandas converts to one array per block of the first.

So columns of several dtypes get a common dtype, and integers with missing values become floats.
"""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import pytest

from tests.parity.support import check

LARGE = 2**53 + 1

COLUMNS: dict[str, list[Any]] = {
    "int64": [LARGE, 5, LARGE + 2, 7],
    "Int64": [LARGE, 5, LARGE + 2, 7],
    "UInt64": [LARGE, 5, LARGE + 2, 7],
    "int64[pyarrow]": [LARGE, 5, LARGE + 2, 7],
    "int32": [1, 2, 3, 4],
    "Int32": [1, 2, 3, 4],
    "float32": [0.5, 2.5, 1.25, -0.0],
    "float64": [0.5, 2.5, 1.25, -0.0],
    "Float64": [0.5, 2.5, 1.25, 3.0],
    "double[pyarrow]": [0.5, 2.5, 1.25, 3.0],
    "bool": [True, False, True, True],
    "boolean": [True, False, True, True],
    "str": list("abcd"),
    "string[pyarrow]": list("abcd"),
    "datetime64[ns]": list(pd.to_datetime(["2020-01-01", "2021-01-01", "2022-05-05", "1999-01-01"])),
}
NUMBERS = ("int64", "Int64", "float64")


def column(dtype: str, missing: bool) -> pd.Series:
    made = pd.Series(COLUMNS[dtype]).astype(dtype)
    return made.where(pd.Series([True, False, True, True])) if missing else made


def table(dtypes: tuple[str, ...], others: tuple[str, ...], missing: bool) -> pd.DataFrame:
    """Columns ``a, b…``, replacements ``oa, ob…`` and conditions ``ca, cb…``."""
    names = "ab"[: len(dtypes)]
    return pd.DataFrame(
        {name: column(dtype, False) for name, dtype in zip(names, dtypes, strict=True)}
        | {f"o{name}": column(dtype, missing) for name, dtype in zip(names, others, strict=True)}
        | {"ca": [False, True, False, True], "cb": [True, False, False, True]}
    )


def replaced(frame: Any, names: list[str], method: str, by_frame: bool) -> Any:
    others = frame[[f"o{name}" for name in names]].set_axis(names, axis=1)
    condition = frame[[f"c{name}" for name in names]].set_axis(names, axis=1) if by_frame else frame["ca"]
    return getattr(frame[names], method)(condition, others)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("by_frame", [False, True])
@pytest.mark.parametrize(("dtype", "other"), list(itertools.product(COLUMNS, COLUMNS)))
def test_one_column(dtype, other, by_frame, missing):
    data = table((dtype,), (other,), missing)
    check(lambda pd, df: replaced(df, ["a"], "where", by_frame), data, native=None)
    check(lambda pd, df: replaced(df, ["a"], "mask", by_frame).iloc[0], data, native=None)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("by_frame", [False, True])
@pytest.mark.parametrize("dtype", COLUMNS)
def test_two_columns(dtype, by_frame, missing):
    for second, other in itertools.product(NUMBERS, NUMBERS):
        for dtypes, others in (((dtype, second), (dtype, other)), ((dtype, second), (second, second))):
            data = table(dtypes, others, missing)
            check(lambda pd, df: replaced(df, ["a", "b"], "where", by_frame), data, native=None)


def test_equal_dtypes_are_planned():
    data = table(("int64", "float64"), ("int64", "float64"), False)
    check(lambda pd, df: replaced(df, ["a", "b"], "where", True), data)
    check(lambda pd, df: replaced(df, ["a", "b"], "mask", False)["a"].sum(), data)


def test_replacements_of_a_planned_frame():
    # The planned frame has the blocks that a frame of pandas has after a filter.
    data = table(("int64", "int64"), ("int64", "float64"), False)
    check(lambda pd, df: replaced(df[df["a"] > 1], ["a", "b"], "where", True), data, native=None)
    check(lambda pd, df: replaced(df.sort_values("b"), ["a", "b"], "mask", False)["a"].sum(), data, native=None)


@pytest.mark.parametrize("method", ["where", "mask"])
def test_one_column_of_another_name(method):
    data = pd.DataFrame({"k": [3, 1], "x": [1.5, -2.0]})
    check(lambda pd, df: getattr(df[["k"]], method)(df[["x"]] > 0, 0)["k"].sum(), data, native=None)
    check(lambda pd, df: getattr(df[["k"]], method)(df[["k"]] > 1, df[["x"]]), data, native=None)
    check(lambda pd, df: df[["k"]][df[["x"]] > 0].count(), data, native=None)


@pytest.mark.parametrize("other", ["int64", "float64", "Int64"])
@pytest.mark.parametrize("as_array", [False, True])
def test_assigned_by_a_boolean_frame(as_array, other):
    data = table(("int64", "int64"), ("int64", "int64"), False).assign(ob=pd.array([9, 2, 3, 4], dtype=other))

    def program(pd: Any, df: Any) -> Any:
        taken = df[df["oa"] > 1]
        frame, others = taken[["a", "b"]], taken[["oa", "ob"]].set_axis(["a", "b"], axis=1)
        frame[frame > 5] = others.to_numpy() if as_array else others
        return frame, frame["a"].sum()

    check(program, data, native=None)
