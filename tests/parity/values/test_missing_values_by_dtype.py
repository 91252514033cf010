"""Missing values in mappings, replacements, reductions and sorts: results have pandas' NaN, NA or None, and pandas' dtype."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas
import pytest
from support import case_id, check, check_sources

NUMBERS = pandas.DataFrame(
    {
        "k": [1, 1, 2, 2, 3],
        "Float32": pandas.array([1, np.inf, 2, None, -np.inf], dtype="Float32"),
        "Float64": pandas.array([1, np.inf, 2, None, 4], dtype="Float64"),
        "float32": np.array([1, np.inf, 2, np.nan, 4], dtype="float32"),
        "float64": [1, np.inf, 2, np.nan, -np.inf],
        "float[pyarrow]": pandas.array([1, np.inf, 2, None, 4], dtype="float[pyarrow]"),
        "double[pyarrow]": pandas.array([1, np.inf, 2, None, -np.inf], dtype="double[pyarrow]"),
        "Int64": pandas.array([1, 7, 2, None, 4], dtype="Int64"),
    }
)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("column", NUMBERS.columns[1:])
@pytest.mark.parametrize("name", ["var", "std", "sem", "mean", "sum", "median", "min", "max", "prod", "skew", "kurt"])
def test_a_reduction_that_is_no_number(name, column, tmp_path):
    def program(pd: Any, df: Any) -> Any:
        some = df[df.k < 3]
        found = [getattr(part[column], name)() for part in (df, some, df[df.k > 5], df[df.k == 1])]
        return found, getattr(df[[column]], name)(), getattr(some[[column, "k"]], name)()

    check_sources(program, NUMBERS, tmp_path)


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("na_position", ["first", "last"])
@pytest.mark.parametrize("ascending", [True, False, [True, False], [False, True]])
@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "double[pyarrow]"])
def test_nan_beside_infinity_in_a_sort_by_two_keys(dtype, ascending, na_position, first, tmp_path):
    data = pandas.DataFrame({"a": [np.inf, None, -np.inf, 1, None, np.inf, -np.inf], "b": [1, 2, 3, 4, 0, 0, 9]})
    data = data.astype({"a": dtype})
    keys = [first, "b" if first == "a" else "a"]

    def program(pd: Any, df: Any) -> Any:
        ordered = df.sort_values(keys, ascending=ascending, na_position=na_position)
        return ordered, ordered.b.head(3), ordered.head(4).b.sum()

    check_sources(program, data, tmp_path)


@pytest.mark.parametrize(
    "mapping",
    [
        {1: 10, np.nan: 7},
        {1.0: 10, np.nan: 7},
        {np.nan: 7.0},
        {"a": "x", np.nan: "y", None: "z"},
        {},
        pandas.Series({"a": "x", "b": "y"}),
        pandas.Series(dtype="float64"),
        pandas.Series([], dtype=object),
        pandas.Series([], dtype="str"),
        pandas.Series([], dtype="int64"),
        pandas.Series([], dtype="datetime64[ns]"),
    ],
    ids=case_id,
)
@pytest.mark.parametrize("na_action", [None, "ignore"])
def test_a_mapping_of_missing_values(mapping, na_action, tmp_path):
    data = pandas.DataFrame(
        {
            "f": [1, 2, np.nan],
            "i": [1, 2, 3],
            "t": ["a", None, "q"],
            "b": [True, False, True],
            "d": pandas.to_datetime(["2020", None, "2021"]),
            "I": pandas.array([1, None, 2], dtype="Int64"),
        }
    )

    for rows in (data, data.iloc[:0]):
        for column in data:
            check_sources(lambda pd, df, c=column: df[c].map(mapping, na_action=na_action), rows, tmp_path)


@pytest.mark.parametrize("new", [pandas.NA, np.nan, pandas.NaT, None], ids=case_id)
@pytest.mark.parametrize("old", [0.5, 1, "a", True, np.nan])
def test_a_replacement_by_a_missing_value(old, new, tmp_path):
    data = pandas.DataFrame(
        {
            "f": [0.5, 1, np.nan],
            "i": [1, 2, 3],
            "t": ["a", None, "q"],
            "I": pandas.array([1, None, 2], dtype="Int64"),
            "F": pandas.array([0.5, None, 2], dtype="Float64"),
            "d": pandas.to_datetime(["2020", None, "2021"]),
        }
    )
    for column in data:
        check_sources(lambda pd, df, c=column: df[c].replace(old, new), data, tmp_path)
        check_sources(lambda pd, df, c=column: df[[c]].replace({old: new}).isna().sum(), data, tmp_path)


LOGIC = {
    "int64[pyarrow]": [1, 5, None],
    "Int64": [1, 5, None],
    "double[pyarrow]": [1, 5, None],
    "boolean": [True, False, None],
    "bool[pyarrow]": [True, False, None],
    "string[pyarrow]": ["a", "b", None],
    "timestamp[ns][pyarrow]": [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1), None],
}


@pytest.mark.parametrize("dtype", LOGIC)
def test_logic_of_missing_value_checks_and_comparisons(dtype, tmp_path):
    items = LOGIC[dtype]
    data = pandas.DataFrame({"e": pandas.array(items, dtype=dtype), "v": [1, 2, 3]})
    limit = items[0]

    def program(pd: Any, df: Any) -> Any:
        small, there, some, every = df.e <= limit, df.e.notna(), df.v > 1, df.v > 0
        found = []
        for other in (there, ~there, some, every, df.e.isna(), True, False):
            found += [small | other, other | small, small & other, other & small, small ^ other]
        return found, df[small | there], df[there & small].v.sum(), df.query("v > 1 or e.notna()")

    for rows in (data, data.iloc[:2], data.iloc[:0], data.iloc[2:]):
        check_sources(program, rows, tmp_path)


def test_a_mapping_does_not_convert_large_integers_to_floats():
    data = pandas.DataFrame({"k": ["a", "b", "a"], "v": [2**60 + 1, 5, 3]})
    check(lambda pd, df: df.v.map({2**60 + 1: 1, 5: 2**60 + 1, 3: 2**53 + 1}), data, native=None)


@pytest.mark.parametrize("second", ["int64[pyarrow]", "Int64", "int64", "boolean"])
@pytest.mark.parametrize("first", ["int64[pyarrow]", "Int64", "int64", "bool[pyarrow]"])
@pytest.mark.parametrize("name", ["any", "all"])
def test_truth_of_columns_of_several_families(name, first, second, tmp_path):
    data = pandas.DataFrame({"y": [1, 0, 1], "g": [1, 1, 1]}).astype({"y": first, "g": second})

    def program(pd: Any, df: Any) -> Any:
        return getattr(df, name)(), getattr(df[df.g == 1][["y"]], name)(), getattr(df.y, name)()

    check_sources(program, data, tmp_path)


@pytest.mark.parametrize("dtype", ["str", "string"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_the_text_of_a_span_depends_on_the_others(unit, dtype, tmp_path):
    data = pandas.DataFrame({"c": pandas.array(["90s", "-1D", None], dtype=f"timedelta64[{unit}]")})

    def program(pd: Any, df: Any) -> Any:
        return df.astype({"c": dtype}), df[df.c < pandas.Timedelta(0)].c.astype(dtype), df.c.astype(dtype).str.len()

    check_sources(program, data, tmp_path)
