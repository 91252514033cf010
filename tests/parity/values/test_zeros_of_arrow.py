"""Arrow's floats, of which pandas distinguishes 0.0 and -0.0 in some methods: counts, rows and signs are pandas'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ZEROS: list[list[float | None]] = [
    [0.0, -0.0],
    [-0.0, 0.0, 1.0, -0.0, 0.0, -1.0, 0.0],
    [None, 0.0, -0.0, None, -0.0],
    [-0.0, -0.0, 0.0],
]
METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "unique": lambda pd, df: len(df["z"].unique()),
    "nunique": lambda pd, df: df.nunique(),
    "value_counts": lambda pd, df: df["z"].value_counts(),
    "value_counts of rows": lambda pd, df: df[["z", "y"]].value_counts(sort=False),
    "distinct": lambda pd, df: df["z"].drop_duplicates(keep="last"),
    "distinct rows": lambda pd, df: df[["z", "y"]].drop_duplicates(),
    "last distinct rows": lambda pd, df: df.drop_duplicates(subset=["y", "z"], keep="last")["v"].sum(),
    "distinct rows of one column": lambda pd, df: df[["z"]].drop_duplicates(),
    "duplicated": lambda pd, df: df[["z", "y"]].duplicated().sum(),
    "all duplicated": lambda pd, df: df[df[["z", "y"]].duplicated(keep=False)],
    "groups": lambda pd, df: df.groupby("z")["v"].sum(),
    "groups of two": lambda pd, df: df.groupby(["y", "z"])["v"].cumsum(),
    "counts in groups": lambda pd, df: df.groupby("y")["z"].nunique(),
    "values in groups": lambda pd, df: df.groupby("y")["z"].value_counts(),
    "running least": lambda pd, df: np.signbit(df["z"].cummin().fillna(1.0).to_numpy(dtype="float64")),
    "running least in groups": lambda pd, df: np.signbit(
        df.groupby("y")["z"].cummin().fillna(1.0).to_numpy(dtype="float64")
    ),
    "running greatest in groups": lambda pd, df: np.signbit(
        df.groupby("y")[["z"]].cummax()["z"].fillna(1.0).to_numpy(dtype="float64")
    ),
    "groups of a running least": lambda pd, df: (lambda r: r.groupby(r["z"]).mean())(df.groupby("y")[["z"]].cummin()),
    "members": lambda pd, df: df["z"].isin([0.0]).sum(),
    "codes": lambda pd, df: pd.factorize(df["z"])[0],
    "merge": lambda pd, df: df.merge(df[["z"]].assign(q=1), on="z"),
    "outer merge": lambda pd, df: df.merge(df[["z"]].head(1).assign(q=1), on="z", how="outer")["q"].count(),
    "sorted": lambda pd, df: df.sort_values("z", kind="stable")["v"],
    "sorted down, shifted": lambda pd, df: df.sort_values("z", ascending=False, kind="stable")["v"].shift().sum(),
    "sorted by two": lambda pd, df: df.sort_values(["y", "z"])["v"],
    "ranks": lambda pd, df: df["z"].rank(method="dense"),
    "ranks in groups": lambda pd, df: df.groupby("y")["z"].rank(method="dense"),
    "largest": lambda pd, df: df["z"].nlargest(3),
    "index": lambda pd, df: df.set_index("z")["v"].sort_index(kind="stable"),
    "pivot_table": lambda pd, df: df.pivot_table(index="z", values="v"),
    "mode": lambda pd, df: df["z"].mode(),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["double[pyarrow]", "float[pyarrow]"])
@pytest.mark.parametrize("zeros", ZEROS, ids=str)
def test_zeros_of_two_signs(zeros: list[float | None], dtype: str, method: str) -> None:
    data = pandas.DataFrame({"z": pandas.array(zeros, dtype=dtype), "y": "a", "v": range(len(zeros))})
    check(lambda pd, df: METHODS[method](pd, df), data, native=None)
