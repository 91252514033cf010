"""Computations on a lazy column after a cast: missing values stay missing, whatever the dtype before the cast."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

FLOATS = ["float32", "float64", "Float32", "Float64", "float[pyarrow]", "double[pyarrow]"]
WHOLE = ["int8", "int64", "uint64", "Int8", "Int64", "UInt8", "bool", "boolean", "int64[pyarrow]"]
ENDINGS: dict[str, Callable[[Any], Any]] = {
    "chosen": lambda x: x[x >= 0],
    "left out": lambda x: x[~(x < 0)] if x.dtype.kind == "f" else x[x >= 0],
    "unequal": lambda x: x != 1,
    "equal": lambda x: x == 1,
    "missing": lambda x: x.isna(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "std": lambda x: x.std(),
    "extremes": lambda x: (x.max(), x.min()),
    "median": lambda x: x.median(),
    "count": lambda x: x.count(),
    "sorted": lambda x: x.sort_values(kind="stable"),
    "ranks": lambda x: x.rank(),
    "running": lambda x: x.shift().sum(),
    "more": lambda x: x + 1,
    "filled": lambda x: x.fillna(0).sum(),
    "members": lambda x: x.isin([1.0]),
    "distinct": lambda x: (x.nunique(), x.drop_duplicates()),
    "groups": lambda x: x.groupby(x, dropna=False).size(),
    "where": lambda x: x.where(x > 0),
    "mask": lambda x: x.mask(x > 0, 0),
    "any and all": lambda x: ((x > 0).any(), (x >= 0).all()),
    "between": lambda x: x.between(-1, 1).sum(),
    "present": lambda x: x.dropna(),
    "carried on": lambda x: x.ffill(),
    "joined": lambda x: x.to_frame("v").merge(x.to_frame("v"), on="v"),
    "largest": lambda x: x.nlargest(2),
    "and back": lambda x: x.astype("Float64").isna().sum(),
}


@pytest.mark.parametrize("target", FLOATS + WHOLE)
@pytest.mark.parametrize("source", FLOATS + WHOLE)
def test_a_cast_that_was_not_looked_at(source: str, target: str) -> None:
    for values in ([None, 1.0, -1.0, 1.0], [None], [1.0, 0.0]):
        numbers = pandas.Series(values, dtype="float64")
        if source.lower().startswith(("u", "bool")):
            numbers = numbers.abs()
        if None in values and source in ("int8", "int64", "uint64", "bool"):
            continue
        data = pandas.DataFrame({"v": numbers.astype(source)})

        def program(pd: Any, df: Any) -> Any:
            found = []
            for ending in ENDINGS.values():
                try:
                    found.append(ending(df["v"].astype(target)))
                except (TypeError, ValueError, NotImplementedError) as error:
                    found.append(type(error).__name__)
            return tuple(found)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(program, data, native=None)


#: Statistics of 32-bit floats; Arrow computes some of them in 64 bits and some in 32.
STATISTICS = ["sum", "prod", "mean", "var", "std", "sem", "median", "skew", "min", "max"]
NUMBERS = [[1.0, 2.0, 4.1, 7.7], [3e38, 3e38, 1.0], [None, 1.1], [None], [], [0.1, 0.2]]


@pytest.mark.parametrize("values", NUMBERS, ids=str)
@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("dtype", ["float[pyarrow]", "double[pyarrow]"])
def test_statistics_of_arrow_floats(dtype: str, name: str, values: list[float | None]) -> None:
    def program(pd: Any, df: Any) -> Any:
        whole = getattr(df["v"], name)()
        table = getattr(df[["v"]], name)()
        several = df["v"].agg([name, "max"])
        return whole, type(whole).__name__, table, several, getattr(df.groupby("k")["v"], name)()

    data = pandas.DataFrame({"v": pandas.array(values, dtype=dtype), "k": [1] * len(values)})
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        check(program, data, native=None)


def test_the_digits_of_arrow_floats() -> None:
    """Arrow computes in 64 bits, in which the 32-bit 0.1 plus 0.2 is not 0.3."""
    for function, small in itertools.product(["mean", "sum", "std"], [True, False]):
        got = []
        for pd in (pandas, __import__("craton.pandas").pandas):
            column = pd.Series([0.1, 0.2, 0.7], dtype="float[pyarrow]")
            got.append(getattr(column if small else pd.concat([column] * 2000), function)())
        assert got[0] == pytest.approx(got[1], rel=1e-13)


@pytest.mark.parametrize("target", ["int64", "float64", "Int64", "boolean", "datetime64[ns]", "timedelta64[ns]"])
@pytest.mark.parametrize("dtype", ["object", "str", "string", "string[pyarrow]", "category"])
@pytest.mark.parametrize("whole", [False, True])
def test_values_that_cannot_be_cast(whole: bool, dtype: str, target: str) -> None:
    texts = pandas.Series(["1", "2", "text"], dtype=dtype)
    frame = pandas.DataFrame({"n": [1, 2, 3], "a": texts, 5: texts})

    def program(pd: Any, df: Any) -> Any:
        made = df.assign(n=df["n"] * 2)
        return made.astype(target if whole else {"n": target, 5: target, "a": target}), made["n"].sum()

    assert check(program, frame, native=None) is not None
