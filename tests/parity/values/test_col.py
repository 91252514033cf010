"""``pd.col``: expressions over the columns of the frame that they are later used with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

FRAME = pandas.DataFrame({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0], "s": ["x", "yy", "z"]})

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "assign": lambda pd, df: df.assign(c=pd.col("a") + 1),
    "assign twice": lambda pd, df: df.assign(c=pd.col("s").str.upper(), d=pd.col("c") + "q"),
    "assign a window": lambda pd, df: df.assign(c=pd.col("a").shift())["c"].sum(),
    "assign an aggregate": lambda pd, df: df.assign(c=pd.col("a").sum())["c"].sum(),
    "assign a membership": lambda pd, df: df.assign(c=pd.col("a").isin([1])),
    "assign a ufunc": lambda pd, df: df.assign(c=np.sqrt(pd.col("a"))),
    "assign a function": lambda pd, df: df.assign(c=pd.col("a").map(lambda x: x + 1)),
    "assign cases": lambda pd, df: df.assign(
        c=pd.col("a").case_when([(pd.col("a") > 1, 10), (pd.col("a") <= 1, pd.col("a") + 1)])
    ),
    "assign what is not there": lambda pd, df: df.assign(c=pd.col("zz")),
    "assign by an accessor of others": lambda pd, df: df.assign(c=pd.col("a").dt.year),
    "filter": lambda pd, df: df[pd.col("a") > 1],
    "filter by text": lambda pd, df: df[pd.col("s").str.len() == 1]["b"].mean(),
    "filter by its maximum": lambda pd, df: df[pd.col("a") == pd.col("a").max()],
    "filter by what is not there": lambda pd, df: df[pd.col("zz")],
    "filter a series": lambda pd, df: df["a"][pd.col("a") > 1],
    "filter method": lambda pd, df: df.filter(pd.col("a") > 1),
    "loc": lambda pd, df: df.loc[pd.col("a") > 1],
    "loc of a column": lambda pd, df: df.loc[pd.col("a") > 1, "b"].sum(),
    "iloc": lambda pd, df: df.iloc[pd.col("a") > 1],
    "where": lambda pd, df: df[["a", "b"]].where(pd.col("a") > 1),
    "mask": lambda pd, df: df[["a", "b"]].mask(pd.col("a") > 1, 0),
    "where of a series": lambda pd, df: df["a"].where(pd.col("a") > 1),
    "set": lambda pd, df: (df.__setitem__("n", pd.col("a")), df)[1],
    "set rows": lambda pd, df: (df.loc.__setitem__((pd.col("a") > 1, "b"), 0), df)[1],
    "select": lambda pd, df: df.select("a", pd.col("b") * 2),
    "select by name": lambda pd, df: df.select(c=pd.col("a").cumsum()),
    "after a query": lambda pd, df: df.query("a > 1").assign(q=pd.col("a").rank()).groupby("s")["q"].sum(),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_expressions(program: str) -> None:
    check(PROGRAMS[program], FRAME, native=None)


@pytest.mark.parametrize("value", [np.datetime64("2016-01-01"), np.timedelta64(1, "D"), 1, True, None, "a"], ids=repr)
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "maximum", "hypot", "fmod", "copysign"])
def test_functions_of_a_column_and_a_value(name: str, value: Any) -> None:
    """NumPy functions of a column and a scalar, some of which pandas refuses."""

    def program(pd: Any, df: Any) -> Any:
        return getattr(np, name)(df["a"] > 1, value), getattr(np, name)(value, df["b"])

    check(program, FRAME, native=None)
