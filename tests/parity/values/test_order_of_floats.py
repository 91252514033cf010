"""Order and equality of NaN, missing values, infinities and both zeros, on the single-node engine and in tiles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check
from test_tiles_ties import Program, tiled

NAN, INF = float("nan"), float("inf")
NUMBERS: dict[str, list[float | None]] = {
    "one zero": [1.0, NAN, None, INF, 0.0, -INF, 2.5, None, NAN, -3.0, 1.0, NAN, 0.0, None, 7.0, -3.0],
    "both zeros": [1.0, NAN, None, INF, -0.0, 0.0, -INF, 2.5, None, NAN, -3.0, 1.0, NAN, 0.0, None, 7.0],
}
DTYPES = ["float64", "float32", "Float64", "Float64 that holds NaN", "double[pyarrow]", "float[pyarrow]"]
#: Every dtype on the single-node engine and in 3 tiles; the dtypes that differ most in other numbers of tiles too.
WAYS = [(dtype, tiles) for dtype in DTYPES for tiles in (None, 3)]
WAYS += [(dtype, tiles) for dtype in ("float64", "double[pyarrow]") for tiles in (1, 2, 7)]


def column(dtype: str, numbers: list[float | None]) -> Any:
    """Numbers as an array of a dtype; NaN and missing values stay distinct if the dtype distinguishes them."""
    if dtype.startswith("Float64"):
        plain = np.array([0.0 if number is None else number for number in numbers])
        missing = np.array([number is None for number in numbers])
        if dtype == "Float64":
            missing |= np.isnan(plain)
        return pandas.arrays.FloatingArray(plain, missing)  # type: ignore[attr-defined]
    if dtype.endswith("[pyarrow]"):
        kind = {"double": pa.float64(), "float": pa.float32()}[dtype.removesuffix("[pyarrow]")]
        return pandas.arrays.ArrowExtensionArray(pa.array(numbers, type=kind, from_pandas=False))
    return np.array([NAN if number is None else number for number in numbers], dtype=dtype)


def frame(dtype: str, numbers: str) -> pandas.DataFrame:
    """Shuffled rows with such numbers."""
    values = NUMBERS[numbers]
    return pandas.DataFrame({"a": column(dtype, values), "b": [1, 2] * (len(values) // 2), "row": range(len(values))})


SORTS: dict[str, Program] = {}
for _up, _at in itertools.product([True, False], ["last", "first"]):
    _options: dict[str, Any] = {"ascending": _up, "na_position": _at}
    _name = f"{'ascending' if _up else 'descending'}, {_at}"
    SORTS |= {
        f"values, {_name}": lambda pd, df, o=_options: df["a"].sort_values(kind="stable", **o),
        f"rows, {_name}": lambda pd, df, o=_options: df.sort_values("a", kind="stable", **o).head(9),
        f"labels, {_name}": lambda pd, df, o=_options: df.set_index("a").sort_index(kind="stable", **o),
        f"second of two keys, {_name}": lambda pd, df, o=_options: df.sort_values(["b", "a"], **o),
        f"then a window, {_name}": lambda pd, df, o=_options: df.sort_values("a", kind="stable", **o)["row"].shift(),
        f"first of two keys, {_name}": lambda pd, df, up=_up, at=_at: df.sort_values(
            ["a", "b"], ascending=[up, not up], na_position=at
        ),
    }

MEETINGS: dict[str, Program] = {
    "inner": lambda pd, df: df.merge(df.head(9), on="a"),
    "left": lambda pd, df: df.merge(df.head(9), on="a", how="left"),
    "outer": lambda pd, df: df.merge(df.head(9), on="a", how="outer"),
    "of two keys": lambda pd, df: df.merge(df.head(9), on=["a", "b"], how="outer"),
    "groups": lambda pd, df: df.groupby("a")["row"].sum(),
    "groups with the missing": lambda pd, df: df.groupby("a", dropna=False)["row"].max(),
    "groups of two keys": lambda pd, df: df.groupby(["b", "a"])["row"].min(),
    "a sort, then groups": lambda pd, df: (
        df.sort_values("a", ascending=False, kind="stable").groupby("b")["row"].first()
    ),
    "distinct": lambda pd, df: df["a"].unique(),
    "how many distinct": lambda pd, df: df["a"].nunique(),
    "how many distinct in groups": lambda pd, df: df.groupby("b")["a"].nunique(),
    "counts": lambda pd, df: df["a"].value_counts(),
    "no duplicates": lambda pd, df: df.drop_duplicates("a"),
    "any duplicates": lambda pd, df: df["a"].is_unique,
    "ranks": lambda pd, df: df["a"].rank(),
}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize(("dtype", "tiles"), WAYS)
def test_sorts(dtype: str, numbers: str, tiles: int | None) -> None:
    for program in SORTS.values():
        held = frame(dtype, numbers)
        if tiles is None:
            check(program, held, native=None)
        else:
            tiled(program, held, tiles=tiles)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize(("dtype", "tiles"), WAYS)
def test_what_meets(dtype: str, numbers: str, tiles: int | None) -> None:
    for program in MEETINGS.values():
        held = frame(dtype, numbers)
        if tiles is None:
            check(program, held, native=None)
        else:
            tiled(program, held, tiles=tiles)


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "double[pyarrow]", "float[pyarrow]"])
def test_sorts_by_one_key_run_in_a_plan(dtype: str) -> None:
    check(lambda pd, df: df.sort_values("a", ascending=False, kind="stable"), frame(dtype, "both zeros"))
    check(lambda pd, df: df.sort_values(["a", "b"], ascending=False), frame(dtype, "one zero"))
