"""Functions as arguments are called as often as by pandas, whether Craton plans their results or falls back to pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, check_sources

ROWS = 12
DATA = pandas.DataFrame(
    {
        "k": [0, 1, 2] * 4,
        "x": np.arange(ROWS) / 4 - 1,
        "y": [1.0, np.nan, -3.0, 4.0] * 3,
        "s": ["a", "b", "a", "c"] * 3,
    }
)
#: Results of functions; some can be planned as a key or a column, and others cannot.
RETURNED: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "bool": lambda: True,
    "int": lambda: 1,
    "label": lambda: "x",
    "labels": lambda: ["x", "y"],
    "unknown": lambda: ["q"],
    "positions": lambda: [0, 2],
    "slice": lambda: slice(0, 3),
    "tuple": lambda: (1, 2),
    "dict": lambda: {"x": 1},
    "set": lambda: {"x"},
    "class": lambda: object,
    "function": lambda: len,
    "array": lambda: np.arange(ROWS),
    "mask": lambda: np.arange(ROWS) % 2 == 0,
    "mask_series": lambda: pandas.Series(np.arange(ROWS) % 2 == 0),
    "objects": lambda: pandas.Series([[1]] * ROWS),
    "frame": lambda: pandas.DataFrame({"q": range(ROWS)}),
    "square": lambda: np.ones((2, 2)),
    "categories": lambda: pandas.Categorical(["a", "b"] * (ROWS // 2)),
    "keys": lambda: {"x": 1}.keys(),
}


def _set(holder: Any, key: Any, value: Any = 0) -> None:
    holder[key] = value


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "frame[]": lambda df, f: df[f],
    "frame[] = ": lambda df, f: _set(df, f),
    "frame.loc": lambda df, f: df.loc[f],
    "frame.loc, columns": lambda df, f: df.loc[lambda d: d["x"] > 0, f],
    "frame.loc, both": lambda df, f: df.loc[f, f],
    "frame.loc = ": lambda df, f: _set(df.loc, f),
    "frame.loc, column = ": lambda df, f: _set(df.loc, (f, "x")),
    "frame.iloc": lambda df, f: df.iloc[f],
    "frame.iloc, columns": lambda df, f: df.iloc[:, f],
    "frame.iloc = ": lambda df, f: _set(df.iloc, f),
    "series[]": lambda df, f: df["x"][f],
    "series[] = ": lambda df, f: _set(df["x"], f),
    "series.loc": lambda df, f: df["x"].loc[f],
    "series.iloc": lambda df, f: df["x"].iloc[f],
    "assign": lambda df, f: df.assign(a=lambda d: d["x"] + 1, b=f),
    "assign, first": lambda df, f: df.assign(a=f, b=lambda d: d["x"] + 1),
    "where": lambda df, f: df.where(f),
    "where, other": lambda df, f: df["x"].where(df["x"] > 0, f),
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore")
def test_a_function_is_called_once(call, returned):
    def program(pd: Any, df: Any) -> Any:
        calls: list[str] = []

        def function(given: Any) -> Any:
            calls.append(type(given).__name__)
            return returned()

        try:
            result = call(df, function)
        except Exception as error:
            result = type(error).__name__
        return calls, result, df

    check(program, DATA, native=None)


def test_what_the_function_of_a_key_changes_is_seen():
    def program(pd: Any, df: Any) -> Any:
        count = [0]

        def positions(given: Any) -> Any:
            count[0] += 1
            given["calls"] = count[0]
            return np.array([True, False] * (ROWS // 2), dtype=object)

        return df[positions], df.loc[positions], df.iloc[lambda d: [count[0]]], df

    check(program, DATA, native=None)


@pytest.mark.parametrize(
    "function",
    [
        lambda d: d.pop("x"),
        lambda d: d.__setitem__("x", 0) or d["x"],
        lambda d: d.insert(0, "q", d["k"] * 2) or 1,
        lambda d: d.drop(columns="s", inplace=True) or d["x"],
        lambda d: d.rename(columns={"x": "q"}, inplace=True) or d["q"],
        lambda d: d.loc.__setitem__((0, "x"), 9.0) or d["x"].sum(),
        lambda d: d.__delitem__("y") or [[1]] * ROWS,
    ],
)
def test_a_function_of_assign_may_change_the_frame_that_it_is_given(function):
    def program(pd: Any, df: Any) -> Any:
        result = df.assign(a=function, b=lambda d: len(d.columns))
        return result, df

    check(program, DATA, native=None)


def test_a_frame_that_a_function_of_assign_keeps_gets_the_columns_that_follow():
    def program(pd: Any, df: Any) -> Any:
        kept: list[Any] = []
        result = df.assign(a=lambda d: kept.append(d) or d["x"] + 1, b=lambda d: d["a"] * 2, c=3)
        kept[0]["a"] = 0
        return result, kept[0], df

    check(program, DATA, native=None)


@pytest.mark.parametrize("name", ["where", "mask"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("other", [[1, 2], (1.5, -2), [7], [1, 2, 3], list(range(ROWS)), [[1, 2]] * ROWS])
@pytest.mark.parametrize("made", [lambda n: n, lambda n: n + 1, lambda n: n[n["x"] > -2].sort_index()])
def test_a_list_of_replacements_goes_by_the_columns_of_a_block(name, inplace, other, made, tmp_path):
    """A list has one replacement per column, as for columns that pandas stores in one block."""

    def program(pd: Any, df: Any) -> Any:
        numbers = made(df[["x", "y"]])
        result = getattr(numbers, name)(numbers > 0, other, inplace=inplace)
        return result, numbers, df

    check_sources(program, DATA, tmp_path)


@pytest.mark.parametrize("value", [[1, 2], (1.5, -2), [7], [1, 2, 3]])
@pytest.mark.parametrize("array", [False, True])
def test_a_list_of_values_set_by_a_mask_goes_by_the_columns_of_a_block(value, array, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        numbers = df[["x", "y"]] * 2
        mask = numbers > 0
        numbers[mask.to_numpy() if array else mask] = value
        return numbers, df

    check_sources(program, DATA, tmp_path)


@pytest.mark.parametrize(
    "key",
    [
        pandas.Categorical(["x", "y"]),
        pandas.array([True, False] * (ROWS // 2)),
        pandas.array(["x", "y"], dtype="str"),
        {"x": 1}.keys(),
    ],
    ids=lambda key: type(key).__name__,
)
def test_a_key_that_pandas_takes_for_one_label_is_set_as_one(key):
    def program(pd: Any, df: Any) -> Any:
        df[lambda d: key] = 0
        return df

    check(program, DATA, native=None)
