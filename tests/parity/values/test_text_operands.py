"""Operators on strings: concatenation and repetition as in pandas, and pandas' errors at the call."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
DTYPES: dict[str, Any] = {name: name for name in ("str", "string[python]", "string[pyarrow]", "object")}
DTYPES["str[python]"] = pandas.StringDtype("python", na_value=np.nan)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", OPERATORS, ids=lambda one: one.__name__)
def test_texts_and_values(function: Any, dtype: str, missing: bool) -> None:
    values = ["a", "b%s", None] if missing else ["a", "b%s", "2"]

    def program(pd: Any) -> Any:
        texts = pd.Series(values, dtype=DTYPES[dtype])
        results: list[Any] = []
        for other in ("a", 2, 2.5, True, texts, pd.Series([1, 2, 3]), pandas.Timestamp("2024"), b"a"):
            for one, two in ((texts, other), (other, texts)):
                try:
                    made = function(one, two)
                    results += [made, made.isna().sum(), made.to_frame("t").assign(n=1)["n"].sum()]
                except (TypeError, ValueError, ArithmeticError, NotImplementedError) as error:
                    results.append(type(error).__name__)
        return results

    check(program, native=None)
