"""``np.errstate``, and warning filters that raise: NumPy's floating-point errors reach the user as they do with pandas."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton

COLUMNS: dict[str, Any] = {
    "zero": [0.0, 1.0],
    "negative": [-1.0, 1.0],
    "large": [1e308, 1e308],
    "infinite": [np.inf, -np.inf],
    "fine": [1.0, 2.0],
    "small": np.array([3e38, 3e38], dtype="float32"),
    "integers": [0, 2],
    "nullable": pandas.array([1e308, 1e308], dtype="Float64"),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "log": lambda s: np.log(s),
    "sqrt": lambda s: np.sqrt(s),
    "exp": lambda s: np.exp(s),
    "reciprocal": lambda s: np.reciprocal(s),
    "hypot": lambda s: np.hypot(s, s),
    "add": lambda s: np.add(s, s),
    "+": lambda s: s + s,
    "/": lambda s: s / 0,
    "%": lambda s: s % 0,
    "**": lambda s: s**500,
    ">": lambda s: s > 1,
    "> beyond": lambda s: s > 1e300,
    "sum": lambda s: s.sum(),
    "mean": lambda s: s.mean(),
    "var": lambda s: s.var(),
    "prod": lambda s: s.prod(),
    "cumsum": lambda s: s.cumsum(),
    "cumprod": lambda s: s.cumprod(),
    "agg": lambda s: s.agg(["sum", "max"]),
    "frame sum": lambda s: s.to_frame("a").sum(),
    "groups": lambda s: s.groupby([0, 0]).sum(),
    "group prod": lambda s: s.to_frame("a").groupby([0, 0]).prod(),
    "astype": lambda s: s.astype("float32"),
    "round": lambda s: s.round(400),
    "quantile": lambda s: s.quantile(0.3),
    "eval": lambda s: s.to_frame("a").eval("a * 2 + 1"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("column", COLUMNS)
def test_raised(column: str, call: str) -> None:
    def program(_: Any, df: Any) -> Any:
        with np.errstate(all="raise"):
            return CALLS[call](df[column])

    check(program, pandas.DataFrame({column: COLUMNS[column]}), native=None)


@pytest.mark.parametrize("call", ["log", "sqrt", "exp", "+", "sum", "cumsum"])
@pytest.mark.parametrize("column", COLUMNS)
def test_handed_over(column: str, call: str) -> None:
    def program(_: Any, df: Any) -> Any:
        told: list[tuple[str, int]] = []
        with np.errstate(all="call", call=lambda *about: told.append(about)):
            found = CALLS[call](df[column])
        return found, told

    check(program, pandas.DataFrame({column: COLUMNS[column]}), native=None)


@pytest.mark.parametrize("call", ["log", "sqrt", "exp", "hypot", "+", "/"])
@pytest.mark.parametrize("column", COLUMNS)
def test_warnings_that_are_errors(column: str, call: str) -> None:
    def program(_: Any, df: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return CALLS[call](df[column])

    check(program, pandas.DataFrame({column: COLUMNS[column]}), native=None)


def test_one_kind() -> None:
    def program(_: Any, df: Any) -> Any:
        with np.errstate(divide="raise", invalid="ignore"):
            return np.sqrt(df["zero"] - 1)

    check(program, pandas.DataFrame({"zero": COLUMNS["zero"]}))


def test_what_stays_planned() -> None:
    """Calls that cause no floating-point error are planned whatever ``np.errstate`` says."""

    def program(_: Any, df: Any) -> Any:
        with np.errstate(all="raise"):
            return np.log(df["fine"]), np.sqrt(df), df["fine"] / 0, df["fine"].max()

    check(program, pandas.DataFrame({"fine": COLUMNS["fine"]}))


def test_ignored() -> None:
    def program(_: Any, df: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.log(df["zero"]), df["zero"].sum()

    check(program, pandas.DataFrame({"zero": COLUMNS["zero"]}))


def test_of_two_columns() -> None:
    def program(_: Any, df: Any) -> Any:
        with np.errstate(all="raise"):
            return np.arctan2(df["a"], df["b"]), np.hypot(df["a"], df["b"])

    check(program, pandas.DataFrame({"a": [1e308, 1.0], "b": [1e308, 2.0]}), native=None)


def _messages(program: Callable[[Any], Any], frame: Any) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        repr(program(frame))
    return {str(one.message) for one in caught if one.category is RuntimeWarning}


@pytest.mark.parametrize(
    "program",
    [
        lambda f: np.log(f["a"]),
        lambda f: np.sqrt(f["a"]),
        lambda f: f["a"].std(),
        lambda f: f["a"].sum(),
        lambda f: f["a"].cumsum(),
        lambda f: f.describe(),
    ],
)
def test_warnings_about_values_in_memory_are_those_of_pandas(program: Callable[[Any], Any]) -> None:
    data = pandas.DataFrame({"a": [1.0, -1.0, 0.0, np.inf, -np.inf] * 5})
    with craton.option_context(small_rows=10):
        assert _messages(program, craton.pandas.DataFrame(data)) == _messages(program, data)
