"""Checks the demo's 22 queries against the same queries in SQL, which DuckDB runs over the same files.

    python -m bench.tpch.check --scale 1
    python -m bench.tpch.check --scale 10 --engine craton

Results are compared by column position. Floats may differ by a relative 1e-9. Rows that are equal in the ORDER BY columns may be
in any order. If a LIMIT selects only some of such rows, any of them are accepted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from bench.tpch.sql import ORDER, SQL
from craton.demo import data as tpch
from craton.demo.compare import materialise
from craton.demo.queries import QUERIES

RTOL = 1e-9


def differences(expected: pd.DataFrame, actual: pd.DataFrame, order: tuple[int, ...]) -> str | None:
    """Describe how `actual` differs from the SQL result `expected`; return None if it does not.

    Parameters
    ----------
    expected, actual
        Results with the same columns by position.
    order
        Positions of the columns that the rows are sorted by.
    """
    if expected.shape != actual.shape:
        return f"SQL gives (rows, columns) {expected.shape}, not {actual.shape}"
    left, right = _plain(expected), _plain(actual)
    for position in left.columns:
        if pd.api.types.is_numeric_dtype(left[position]) != pd.api.types.is_numeric_dtype(right[position]):
            return f"column {position} is {left[position].dtype}, not {right[position].dtype}"
    for position in order:
        wrong = _unequal(left[position], right[position])
        if wrong.any():
            row = int(np.argmax(wrong))
            return f"sort column {position} differs in row {row}: {left[position][row]!r}, not {right[position][row]!r}"
    left, right = _settle_ties(left, right, order)
    for position in left.columns:
        wrong = _unequal(left[position], right[position])
        if wrong.any():
            row = int(np.argmax(wrong))
            values = f"{left[position][row]!r}, not {right[position][row]!r}"
            return f"column {position} differs in {wrong.sum()} rows: {values}"
    return None


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Number the columns; make numbers float64 or int64, dates datetime64[us], and the rest Python strings."""
    columns: dict[int, Any] = {}
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        if pd.api.types.is_datetime64_any_dtype(column):
            columns[position] = column.to_numpy(dtype="datetime64[us]")
        elif pd.api.types.is_integer_dtype(column):
            columns[position] = column.to_numpy(dtype="int64")
        elif pd.api.types.is_numeric_dtype(column):
            columns[position] = column.to_numpy(dtype="float64", na_value=np.nan)
        else:
            columns[position] = column.to_numpy(dtype=object)
    return pd.DataFrame(columns)


def _unequal(left: pd.Series, right: pd.Series) -> npt.NDArray[np.bool_]:
    if pd.api.types.is_float_dtype(left) or pd.api.types.is_float_dtype(right):
        expected: npt.NDArray[np.float64] = left.to_numpy(dtype="float64")
        actual: npt.NDArray[np.float64] = right.to_numpy(dtype="float64")
        same: npt.NDArray[np.bool_] = np.isclose(actual, expected, rtol=RTOL, atol=0, equal_nan=True)
    else:
        same = ((left == right) | (left.isna() & right.isna())).to_numpy(dtype=bool)
    return ~same


def _settle_ties(left: pd.DataFrame, right: pd.DataFrame, order: tuple[int, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sort rows that are equal in the `order` columns by all other columns. Leave out the last such group, which a LIMIT may have cut."""
    if not order or left.empty:
        return left, right
    changes = np.zeros(len(left), dtype=bool)
    for position in order:
        changes[1:] |= _unequal(left[position].iloc[1:].reset_index(drop=True), left[position].iloc[:-1])
    tie = pd.Series(np.cumsum(changes))
    last = tie == tie.iloc[-1]
    if last.sum() > 1 and not last.all():
        left, right, tie = left[~last], right[~last], tie[~last]
    others = [position for position in left.columns if position not in order]
    # Sort by exact columns first. Otherwise float sums that differ in the last bit could sort the rows of the two frames differently.
    others.sort(key=lambda position: pd.api.types.is_float_dtype(left[position]))
    settled = []
    for frame in (left, right):
        frame = frame.assign(tie=tie).sort_values(["tie", *others], kind="stable").drop(columns="tie")
        settled.append(frame.reset_index(drop=True))
    return settled[0], settled[1]


def connect(folder: Path, memory: str = "4GB") -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection with a view over each table's file in `folder`."""
    connection = duckdb.connect(config={"memory_limit": memory})
    for table in tpch.TABLES:
        path = str(folder / f"{table}.parquet").replace("'", "''")
        connection.execute(f"create view {table} as select * from read_parquet('{path}')")
    return connection


def check(folder: Path, engine: ModuleType, names: list[str]) -> int:
    """Check the named queries, print a line for each, and return how many differ or fail."""
    connection = connect(folder)
    bad = 0
    for name in names:
        begun = time.perf_counter()
        expected = connection.execute(SQL[name]).df()
        between = time.perf_counter()
        try:
            actual = materialise(QUERIES[name](engine, str(folder)))
            problem = differences(expected, actual, ORDER[name])
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        took = time.perf_counter() - between
        bad += problem is not None
        print(
            f"{name}  {len(expected):6} rows  SQL {between - begun:7.3f} s  {engine.__name__} {took:7.3f} s  "
            f"{problem or 'equal'}",
            flush=True,
        )
    return bad


def main(argv: list[str] | None = None) -> int:
    """Run the check from the command line; the exit status is 1 if a query differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (default: 0.1)")
    parser.add_argument(
        "--data", type=Path, help="folder of the data (default: build/tpch/sf<scale>, generated if needed)"
    )
    parser.add_argument(
        "--engine", choices=("pandas", "craton"), default="pandas", help="the module that runs the pandas code"
    )
    parser.add_argument("--queries", default="", help="numbers of the queries, such as 1,6,14 (default: all)")
    options = parser.parse_args(argv)
    names = [f"q{int(number):02}" for number in options.queries.split(",") if number] or list(QUERIES)
    engine = importlib.import_module("pandas" if options.engine == "pandas" else "craton.pandas")
    folder = tpch.ensure(options.scale, options.data)
    bad = check(folder, engine, names)
    print(f"{len(names) - bad} of {len(names)} queries equal at scale factor {options.scale:g}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
