"""Two window functions below one aggregate, in tiles: one must not lose the row order that the other needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from test_tiles_measured import tiled

WINDOWS: dict[str, Callable[[Any], Any]] = {
    "the first of a group": lambda df: df.groupby("k")["y"].transform("first"),
    "a running sum of groups": lambda df: df.groupby("k")["y"].cumsum(),
    "later duplicates": lambda df: df.duplicated(["y"]),
    "earlier duplicates": lambda df: df.duplicated(["y", "j"], keep="last"),
    "ranks in order": lambda df: df["y"].rank(method="first"),
    "a running maximum": lambda df: df["y"].cummax(),
    "a shift": lambda df: df["y"].shift(),
    "totals": lambda df: df.groupby("k")["y"].transform("sum"),
    "filled": lambda df: df["z"].ffill(),
    "filled in groups": lambda df: df.groupby("k")["z"].bfill(),
    "ranks": lambda df: df["y"].rank(),
}


def data() -> pandas.DataFrame:
    rng = np.random.default_rng(3)
    y, k, j = rng.integers(0, 9, 41), rng.integers(0, 4, 41), rng.integers(0, 5, 41)
    return pandas.DataFrame({"y": y, "k": k, "j": j, "z": np.where(rng.random(41) < 0.4, np.nan, y + 1.0)})


@pytest.mark.parametrize("one", WINDOWS)
def test_pairs(one: str) -> None:
    for two in WINDOWS:

        def program(pd: Any, df: Any, two: str = two) -> Any:
            u, v = WINDOWS[one](df).astype(float), WINDOWS[two](df).astype(float)
            mixed = (u * 3 + v * 7).fillna(-1)
            kept = df[(u > v) | (v == 0)]
            return mixed.sum(), kept.assign(w=2)["w"].sum()

        tiled(program, data(), tiles=3)


@pytest.mark.parametrize("three", list(itertools.combinations(WINDOWS, 3))[::23], ids=" and ".join)
def test_three(three: tuple[str, ...]) -> None:
    def program(pd: Any, df: Any) -> Any:
        for i, name in enumerate(three):
            df[f"w{i}"] = WINDOWS[name](df).astype(float)
        return df[["w0", "w1", "w2"]].fillna(-1).mul([1, 3, 7]).sum().sum(), df.query("w0 <= w1")["w2"].sum()

    tiled(program, data())
