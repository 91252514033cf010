"""Functions as aggregations: pandas calls them with each group's values, even if a named aggregation has the same name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check

FUNCTIONS: dict[str, Any] = {
    **{
        f"np.{name}": getattr(np, name) for name in ("sum", "mean", "max", "min", "std", "var", "median", "prod", "any")
    },
    **{f"np.{name}": getattr(np, name) for name in ("nansum", "nanmean", "nanstd", "nanvar", "nanmax", "nanmedian")},
    **{function.__name__: function for function in (sum, max, min, len)},
    "', '.join": ", ".join,
    "''.join": "".join,
    **{name: name for name in ("sum", "mean", "max", "std", "var", "median", "prod", "any", "size", "count")},
}
WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "the table": lambda pd, df, f: df.groupby("k").agg(f),
    "two keys": lambda pd, df, f: df.groupby(["k", "g"]).agg(f),
    "keys as columns": lambda pd, df, f: df.groupby("k", as_index=False).agg(f),
    "a column": lambda pd, df, f: df.groupby("k")["t"].agg(f),
    "in a list": lambda pd, df, f: df.groupby("k")[["t"]].agg([f]),
    "by column": lambda pd, df, f: df.groupby("k").agg({"t": f}),
    "named": lambda pd, df, f: df.groupby("k").agg(z=("t", f)),
    "applied": lambda pd, df, f: df.groupby("k")["t"].apply(f) if callable(f) else None,
    "on each row": lambda pd, df, f: df.groupby("k")["t"].transform(f),
    "pivot table": lambda pd, df, f: df.pivot_table(index="k", values="t", aggfunc=f),
    "pivot table by columns": lambda pd, df, f: df.pivot_table(index="k", columns="g", values="t", aggfunc=f),
    "pivot table by column": lambda pd, df, f: df.pivot_table(index="k", values="t", aggfunc={"t": f}),
    "crosstab": lambda pd, df, f: pd.crosstab(df["k"], df["g"], values=df["t"], aggfunc=f),
    "no groups": lambda pd, df, f: df[["t"]].agg(f),
    "a column alone": lambda pd, df, f: df["t"].agg(f),
    "then a number": lambda pd, df, f: df.groupby("k").agg(f)["t"].sum(),
}
DTYPES = [
    "int64",
    "float64",
    "boolean",
    "bool",
    "Int8",
    "float32",
    "category",
    "timedelta64[s]",
    "int64[pyarrow]",
    "str",
    "string",
    "string[pyarrow]",
    pandas.ArrowDtype(pa.string()),
]


def _outcome(way: Callable[[Any, Any, Any], Any], pd: Any, df: Any, function: Any) -> Any:
    try:
        return way(pd, df, function)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_functions_that_aggregate(way: str, dtype: str) -> None:
    for values in ([], [1], [1, 0, 1], [1, None, 3, 4]):
        if None in values and dtype in ("int64", "bool", "category", "timedelta64[s]", "str"):
            continue
        numbers = pandas.Series(values, dtype="float64" if None in values else "int64")
        column = (
            numbers.astype(str).astype(dtype)
            if dtype == "str"
            else numbers.astype(dtype, errors="ignore" if dtype == "boolean" else "raise")
        )
        data = pandas.DataFrame(
            {"k": [1, 1, 2, 2][: len(values)], "g": ["a", "b", "a", "a"][: len(values)], "t": column}
        )
        if way == "the table":
            data = data.drop(columns="g")

        def program(pd: Any, df: Any) -> Any:
            return tuple(_outcome(WAYS[way], pd, df, function) for function in FUNCTIONS.values())

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check(program, data, native=None)


#: Columns that pandas converts to floats if a value is missing, which is unknown until the plan runs.
UNDECIDED: dict[str, Callable[[Any, Any], Any]] = {
    "shifted in groups": lambda pd, df: df.assign(t=df.groupby("k")["t"].shift()),
    "of some rows": lambda pd, df: df.assign(t=df["t"].iloc[:2]),
    "where": lambda pd, df: df.assign(t=df["t"].where(df["t"] > 1)),
    "where everywhere": lambda pd, df: df.assign(t=df["t"].where(df["t"] > -100)),
    "of a join": lambda pd, df: df[["k"]].merge(df.drop_duplicates("k").iloc[:1], on="k", how="left"),
}


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "bool", "Int8", "float32"])
@pytest.mark.parametrize("column", UNDECIDED)
def test_functions_of_columns_that_may_be_floats(column: str, dtype: str) -> None:
    ways = [way for name, way in WAYS.items() if "by columns" not in name and name not in ("two keys", "crosstab")]
    for values in ([1], [2, 3, 3], [2, 0, 3, 3]):
        data = pandas.DataFrame({"k": [1, 1, 2, 3][: len(values)], "t": pandas.Series(values).astype(dtype)})
        for way in ways:

            def program(pd: Any, df: Any, way: Any = way) -> Any:
                made = UNDECIDED[column](pd, df)
                return tuple(_outcome(way, pd, made, function) for function in (len, np.sum, np.max, "size", "sum"))

            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                check(program, data, native=None)
