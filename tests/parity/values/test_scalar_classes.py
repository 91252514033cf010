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
from support import check_classes_of_errors, outcome, to_craton

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


_SPANS = [0, 1, -1, 1_500_000_000]

#: Durations of which some are finer than the unit of the column.
FINER: list[Any] = [
    pandas.Timedelta(1, "ns"),
    pandas.Timedelta(-1, "ns"),
    pandas.Timedelta(1_500_000_001, "ns"),
    pandas.Timedelta("1s"),
    np.timedelta64(1, "us"),
    np.timedelta64(2, "D"),
    datetime.timedelta(microseconds=1),
    "1",
]

USES_OF_A_SPAN: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: (lambda s, span, name=name: getattr(operator, name)(s, span))
        for name in ("ge", "gt", "le", "lt", "eq", "ne", "add", "sub")
    },
    "reversed": lambda s, span: (span > s).sum(),
    "between": lambda s, span: s.between(span, pandas.Timedelta("1s")),
    "isin": lambda s, span: s.isin([span]),
    "filter": lambda s, span: s[s >= span].count(),
    "query": lambda s, span: s.to_frame("k").query("k >= @span", local_dict={"span": span})["k"].max(),
    "fillna": lambda s, span: s.fillna(pandas.Timedelta(span)),
    "clip": lambda s, span: s.clip(lower=pandas.Timedelta(span)),
    "where": lambda s, span: s.where(s > s.min(), pandas.Timedelta(span)),
    "replace": lambda s, span: s.replace(pandas.Timedelta(span), pandas.Timedelta("5D")),
    "remainder": lambda s, span: s % pandas.Timedelta(span),
    "maximum of another unit": lambda s, span: s < s.astype("timedelta64[ns]").max() if s.dtype.kind == "m" else s,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("use", USES_OF_A_SPAN)
def test_durations_finer_than_the_unit_of_the_column(use: str, unit: str, arrow: bool) -> None:
    values = np.array([*_SPANS, np.iinfo(np.int64).min], dtype="m8[ns]").astype(f"m8[{unit}]")
    column = pandas.Series(values).astype(f"duration[{unit}][pyarrow]" if arrow else values.dtype)
    for span in FINER:
        check_classes_of_errors(lambda _, s, span=span: USES_OF_A_SPAN[use](s, span), column)


LIMITS: list[Any] = [
    300,
    np.uint8(255),
    np.int8(-1),
    np.uint64(2**64 - 1),
    2**63,
    np.int64(-(2**63)),
    1e300,
    np.float32(0.1),
    np.bool_(True),
]

USES_OF_A_LIMIT: dict[str, Callable[[Any, Any], Any]] = {
    "at most": lambda s, limit: s.clip(upper=limit),
    "at least": lambda s, limit: s.clip(lower=limit).sum(),
    "where": lambda s, limit: s.where(s > 1, limit),
    "fillna": lambda s, limit: s.fillna(limit),
    "replace": lambda s, limit: s.replace(2, limit),
    "compare": lambda s, limit: (s == limit) | (s < limit),
    "isin": lambda s, limit: s.isin([limit]),
    "shift": lambda s, limit: s.shift(1, fill_value=limit),
    "set": lambda s, limit: (s.__setitem__(0, limit), s)[1],
    "case_when": lambda s, limit: s.case_when([(s > 2, limit)]),
    "map": lambda s, limit: s.map({2: limit}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "dtype", ["Int8", "UInt8", "Int64", "Float32", "int8", "uint64", "float32", "int8[pyarrow]", "float[pyarrow]"]
)
@pytest.mark.parametrize("use", USES_OF_A_LIMIT)
def test_scalars_beyond_the_limits_of_the_dtype(use: str, dtype: str) -> None:
    column = pandas.Series([1, 2, 3, 0, 100]).astype(dtype)
    column = column.where(column > 0) if dtype[0].isupper() or "[" in dtype else column
    for limit in LIMITS:
        check_classes_of_errors(lambda _, s, limit=limit: USES_OF_A_LIMIT[use](s, limit), column)
