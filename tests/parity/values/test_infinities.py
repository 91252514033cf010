"""Aggregates of groups that contain infinities, on the single-node engine and in tiles, for each float dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check
from test_tiles_measured import skewed, tiled

INF = float("inf")
KEYS = [1, 1, 2, 2, 3, 4, 4, 4, 1, 5, 1, 2, 6, 6, 6, 7, 7]
VALUES = [-INF, -INF, 1, INF, INF, -INF, INF, None, INF, None, 2, 3.5, 1e38, 3e38, -3e38, None, 0.0]
FLOATS = ["float64", "float32", "Float64", "Float32", "double[pyarrow]", "float[pyarrow]"]
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **{name: lambda groups, name=name: getattr(groups, name)() for name in ("cumsum", "cumprod", "quantile")},
    **{name: lambda groups, name=name: getattr(groups, name)() for name in ("sum", "mean", "std", "median")},
    **{
        f"transform {name}": lambda groups, name=name: groups.transform(name)
        for name in ("cumsum", "quantile", "sum", "mean", "std", "median", "prod")
    },
    "a share": lambda groups: groups.quantile(0.3),
    "midpoint": lambda groups: groups.quantile(0.7, interpolation="midpoint"),
    "of the sums": lambda groups: groups.cumsum().isna().cumsum(),
}


def frame(dtype: str) -> pandas.DataFrame:
    return pandas.DataFrame({"k": KEYS, "x": pandas.array(VALUES, dtype="Float64").astype(dtype)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_groups(name: str, dtype: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        return PROGRAMS[name](df.groupby("k")["x"])

    data = frame(dtype)
    if name.endswith(("sum", "mean")) and not name.endswith("cumsum"):  # these add in 64 bits: no overflow
        data = data[data["k"] != 6]
    check(program, data, native=None, rtol=1e-6)
    tiled(program, data, tiles=3, rtol=1e-6)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_go_on_from_tile_to_tile(name: str) -> None:
    data = skewed(21)
    data.loc[[400, 900], "value"] = [INF, -INF]
    data.loc[data["key"] == 7, "value"] = data["value"].where(data["row"] != 700, INF)

    def program(pd: Any, df: Any) -> Any:
        sums = getattr(df.assign(value=df["value"] / 64).groupby("key")["value"], name)()
        return sums, sums.isna().sum()

    said = tiled(program, data, tiles=24, tile_bytes=2_000)
    # The product of a part of the rows may overflow although that of all rows does not, so large partitions are not divided.
    assert ("rows, of large partitions, were cut into" in said) is (name == "cumsum")


@pytest.mark.parametrize("interpolation", ["higher", "lower", "linear", "midpoint"])
def test_quantiles_of_integers(interpolation: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        found = df.groupby("k")["g"].quantile(interpolation=interpolation)
        return found.notna(), found.isna().sum(), found + 1

    data = pandas.DataFrame({"k": [1, 1, 2], "g": np.array([3, 4, 5])})
    check(program, data, native=None)
    check(program, data.astype({"g": "Int64"}), native=None)
