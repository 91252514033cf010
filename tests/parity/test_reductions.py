"""Reductions against pandas: values, classes of scalars, corner cases, errors."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

SERIES = {
    "int64": pandas.Series([3, 1, 2, 2, -4]),
    "int8": pandas.Series([3, 1, 100, 100, -4], dtype="int8"),
    "uint8": pandas.Series([3, 1, 200, 200, 0], dtype="uint8"),
    "uint64": pandas.Series([3, 2**63, 7], dtype="uint64"),
    "overflow": pandas.Series([2**62, 2**62, 2**62]),
    "float64": pandas.Series([1.5, np.nan, -0.0, 0.0, 2.5]),
    "infinite": pandas.Series([1.5, np.inf, np.nan]),
    "both": pandas.Series([1.5, np.inf, -np.inf]),
    "float32": pandas.Series([1.5, np.nan, 2.25], dtype="float32"),
    "bool": pandas.Series([True, False, True]),
    "str": pandas.Series(["b", None, "a", "ä", ""]),
    "datetime": pandas.Series(pandas.to_datetime(["2020-01-01 00:00", None, "1999-12-31 12:00"])),
    "datetime_ns": pandas.Series(pandas.to_datetime(["2020-01-01 00:00:00.123456789", None])).astype("M8[ns]"),
    "zoned": pandas.Series(pandas.to_datetime(["2020-01-01", None, "2021-07-01"])).dt.tz_localize("Europe/Berlin"),
    "timedelta": pandas.Series(pandas.to_timedelta([1, None, 3], unit="D")),
    "Int64": pandas.Series([3, None, 2, 3], dtype="Int64"),
    "boolean": pandas.Series([True, None, False], dtype="boolean"),
    "Float64": pandas.Series([1.5, None, 2.5], dtype="Float64"),
    "string": pandas.Series(["b", None, "a"], dtype="string"),
    "arrow_int": pandas.Series([3, None, 2], dtype="int64[pyarrow]"),
    "arrow_float": pandas.Series([1.5, None, 2], dtype="double[pyarrow]"),
    "arrow_bool": pandas.Series([True, None, False], dtype="bool[pyarrow]"),
    "arrow_str": pandas.Series(["b", None, "a"], dtype="string[pyarrow]"),
    "category": pandas.Series(["b", None, "a", "b"], dtype="category"),
    "empty_int": pandas.Series([], dtype="int64"),
    "empty_float": pandas.Series([], dtype="float64"),
    "empty_str": pandas.Series([], dtype="str"),
    "empty_time": pandas.Series([], dtype="M8[us]"),
    "nan": pandas.Series([np.nan, np.nan]),
    "none_str": pandas.Series([None, None], dtype="str"),
    "NA": pandas.Series([None, None], dtype="Int64"),
    "one": pandas.Series([7]),
}
NAMES = ("sum", "prod", "mean", "median", "min", "max", "var", "std", "sem", "count", "nunique", "any", "all")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", SERIES)
def test_series(kind, name):
    rtol = 1e-6 if kind == "float32" else 1e-12
    check(lambda pd, s: getattr(s, name)(), SERIES[kind], native=None, rtol=rtol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["int64", "float64", "bool", "Int64", "arrow_float", "empty_int"])
def test_series_is_planned(kind, name):
    check(lambda pd, s: getattr(s, name)(), SERIES[kind], native=None if name == "prod" else True)


@pytest.mark.parametrize("kind", SERIES)
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.sum(skipna=False),
        lambda s: s.max(skipna=False),
        lambda s: s.mean(skipna=False),
        lambda s: s.all(skipna=False),
        lambda s: s.any(skipna=False),
        lambda s: s.sum(min_count=1),
        lambda s: s.sum(min_count=4),
        lambda s: s.prod(min_count=1),
        lambda s: s.var(ddof=0),
        lambda s: s.std(ddof=3),
        lambda s: s.sem(ddof=9),
        lambda s: s.nunique(dropna=False),
        lambda s: s.sum(numeric_only=True),
        lambda s: s.sum(axis=0),
        lambda s: s.sum(axis=1),
        lambda s: s.sum("index"),
        lambda s: s.mean(nonsense=1),
        lambda s: s.sum(skipna=None),
    ],
)
def test_series_options(kind, call):
    check(lambda pd, s: call(s), SERIES[kind], native=None, rtol=1e-6 if kind == "float32" else 1e-12)


def test_reduction_of_an_expression():
    frame = pandas.DataFrame({"a": [1.0, 2.0, np.nan], "b": [3, 4, 5], "s": ["x", "y", "x"]})
    check(lambda pd, df: (df.a * df.b)[df.s == "x"].sum(), frame)
    check(lambda pd, df: df[df.b > 100].a.mean(), frame)
    check(lambda pd, df: df.loc[df.b > 3, "a"].mean(), frame, native=None)
