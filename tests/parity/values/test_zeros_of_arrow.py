"""Arrow's floats, for which some methods of pandas distinguish 0.0 and -0.0: counts, rows and signs are pandas'.

Other floats are tested, too, in programs in which the sign of a zero affects a later step.
"""

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


POSITIONS: list[list[float | None]] = [
    [0.0, -0.0, 0.0, -0.0],
    [-0.0, 0.0, -0.0, 0.0],
    [None, -0.0, 0.0, 1.0],
    [0.0, None, -0.0, -1.0, -0.0, 2.0],
    [-0.0, -0.0, 5.0, 0.0, None, -1.0, 0.0],
    [-0.0, -0.0],
]
ARROW = ["double[pyarrow]", "float[pyarrow]"]


def table(zeros: list[float | None], dtype: str) -> pandas.DataFrame:
    """Zeros and their groups."""
    groups = [1] * (len(zeros) - 1) + [2]
    return pandas.DataFrame({"z": pandas.array(zeros, dtype=dtype), "g": groups, "v": range(len(zeros))})


def signs(column: Any) -> Any:
    """Which values are negative or -0.0."""
    return np.signbit(column.fillna(1.0).to_numpy(dtype="float64"))


@pytest.mark.parametrize("name", ["min", "max", "median"])
@pytest.mark.parametrize("dtype", ARROW)
@pytest.mark.parametrize("zeros", POSITIONS, ids=str)
def test_extremes_of_a_column(zeros: list[float | None], dtype: str, name: str) -> None:
    data = table(zeros, dtype)
    check(lambda pd, df: np.signbit(getattr(df["z"], name)()), data, native=None)
    check(lambda pd, df: signs(getattr(df[["z", "v"]], name)()), data, native=None)
    check(lambda pd, df: signs(df[df["v"] < 2]["z"].agg([name])), data, native=None)
    check(lambda pd, df: (1 / (df["z"] - getattr(df["z"], name)())).tolist(), data, native=None)


@pytest.mark.parametrize("name", ["min", "max", "median", "sum", "first", "last"])
@pytest.mark.parametrize("dtype", ARROW)
@pytest.mark.parametrize("zeros", POSITIONS, ids=str)
def test_aggregates_of_groups_and_then_distinct_rows(zeros: list[float | None], dtype: str, name: str) -> None:
    def spread(pd: Any, df: Any) -> Any:
        wide = df.assign(w=df.groupby("g")["z"].transform(name))
        return signs(wide["w"]), len(wide[["w", "z"]].drop_duplicates()), wide.groupby("w")["v"].sum()

    def aggregated(pd: Any, df: Any) -> Any:
        result = df.groupby("g", as_index=False).agg(z=("z", name), n=("v", "count"))
        return signs(result["z"]), result.merge(df[["z"]], on="z").shape, result["z"].nunique()

    check(spread, table(zeros, dtype), native=None)
    check(aggregated, table(zeros, dtype), native=None)


LEVELS: dict[str, Callable[[Any, Any], Any]] = {
    "levels": lambda pd, df: df.set_index(["z", "g"])["v"].sum(),
    "levels of selected rows": lambda pd, df: df[df["v"] > 1].set_index(["g", "z"]).reset_index(),
    "a level more": lambda pd, df: df.set_index("z").set_index("g", append=True)["v"].cumsum(),
    "one level": lambda pd, df: df.set_index("z")["v"].shift(),
    "categories": lambda pd, df: df["z"].astype("category").cat.codes,
    "categories of a frame": lambda pd, df: df.astype({"z": "category"}).groupby("z", observed=True)["v"].sum(),
    "categories of selected rows": lambda pd, df: df[df["v"] > 1]["z"].astype("category").nunique(),
}


@pytest.mark.parametrize("method", LEVELS)
@pytest.mark.parametrize("dtype", [*ARROW, "Float64", "float64"])
@pytest.mark.parametrize("zeros", POSITIONS, ids=str)
def test_levels_and_categories(zeros: list[float | None], dtype: str, method: str) -> None:
    check(LEVELS[method], table(zeros, dtype), native=None)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("dtype", [*ARROW, "Float64", "Float32", "float64"])
@pytest.mark.parametrize("zeros", POSITIONS, ids=str)
def test_the_side_whose_keys_are_kept(zeros: list[float | None], dtype: str, how: Any) -> None:
    def program(pd: Any, df: Any) -> Any:
        merged = df[["z", "v"]].merge(df[["z", "g"]], on="z", how=how)
        by_two = df.merge(df[["z", "g"]].assign(q=1), on=["z", "g"], how=how)
        return signs(merged["z"]), signs(by_two["z"]), merged["v"]

    check(program, table(zeros, dtype), native=None)


@pytest.mark.parametrize("dtype", ["Float64", "Float32"])
@pytest.mark.parametrize("zeros", POSITIONS, ids=str)
def test_sums_of_nullable_floats_are_added_to_zero(zeros: list[float | None], dtype: str) -> None:
    check(lambda pd, df: signs(df.groupby("g")["z"].transform("sum")), table(zeros, dtype), native=True)


@pytest.mark.parametrize("name", ["min", "max", "median"])
def test_arrow_floats_without_negative_zeros_stay_native(name: str) -> None:
    data = table([0.0, 2.0, None, 0.0, -1.5], "double[pyarrow]")
    check(lambda pd, df: getattr(df["z"], name)(), data, native=True)
    check(lambda pd, df: df.assign(w=df.groupby("g")["z"].transform(name))["w"].sum(), data, native=True)
    check(lambda pd, df: df.set_index(["z", "g"])["v"].max(), data, native=True)
