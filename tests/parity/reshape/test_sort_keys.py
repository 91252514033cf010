"""``sort_values`` with a function as ``key``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame(
    {
        "k": pandas.Series(["b", "A", None, "a", "B", "cc", "A"], dtype="str"),
        "x": [1.5, -2.0, np.nan, 0.5, -0.0, 3.0, -1.5],
        "i": [3, -1, 2, 3, -3, 0, 2],
        "c": pandas.Categorical(["u", "v", "w", "u", None, "v", "w"]),
    },
    index=[10, 11, 10, 13, 14, 15, 16],
)
KEYS = {
    "lower": lambda s: s.str.lower(),
    "length": lambda s: s.str.len(),
    "mapped": lambda s: s.map({"a": 3, "b": 1, "A": 2}),
    "array": lambda s: s.str.len().to_numpy(),
    "list": lambda s: [str(item).lower() for item in s],
    "index": lambda s: pandas.Index(s.str.lower()),
    "shorter": lambda s: s[s.notna()],
    "other rows": lambda s: s.str.lower().sort_values(kind="stable"),
    "raises": lambda s: 1 / 0,
    "categories": lambda s: s.str.upper().astype("category"),
    "no objects": lambda s: s.map({"a": "x", "b": 2}),
}
NUMBERS = {
    "np.abs": np.abs,
    "negative": lambda s: -s,
    "missing": lambda s: s.isna(),
    "square": lambda s: s**2,
    "filled": lambda s: s.fillna(s.mean()),
    "rank": lambda s: s.rank(),
    "scalar": lambda s: s.sum(),
    "str": str,
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("na_position", ["first", "last"])
def test_a_key_of_texts(name: str, ascending: bool, na_position: Any) -> None:
    options: dict[str, Any] = {"ascending": ascending, "na_position": na_position, "kind": "stable", "key": KEYS[name]}

    def program(pd: Any, df: Any) -> Any:
        rows = df[df["i"] > -2].sort_values("k", **options)
        return (
            rows,
            rows["x"].sum(),
            df["k"].sort_values(**options),
            df.sort_values(["k"], ignore_index=True, **options),
        )

    check(program, FRAME, native=None)
    check(program, FRAME.head(0), native=None)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("by", [["x"], ["i", "x"], ["x", "i"]])
def test_a_key_of_numbers(name: str, by: list[str]) -> None:
    def program(pd: Any, df: Any) -> Any:
        df["y"] = df["x"] * 2
        rows = df.sort_values(by, key=NUMBERS[name], kind="stable")
        last = df.sort_values(by, key=NUMBERS[name], kind="stable", na_position="first", ascending=False)
        return (
            rows,
            last,
            rows.reset_index().groupby("index").size(),
            df["x"].sort_values(key=NUMBERS[name], kind="stable"),
        )

    check(program, FRAME, native=None)


def test_the_sort_is_planned() -> None:
    def program(pd: Any, df: Any) -> Any:
        late = df[df["i"] > -2].sort_values(["k", "i"], key=lambda s: s.str.lower() if s.name == "k" else -s)
        lengths = df["k"].sort_values(key=lambda s: s.str.len(), kind="stable")
        df["k"] = "z"
        return late, late.head(2)["x"].sum(), lengths, df.sort_values("x", key=abs, kind="stable")

    check(program, FRAME)


def test_the_function_is_called_once_for_each_key() -> None:
    for result in (lambda s: s.str.lower(), lambda s: [str(item) for item in s]):
        calls: list[Any] = []

        def key(s: Any, result: Any = result, calls: Any = calls) -> Any:
            calls.append((s.name, list(s.index)))
            return result(s)

        def program(pd: Any, df: Any, key: Any = key, calls: Any = calls) -> Any:
            df["l"] = df["k"].str.len().astype(str)
            rows = df.sort_values(["k", "l"], key=key)
            made = list(calls)
            calls.clear()
            return rows, made

        check(program, FRAME, native=None)


def test_a_frame_is_sorted_in_place() -> None:
    def program(pd: Any, df: Any) -> Any:
        answer = df.sort_values("x", key=lambda s: -s, inplace=True, kind="stable")
        other = df.copy()
        again = other.sort_values("k", key=lambda s: [str(item) for item in s], inplace=True, kind="stable")
        return answer, again, df, other

    check(program, FRAME, native=None)
