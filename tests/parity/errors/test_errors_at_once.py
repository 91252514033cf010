"""Operations of Arrow's integers for which pandas raises at once, not when the result is looked at."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pandas
import pytest
from support import check

VALUES: dict[str, list[Any]] = {"least": [-(2**63), 2], "small": [1, None, 3], "missing": [None, None], "none": []}


@pytest.mark.parametrize("divisor", [0, -1, 0.0, 2, None, pandas.NA, True])
@pytest.mark.parametrize("values", VALUES)
def test_divisions(values: str, divisor: Any) -> None:
    column = pandas.Series(VALUES[values], dtype="int64[pyarrow]")

    def program(pd: Any, s: Any) -> Any:
        """Whether it raises, and only then what it is."""
        found: list[Any] = []
        for divide in (lambda: s // divisor, lambda: s.to_frame("x") // divisor, lambda: s.floordiv(divisor)):
            try:
                found.append(divide())
            except Exception as error:
                found.append(type(error))
        return found

    check(program, column, native=None)


@pytest.mark.parametrize("compare", [operator.lt, operator.eq, operator.ge])
@pytest.mark.parametrize("other", ["int64[pyarrow]", "int8[pyarrow]", "uint64[pyarrow]", "uint8[pyarrow]"])
@pytest.mark.parametrize("large", [2**63, 5])
def test_comparisons(large: int, other: str, compare: Callable[[Any, Any], Any]) -> None:
    columns = {
        "a": pandas.Series([large, 1, None], dtype="uint64[pyarrow]"),
        "b": pandas.Series([None, 1, 2], dtype=other),
    }

    def program(pd: Any, df: Any) -> Any:
        kept = df[df["b"].isna() | df["b"].notna()]
        try:
            found = compare(kept["a"], kept["b"])
        except Exception as error:
            found = type(error)
        return found, kept["b"].sum()

    check(program, pandas.DataFrame(columns), native=None)
