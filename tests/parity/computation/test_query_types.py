"""Types in expressions of ``query`` and ``eval``, which refuse more combinations of types than pandas' operators do."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import pytest
from support import check, outcome, to_craton

import craton
import craton.pandas

DATA = pandas.DataFrame(
    {
        "i": [1, 2],
        "u": np.array([1, 2], dtype="uint8"),
        "f": [1.5, 2.0],
        "f4": np.array([1.5, 2.0], dtype="float32"),
        "b": [True, False],
        "B": pandas.array([True, None], dtype="boolean"),
        "I": pandas.array([1, None], dtype="Int64"),
        "F": pandas.array([1.5, None], dtype="Float64"),
        "ai": pandas.array([1, 2], dtype="int64[pyarrow]"),
        "af": pandas.array([1.5, 2.0], dtype="double[pyarrow]"),
        "ab": pandas.array([True, False], dtype="bool[pyarrow]"),
        "s": ["a", "b"],
        "t": pandas.to_datetime(["2020", "2021"]),
        "z": pandas.to_datetime(["2020", "2021"]).tz_localize("UTC"),
        "d": pandas.to_timedelta([1, 2], unit="D"),
        "c": pandas.Categorical(["a", "b"]),
    }
)
SCALARS = ["2", "2.5", "True", "'a'", "-1", "'2020-01-01'", "@small", "@decimal"]
VARIABLES = {"small": np.int8(3), "decimal": Decimal("1.5"), "l": [1, 2], "array": np.array([1, 2])}
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", ">", "==", "!=", "<="]


def compared(text: str, method: str) -> None:
    """Compare values, errors and warnings."""
    found = []
    for module, convert in ((pandas, lambda frame: frame), (craton.pandas, to_craton)):
        used = DATA[[name for name in DATA if name in text]]

        def program(_: Any, df: Any) -> Any:
            return repr(getattr(df, method)(text, local_dict=VARIABLES))

        with warnings.catch_warnings(record=True) as warned, craton.option_context(small_rows=0):
            warnings.simplefilter("always")
            value, error = outcome(program, module, [convert(used)])
        found.append((value, type(error), str(error), [str(one.message) for one in warned]))
    assert found[0] == found[1], text


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("left", list(DATA))
def test_eval(left: str, operator: str) -> None:
    for right in (*DATA, *SCALARS):
        compared(f"{left} {operator} {right}", "eval")
        if right in SCALARS:
            compared(f"{right} {operator} {left}", "eval")


@pytest.mark.parametrize("operator", ["*", "-", "&", "//"])
@pytest.mark.parametrize("left", list(DATA))
def test_query(left: str, operator: str) -> None:
    for right in ("i", "b", "B", "I", "ai", "ab", "2", "True", "-1", "@small"):
        compared(f"({left} {operator} {right}) > 0", "query")
        compared(f"-{left} {operator} {right} > 0", "query")


@pytest.mark.parametrize(
    "text",
    [
        "(i & 2).sum() > 0",
        "i > (I * b).sum()",
        "s.str.len() * B > 0",
        "s.str.len() & 1",
        "~B * 2 == 1",
        "i.isin(@l) & 2",
        "(B * 2).isin(@l)",
        "b and 2 > 1",
        "2 > 1 and b",
        "i > f4 * b + B",
        "i * B * f",
        "-B * i",
        "i in @array",
        "f4 > 1e300",
        "f4 == '1.5'",
        "f4 < '1.7'",
        "inf > 1",
        "b & s",
        "i * i.clip(upper=B * 2)",
    ],
)
@pytest.mark.parametrize("method", ["query", "eval"])
def test_nested(text: str, method: str) -> None:
    compared(text, method)


@pytest.mark.parametrize("name", ["inf", "list", "Timestamp", "datetime"])
def test_columns_that_are_named_as_what_pandas_knows(name: str) -> None:
    check(lambda pd: pd.DataFrame({name: [1, 2], "y": [1, 2]}).query(f"{name} > 1"), native=None)
    check(lambda pd: pd.DataFrame({name: [1, 2], "y": [1, 2]}).eval(f"{name} + y"), native=None)


@pytest.mark.parametrize(
    "text",
    [
        "i > 1",
        "i > 1 and f < 3 or s == 'a'",
        "i * 2 + f > u / 3 and b",
        "not b | (i >= @small)",
        "s.str.contains('a') and t > '2020-06-01'",
        "i in @l and s in ['a', 'c']",
        "c == 'a'",
        "I > 1 and F * 2 < 3",
        "f4 > 1.6",
        "f > f.mean() and 1 <= i < 2",
        "B & (I == 1)",
    ],
)
def test_planned(text: str) -> None:
    for _ in range(2):  # the second time, the result is cached
        check(lambda pd, df: df.query(text, local_dict=VARIABLES), DATA)


def test_functions_are_called_as_often_as_by_pandas() -> None:
    """The checks of types do not call the user's functions."""
    calls: list[int] = []

    def called(value: int) -> int:
        calls.append(value)
        return value

    with craton.option_context(small_rows=0):
        craton.pandas.DataFrame(DATA[["i"]]).query("i.map(@called) > 1", local_dict={"called": called}).shape  # noqa: B018
    assert calls == [1, 2]
