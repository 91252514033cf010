"""Scalar operands of every class, some of which pandas refuses for some values or only beside rows."""

from __future__ import annotations

import datetime
import operator
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import outcome, to_craton

import craton
import craton.pandas

COLUMNS: dict[str, pandas.Series] = {
    "float64": pandas.Series([1.0, np.nan, np.inf]),
    "float32": pandas.Series(np.array([1.0, np.nan], dtype="float32")),
    "int64": pandas.Series([1, 2]),
    "bool": pandas.Series([True, False]),
    "str": pandas.Series(["a", None]),
    "category": pandas.Series([1.0, 2.0], dtype="category"),
    "datetime64": pandas.Series(pandas.to_datetime(["2020", None])),
    "timedelta64": pandas.Series(pandas.to_timedelta([1, None], unit="D")),
    "decimal": pandas.Series([Decimal("1.5"), None], dtype=pandas.ArrowDtype(pa.decimal128(5, 2))),
    **{
        dtype: pandas.Series([one, None], dtype=dtype)
        for dtype, one in {
            "Float64": 1.0,
            "Float32": 1.5,
            "Int64": 1,
            "boolean": True,
            "double[pyarrow]": 1.0,
            "int64[pyarrow]": 1,
            "bool[pyarrow]": True,
        }.items()
    },
}
SCALARS: list[Any] = [
    Decimal("1.5"),
    Decimal("NaN"),
    Decimal(1),
    Fraction(1, 2),
    1j,
    np.complex64(1),
    np.float16(1.5),
    np.longdouble(1.5),
    "a",
    "int64",
    b"a",
    np.str_("a"),
    pandas.Period("2020", freq="D"),
    pandas.Period("2020-03", freq="M"),
    pandas.Interval(0, 1),
    pandas.offsets.Day(1),
    pandas.Timestamp("2020"),
    pandas.Timestamp("2020", tz="UTC"),
    pandas.Timedelta(1, "D"),
    np.datetime64("2020", "s"),
    np.timedelta64(1, "D"),
    datetime.date(2020, 1, 1),
    datetime.time(1),
    datetime.datetime(2020, 1, 1),
    datetime.timedelta(1),
    pandas.NaT,
    pandas.NA,
    uuid.UUID(int=1),
    int,
    10**30,
]
OPERATORS = [
    getattr(operator, name)
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "and_",
        "or_",
    ]
]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    **{one.__name__: one for one in OPERATORS},
    **{f"r{one.__name__}": lambda s, x, one=one: one(x, s) for one in OPERATORS},
    "frame": lambda s, x: s.to_frame() < x,
    "frame sum": lambda s, x: s.to_frame() + x,
    "between": lambda s, x: s.between(x, x),
    "clip": lambda s, x: s.clip(x),
    "clip above": lambda s, x: s.clip(upper=x),
    "fillna": lambda s, x: s.fillna(x),
    "where": lambda s, x: s.where(s.notna(), x),
    "isin": lambda s, x: s.isin([x, 1.0]),
    "replace": lambda s, x: s.replace(1, x),
    "replaced": lambda s, x: s.replace(x, 1),
    "shift": lambda s, x: s.shift(fill_value=x),
    "add": lambda s, x: s.add(1, fill_value=x),
    "searchsorted": lambda s, x: s.dropna().searchsorted(x),
    "map": lambda s, x: s.map({1.0: x}),
    "maximum": lambda s, x: np.maximum(s, x),
    "filtered": lambda s, x: s[s == x],
    "frame filtered": lambda s, x: (df := s.to_frame("a"))[df["a"] != x],
    "frame equal": lambda s, x: s.to_frame() == x,
    "eq method": lambda s, x: s.eq(x),
    "where unequal": lambda s, x: s.where(s != x),
    "query": lambda s, x: s.to_frame("a").query("a > @x"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("column", COLUMNS)
def test_scalars(column: str, call: str) -> None:
    """The values, the errors at the call, and the warnings are those of pandas."""
    for scalar in SCALARS:
        found = []
        for module, convert in ((pandas, lambda data: data), (craton.pandas, to_craton)):
            called: list[bool] = []

            def program(_: Any, data: Any, scalar: Any = scalar, called: list[bool] = called) -> Any:
                result = CALLS[call](data, scalar)
                called.append(True)
                return repr(result), str(getattr(result, "dtype", ""))

            with warnings.catch_warnings(record=True) as warned, craton.option_context(small_rows=0):
                warnings.simplefilter("always")
                value, error = outcome(program, module, [convert(COLUMNS[column].copy())])
            found.append((value, called, type(error), str(error), [str(one.message) for one in warned]))
        assert found[0] == found[1], scalar
