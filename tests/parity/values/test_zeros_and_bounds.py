"""Effects of single values: signed zeros, infinities after missing numbers, blank strings, frequencies of a few rows."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ZEROS = [[-0.0], [0.0, -0.0], [None, -0.0, 1.0], [-0.0, None, -0.0, 0.0]]
ADDED: dict[str, Callable[[Any], Any]] = {
    "zero": lambda x: x + 0,
    "zero before": lambda x: 0.0 + x,
    "less a negative zero": lambda x: x - -0.0,
    "a negative zero": lambda x: x + -0.0,
    "less zero": lambda x: x - 0,
    "from zero": lambda x: 0 - x,
    "the largest": lambda x: x - x.max(),
    "a zero of NumPy": lambda x: x + np.float32(0),
    "twice": lambda x: (x + 0) - 0,
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64"])
@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("zeros", ZEROS, ids=str)
def test_the_sign_of_a_zero_that_another_is_added_to(zeros: list[Any], added: str, dtype: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        return np.signbit(ADDED[added](df["x"]).fillna(1.0).to_numpy(dtype="float64"))

    check(program, pandas.DataFrame({"x": pandas.Series(zeros, dtype=dtype)}), native=None)


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "float64", "Int64", "UInt8"])
@pytest.mark.parametrize("name", ["cummin", "cummax"])
def test_running_extremes_beside_missing_numbers(name: str, dtype: str) -> None:
    numbers = [None, np.inf, -np.inf, 1.0] if "loat" in dtype else [None, 0, 255 if dtype == "UInt8" else 2**62, 3]
    for row in itertools.product(numbers, repeat=3):
        data = pandas.DataFrame({"x": pandas.Series(list(row), dtype=dtype), "k": [1, 1, 1]})
        for skipna in (True, False):
            check(lambda pd, df, skipna=skipna: getattr(df["x"], name)(skipna=skipna), data, native=None)
        check(lambda pd, df: getattr(df.groupby("k")["x"], name)(), data, native=None)
        check(lambda pd, df: getattr(df["x"].shift(), name)().count(), data, native=None)


@pytest.mark.parametrize("texts", [[None, ""], ["", ""], [None, None], ["a b", None], ["", "a"], []], ids=str)
@pytest.mark.parametrize("name", ["split", "rsplit"])
def test_texts_without_words_are_split(name: str, texts: list[Any]) -> None:
    data = pandas.DataFrame({"s": pandas.Series(texts, dtype="str")})
    check(lambda pd, df: getattr(df["s"].str, name)(expand=True), data, native=None)
    check(lambda pd, df: getattr(df["s"].str, name)(n=1, expand=True).shape, data, native=None)
    check(lambda pd, df: getattr(df[df["s"] != "a"]["s"].str, name)(" ", expand=True).isna().sum(), data, native=None)


SLICES: dict[str, Callable[[Any], Any]] = {
    "every other": lambda t: t[::2],
    "every other place": lambda t: t.iloc[::2],
    "every third to the first": lambda t: t[:1:3],
    "backwards": lambda t: t[::-1],
    "every other backwards": lambda t: t["y"][::-2],
    "none": lambda t: t.iloc[2:1:3],
    "by label": lambda t: t.loc["2020":"2021":2],
    "every other label": lambda t: t.loc[::2],
    "one": lambda t: t.iloc[[0]],
}


@pytest.mark.parametrize("freq", ["D", "-1D", "ME", "-2ME", "7h"])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("chosen", SLICES)
def test_the_frequency_of_a_slice(chosen: str, rows: int, freq: str) -> None:
    data = pandas.DataFrame({"y": range(rows)}, index=pandas.date_range("2020-01-31", periods=rows, freq=freq))
    check(lambda pd, df: SLICES[chosen](df).index, data, native=None)


def test_counts_of_groups_by_a_name_that_is_nan() -> None:
    data = pandas.DataFrame({None: [3.0, 3.0], "v": [1.0, 2.0]})
    check(lambda pd, df: df[np.nan].to_frame().groupby(np.nan)[np.nan].value_counts(), data, native=None)
    check(lambda pd, df: df.groupby("v")["v"].value_counts(), data, native=None)


KEYS = [["w", 0], [0, "w"], [1, 0], ["w", 1, 0], ["w"], [1]]
FUNCTIONS: list[Any] = [["std"], "std", {"y": "sum"}, {"y": ["sum"]}, ["sum", "max"], "first"]


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_keys_whose_names_are_numbers_become_columns(keys: list[Any], function: Any) -> None:
    data = pandas.DataFrame({"w": [-1, -1], 0: [2.0, 3.0], 1: [7, 8], "y": [6, 1]})
    check(lambda pd, df: df.groupby(keys, as_index=False).agg(function), data, native=None)
    check(lambda pd, df: df.groupby(keys, as_index=False)["y"].agg(q="sum", r="max"), data, native=None)
    check(lambda pd, df: df.groupby(keys, as_index=False)[["y"]].agg(["sum"]), data, native=None)


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64"])
@pytest.mark.parametrize(
    "numbers",
    [[np.inf], [np.inf, 1.0], [-np.inf, 1.0, 2.0], [np.inf] * 3 + [5.0], [np.nan, -np.inf], [1.0, 2.0]],
    ids=str,
)
def test_statistics_of_groups_with_infinities(numbers: list[float], dtype: str) -> None:
    data = pandas.DataFrame(
        {"g": [1] * len(numbers), "x": pandas.Series(numbers, dtype=dtype), "i": range(len(numbers))}
    )
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda pd, df: df.groupby("g").describe(), data, native=None)
        check(lambda pd, df: df.groupby("g")["x"].describe().T, data, native=None)
        check(lambda pd, df: df.groupby("g")["x"].quantile([0.25, 0.5]), data, native=None)
        check(lambda pd, df: (df["x"].describe(), df["x"].quantile(0.25), df["x"].median()), data, native=None)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64", "Int8", "int32[pyarrow]"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_statistics_of_groups_of_integers_far_apart(rows: int, dtype: str) -> None:
    """The difference between two integers overflows in pandas' ``describe`` of groups, but not in its quantiles of groups."""
    ends = np.iinfo(dtype.split("[")[0].lower())
    data = pandas.DataFrame(
        {"g": [1] * rows, "x": pandas.array([ends.max, ends.min, ends.max - 1, 3][:rows], dtype=dtype)}
    )
    check(lambda pd, df: df.groupby("g").describe().drop(columns=("x", "std")), data, native=None)
    check(lambda pd, df: df.groupby("g")["x"].describe()[["min", "25%", "50%", "75%", "max"]], data, native=None)
    check(lambda pd, df: df.groupby("g")["x"].quantile([0.25, 0.5]), data, native=None)
    check(lambda pd, df: (df["x"].quantile(0.25), df["x"].median()), data, native=None)
