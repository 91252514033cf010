"""A Python function that writes to the table whose rows it gets: its later calls see the same writes as in pandas."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from support import check

import craton

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = ["int64", "object", "Int64", "float64", "str", "int64[pyarrow]"]
METHODS = ["apply", "map", "transform"]


def _cell(frame: Any) -> None:
    frame.iloc[3, 0] = 99


def _label(frame: Any) -> None:
    frame.at[2, "a"] = 77


def _selected(frame: Any) -> None:
    frame.loc[frame["a"] > 2, "a"] = 55


def _column(frame: Any) -> None:
    frame["a"] = frame["a"] * 2


WRITES = [_cell, _label, _selected, _column]

TABLES = {
    "integers": pandas.DataFrame({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]}),
    "mixed": pandas.DataFrame({"a": [1, 2, 3, 4], "b": ["x", "y", "z", "w"]}),
    "objects": pandas.DataFrame({"a": [1, 2, 3, 4], "b": ["x", "y", "z", "w"]}, dtype=object),
}

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda frame, call: frame.apply(call),
    "rows": lambda frame, call: frame.apply(call, axis=1),
    "cells": lambda frame, call: frame.map(call),
    "groups": lambda frame, call: frame.groupby([0, 0, 1, 1]).apply(call),
    "aggregates": lambda frame, call: frame.groupby([0, 0, 1, 1]).agg(call),
    "column": lambda frame, call: frame["a"].apply(call),
    "mapped": lambda frame, call: frame["a"].map(call),
}


@pytest.mark.parametrize("rows", [5, 1_500])
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_writes_to_a_column(dtype: str, method: str, slow: bool, rows: int) -> None:
    def program(pd: Any) -> Any:
        column = pd.Series(np.arange(rows) % 5).astype(dtype)
        last, other = column.iloc[0], column.iloc[1]
        seen = []

        def write(value: Any) -> Any:
            if slow and len(seen) < 5:
                time.sleep(0.012)
            seen.append(value)
            if len(seen) in (2, 4):
                column.iloc[4] = last
                column.array[3] = other
            return value

        result = getattr(column, method)(write)
        return result, pd.Series(seen, dtype=object), column, column.iloc[2:].nunique()

    # A write to a column of objects replaces its array if a plan has read the array: see the known differences.
    check(lambda pd: within(program, pd, 100_000 if dtype == "object" else 0), native=None)


def within(program: Callable[[Any], Any], pd: Any, small_rows: int) -> Any:
    with craton.option_context(small_rows=small_rows):
        return program(pd)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("table", TABLES)
def test_writes_to_a_frame(table: str, call: str, write: Callable[[Any], None]) -> None:
    def program(pd: Any, frame: Any) -> Any:
        seen: list[str] = []

        def function(part: Any) -> int:
            seen.append(repr(part))
            write(frame)
            return len(seen)

        return CALLS[call](frame, function), seen, frame, frame["a"].sum()

    check(program, TABLES[table], native=None)
