"""``clip`` by columns, ``replace`` by patterns, and casts of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "x": [1.0, np.nan, -2.5, 4.0, np.inf, -0.0],
        "low": [0.0, 1.0, np.nan, 5.0, 1.0, 0.0],
        "high": [0.5, 2.0, -3.0, np.nan, 7.0, -1.0],
        "i": [3, -1, 0, 2**60, 5, 6],
        "j": [2, 2, 2, 2, 9, 9],
        "k": pandas.Series(["ab", "b", None, "", "aab", "A.b"], dtype="str"),
        "b": [True, False, True, True, False, True],
    },
    index=[0, 1, 1, 3, 4, 5],
)


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [("x", "low", "high"), ("i", "j", "i"), ("i", "low", "high"), ("k", "k", "k"), ("b", "b", "b")],
)
def test_clip_by_columns(x: str, low: str, high: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        rows = df[df["j"] > 1]
        one = rows[x].clip(lower=rows[low])
        both = rows[x].clip(rows[low], rows[high])
        mixed = rows[x].clip(lower=1, upper=rows[high])
        rows[x].clip(upper=rows[high], inplace=True)
        df["c"] = df[x].clip(upper=df[high])
        quirks = df[x].clip(0, df[x]), df[x].clip(df[high], df[low]), df[x].clip(df[x] + 1, df[x])
        moved = df[x].copy()
        moved.clip(df[high], df[low], inplace=True)
        return one, both, mixed, one.sum(), rows, df, quirks, moved

    check(program, FRAME, native=None)
    check(program, FRAME.head(0), native=None)


def test_clip_by_columns_is_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        df["c"] = df["x"].clip(df["low"], df["high"])
        df["low"] = 7.0
        return df[df["c"] > 0], df["c"].sum(), df["i"].clip(lower=df["j"]).max()

    check(program, FRAME)


def test_clip_by_other_rows() -> None:
    def program(pd: Any, df: Any) -> Any:
        return df["x"].clip(lower=df["low"].sort_values(kind="stable"))

    check(program, FRAME.reset_index(drop=True), native=False)


PATTERNS: list[tuple[Any, ...]] = [
    ("a", "q"),
    ("^a+", "<\\g<0>>"),
    (["a", "b$"], "z"),
    (["a", "b$"], ["b", "c"]),
    ({"a": "b", "b": "c"},),
    ({"k": {"a": "q"}},),
    ({"k": "a"}, "q"),
    ("(", "q"),
    (".", 1),
    ("a", None),
    ("", "q"),
    (["a", "a"], ["b", "c"]),
    (["ab", "q"], ["q", np.nan]),
    ({"[": "x", "a": "y"},),
]


@pytest.mark.parametrize("arguments", PATTERNS, ids=str)
@pytest.mark.parametrize("repeats", [1, 400])
def test_replacement_by_patterns(arguments: tuple[Any, ...], repeats: int) -> None:
    data = pandas.concat([FRAME[["k", "i", "x"]]] * repeats, ignore_index=True)

    def program(pd: Any, df: Any) -> Any:
        rows = df[df["i"] < 2**59].replace(*arguments, regex=True)
        return rows, rows["k"].str.len().sum()

    def of_column(pd: Any, df: Any) -> Any:
        new = df["k"].replace(*arguments, regex=True)
        df["k"] = "zz"
        return new, new.value_counts(sort=False), df

    for one in (program, of_column):
        check(one, data, native=None)
        check(one, data.head(0), native=None)


def test_replacement_by_patterns_is_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        df["k"] = df["k"].replace("^a", "b", regex=True)
        df = df.replace({"k": {"b+": "c"}}, regex=True)
        return df[df["k"] == "c"], df.groupby("k")["i"].sum()

    check(program, FRAME)


CATEGORIES = {
    "texts": pandas.Categorical(["b", "a", None, "b"], categories=["b", "c", "a"]),
    "all texts": pandas.Categorical(["b", "a", "b"]),
    "numbers": pandas.Categorical([3, 1, None, 3]),
    "all numbers": pandas.Categorical([3, 1, 3]),
    "floats": pandas.Categorical([2.5, None, -0.0]),
    "dates": pandas.Categorical(pandas.to_datetime(["2020-01-01", None, "2021-05-05"])),
    "flags": pandas.Categorical([True, False, None]),
    "digits": pandas.Categorical(["1", "22", "1"], categories=["22", "1", "x"]),
    "only digits": pandas.Categorical(["1", "22", "1"]),
    "missing": pandas.Categorical([None, None], categories=["a"]),
    "none": pandas.Categorical([None, None]),
    "mixed": pandas.Categorical(["a", 1, None]),
    "no rows": pandas.Categorical([], categories=["a", "b"]),
}


@pytest.mark.parametrize("name", CATEGORIES)
@pytest.mark.parametrize(
    "dtype", [str, "string", "int64", "float64", "Int64", "float32", "datetime64[ns]", object, "bool"]
)
def test_casts_of_categories(name: str, dtype: Any) -> None:
    data = pandas.DataFrame({"c": CATEGORIES[name]})
    data["n"] = range(len(data))

    def program(pd: Any, df: Any) -> Any:
        cast = df["c"].astype(dtype)
        df["d"] = cast
        return cast, df[df["n"] > 0], df.astype({"c": dtype}), cast.isna().sum(), df["d"].dtype

    check(program, data, native=None)


def test_casts_of_categories_are_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        df["text"] = df["c"].astype(str)
        df["c"] = df["c"].cat.rename_categories(["x", "y", "z"])
        return df, df.groupby("text").size(), df["text"].str.upper()

    check(program, pandas.DataFrame({"c": CATEGORIES["texts"]}), native=None)
