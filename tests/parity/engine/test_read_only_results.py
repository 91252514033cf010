"""Results are read-only arrays over shared memory; pandas' code must get a writable array where it writes in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest
from support import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = {
    "int64": np.array([-50, 3, 3]),
    "int8": np.array([1, 2, 2], dtype="int8"),
    "float64": np.array([1.0, 2.0, 4.0]),
    "float32": np.array([2.0, 1.0, 0.5], dtype="float32"),
    "NaN": np.array([2.0, np.nan, 0.5]),
    "bool": np.array([True, False, True]),
}

#: Ways to get a nullable dtype for an evaluated column, some of which share its array.
TO_NULLABLE: dict[str, Callable[[Any, Any], Any]] = {
    "convert_dtypes": lambda pd, s: s.convert_dtypes(),
    "astype": lambda pd, s: s.astype(nullable(s)),
    "astype, no copy": lambda pd, s: s.astype(nullable(s), copy=False),
    "Series": lambda pd, s: pd.Series(s, dtype=nullable(s)),
    "frame": lambda pd, s: s.to_frame().convert_dtypes()[s.name],
    "copy": lambda pd, s: s.convert_dtypes().copy(deep=False),
    "set": lambda pd, s: s.to_frame().assign(c=s.convert_dtypes())["c"],
}

#: Methods of pandas that write to the values below the mask.
CUMULATIVE = ["cumsum", "cumprod", "cummin", "cummax"]


def nullable(column: Any) -> str:
    return {"int64": "Int64", "int8": "Int8", "float64": "Float64", "float32": "Float32", "bool": "boolean"}[
        str(column.dtype)
    ]


@pytest.mark.filterwarnings("ignore:.*copy keyword")
@pytest.mark.parametrize("way", TO_NULLABLE)
@pytest.mark.parametrize("kind", COLUMNS)
def test_cumulative_methods_of_nullable_columns(kind: str, way: str) -> None:
    def program(pd: Any, table: Any) -> Any:
        source = table["x"]
        before = source.to_numpy(copy=True)
        column = TO_NULLABLE[way](pd, source)
        results = []
        for name in CUMULATIVE:
            results += [
                column.transform(name),
                column.agg(name),
                getattr(column, name)(),
                getattr(column, name)(skipna=False),
            ]
            results += [getattr(column.to_frame(), name)(), column.to_frame().transform(name)]
        assert np.array_equal(source.to_numpy(), before, equal_nan=True)
        return [*results, column, source, source.sum(), column.sum()]

    check(program, pandas.DataFrame({"x": COLUMNS[kind]}), native=None)


@pytest.mark.parametrize("dtype", ["string[pyarrow]", "large_string[pyarrow]", "int64[pyarrow]", "str"])
@pytest.mark.parametrize("how", ["left", "right", "inner", "outer"])
def test_joins_of_empty_results(how: str, dtype: str) -> None:
    """pandas' joins concatenate the chunks of Arrow keys, so even an empty result must have a chunk."""
    values = [1, 2] if "int" in dtype else ["a", "b"]
    index = pandas.MultiIndex.from_arrays([pandas.array(values, dtype=dtype), [1.0, 2.0]], names=["k", "l"])

    def program(pd: Any, table: Any) -> Any:
        none = table[table["y"] > 5]
        joined = none.reset_index().join(none["y"].rename("z"), on=["k", "l"], how=how)
        part = none.reset_index().astype({"k": "category"}).astype({"k": dtype})
        return (
            joined,
            none.reset_index().merge(none.reset_index(), on="k", how=how),
            part.merge(part, on=["k", "l"]),
            len(joined),
        )

    check(program, pandas.DataFrame({"y": [1, 2]}, index=index), native=None)
    check(program, pandas.DataFrame({"y": [1, 2]}, index=index).iloc[:0], native=None)


@pytest.mark.parametrize("make", ["plain", "assigned", "a column"])
def test_stata_files_of_times_with_gaps(make: str, tmp_path: Path) -> None:
    def program(pd: Any, table: Any) -> Any:
        column, whole = table["a"], table.copy()
        made = {"plain": table, "assigned": table.assign(k=table["a"]), "a column": column.to_frame()}[make]
        made.to_stata(tmp_path / "a.dta")
        return pandas.read_stata(tmp_path / "a.dta"), made, whole, column.count()

    check(program, pandas.DataFrame({"a": pandas.to_datetime(["2020-01-01", None])}), native=None)
