"""Arrow-backed floats, in which NaN is a number and differs from a missing value; each statistic treats NaN in its own way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from support import check

NAN = float("nan")
ROWS: dict[str, list[Any]] = {
    "a number and NaN": [NAN, 1.0],
    "NaN last": [2.0, 1.0, NAN],
    "only NaN": [NAN],
    "NaN and missing": [NAN, None],
    "all three": [NAN, 1.0, None, 5.0, -2.0],
    "many": [NAN, *map(float, range(40)), None, NAN, -1.0, float("inf")],
    "no NaN": [3.0, None, 1.5],
    "none": [],
}
STATISTICS = [
    "sum", "prod", "mean", "median", "min", "max", "var", "std", "sem", "skew", "kurt", "count", "nunique", "any", "all",
    "idxmin", "idxmax", "quantile",
]  # fmt: skip


def column(rows: str, dtype: str) -> pandas.Series:
    """A column of these rows."""
    array = pa.array(ROWS[rows], getattr(pa, dtype)(), from_pandas=False)
    return pandas.Series(pandas.arrays.ArrowExtensionArray(array), name="x")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", STATISTICS)
def test_of_a_column_and_of_a_frame(name: str, rows: str, dtype: str) -> None:
    series = column(rows, dtype)
    check(lambda _, s: getattr(s, name)(), series, native=None)
    check(lambda _, s: s.agg([name, "count"]), series, native=None)
    check(lambda _, s: getattr(s.to_frame(), name)(), series, native=None)
    if name not in ("count", "nunique", "quantile"):
        check(lambda _, s: getattr(s, name)(skipna=False), series, native=None)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", [*STATISTICS, "first", "last", "cumsum", "cummax", "rank", "shift"])
def test_of_groups(name: str, rows: str) -> None:
    frame = column(rows, "float64").to_frame()
    frame["k"] = np.arange(len(frame)) % 2
    check(lambda _, f: getattr(f.groupby("k")["x"], name)(), frame, native=None)


@pytest.mark.parametrize("rows", ROWS)
def test_of_text_that_is_no_number(rows: str) -> None:
    """``to_numeric`` gives NaN, not missing values."""
    text = pandas.Series([None if one is None else str(one).replace("nan", "a") for one in ROWS[rows]])

    def program(pd: Any, s: Any) -> Any:
        numbers = pd.to_numeric(s.astype("large_string[pyarrow]"), errors="coerce")
        return numbers, numbers.median(), numbers.sum(), numbers.to_frame().median(), numbers.describe()

    check(program, text, native=None)


OPERATIONS: dict[str, Any] = {
    "cumsum": lambda pd, f: f["x"].cumsum(),
    "cumprod": lambda pd, f: f["x"].cumprod(),
    "cummax": lambda pd, f: f["x"].cummax(),
    "cummin": lambda pd, f: f["x"].cummin(),
    "diff": lambda pd, f: f["x"].diff(),
    "pct_change": lambda pd, f: f["x"].pct_change(),
    "rank": lambda pd, f: [f["x"].rank(method=how) for how in ("average", "min", "max", "first", "dense")],
    "sort": lambda pd, f: [f.sort_values("x", na_position=where, kind="stable") for where in ("first", "last")],
    "sort down": lambda pd, f: f.sort_values(["x", "k"], ascending=[False, True]),
    "nlargest": lambda pd, f: (f["x"].nlargest(3), f["x"].nsmallest(3)),
    "unique": lambda pd, f: f["x"].unique().tolist(),
    "value_counts": lambda pd, f: (f["x"].value_counts(), f["x"].value_counts(dropna=False)),
    "duplicated": lambda pd, f: (f["x"].duplicated(), f.drop_duplicates("x")),
    "isna": lambda pd, f: (f["x"].isna(), f["x"].notna(), f.isna(), f["x"].hasnans),
    "dropna": lambda pd, f: (f["x"].dropna(), f.dropna(), f.dropna(how="all")),
    "fillna": lambda pd, f: (f["x"].fillna(0.5), f.fillna({"x": 7.0}), f["x"].ffill(), f["x"].bfill()),
    "compare": lambda pd, f: [f["x"] > 1, f["x"] <= 1, f["x"] == f["x"], f["x"] != 1, f["x"].between(0, 3), f["x"].eq(1)],
    "filter": lambda pd, f: [f[f["x"] > 1], f[f["x"] != 1], f[~(f["x"] > 1)], f.query("x < 3"), f.query("x == x")],
    "arithmetic": lambda pd, f: [f["x"] + 1, f["x"] * 0, f["x"] / f["x"], -f["x"], f["x"] ** 0, f["x"] // 2, f["x"] % 2],
    "rounding": lambda pd, f: (f["x"].round(1), f["x"].abs(), f["x"].clip(0, 2), f["x"].clip(lower=1)),
    "where": lambda pd, f: (f["x"].where(f["x"] > 1), f["x"].mask(f["x"] > 1), f["x"].where(f["x"] > 1, 0.0)),
    "isin": lambda pd, f: (f["x"].isin([1.0, 2.0]), f["x"].isin([np.nan]), f["x"].isin([None])),
    "replace": lambda pd, f: (f["x"].replace(1.0, 9.0), f["x"].replace(np.nan, 9.0)),
    "map": lambda pd, f: (f["x"].map({1.0: 5}), f["x"].map(lambda one: one)),
    "casts": lambda pd, f: (f["x"].astype("float64"), f["x"].astype("Float64"), f["x"].astype("float32[pyarrow]")),
    "to text": lambda pd, f: f["x"].astype(str),
    "truth": lambda pd, f: (f["x"].any(), f["x"].all(), f["x"].astype("float64").any()),
    "extremes of rows": lambda pd, f: (f[["x", "y"]].max(axis=1), f[["x", "y"]].sum(axis=1), f[["x", "y"]].mean(axis=1)),
    "describe": lambda pd, f: (f["x"].describe(), f.describe()),
    "quantile": lambda pd, f: (f["x"].quantile([0.25, 0.5]), f.quantile(0.5)),
    "mode": lambda pd, f: f["x"].mode(),
    "group": lambda pd, f: (f.groupby("x")["k"].sum(), f.groupby("x", dropna=False)["k"].count()),
    "group aggregates": lambda pd, f: f.groupby("k")["x"].agg(["min", "max", "sum", "count", "first", "last", "nunique"]),
    "group median": lambda pd, f: f.groupby("k").agg(m=("x", "median"), q=("x", lambda one: one.quantile(0.3))),
    "transform": lambda pd, f: [f.groupby("k")["x"].transform(how) for how in ("sum", "max", "min", "mean", "median")],
    "group windows": lambda pd, f: [getattr(f.groupby("k")["x"], how)() for how in ("cummin", "cumprod", "ffill", "bfill", "diff")],
    "merge": lambda pd, f: f.merge(f.rename(columns={"k": "l"}), on="x", how="left"),
    "merge outer": lambda pd, f: f.head(3).merge(f.tail(3), on=["x", "k"], how="outer"),
    "concat": lambda pd, f: pd.concat([f, f.assign(x=f["x"] + 1)], ignore_index=True)["x"].max(),
    "computed beside stored": lambda pd, f: [
        g.agg(["max", "min", "sum", "count"])
        for h in [f["x"] + 1]
        for g in [
            pd.concat([f["x"], h]), pd.concat([h, f["x"]]), f["x"].where(f["k"] == 0, h), h.where(f["k"] == 0, f["x"]),
            f["x"].fillna(h), h.fillna(f["x"]), f.assign(h=h).melt("k", ["x", "h"])["value"], f["x"].combine_first(h),
            h.combine_first(f["x"]), h.mask(f["k"] == 0, f["x"]), f.assign(h=h)[["h", "x"]].stack(),
        ]
    ],
    "computed is set": lambda pd, f: [
        g["x"].sum() for g in [f.copy()] for _ in [g.__setitem__("x", g["x"] + 1), g.loc.__setitem__((g["k"] == 0, "x"), f["x"])]
    ],
    "pivot": lambda pd, f: f.pivot_table(index="k", values="x", aggfunc=["min", "max", "sum"]),
    "shift and sum": lambda pd, f: (f["x"].shift().sum(), f["x"].shift(-1).max(), f.sort_values("x")["x"].shift().sum()),
    "rolling": lambda pd, f: f["x"].rolling(2).sum(),
    "count": lambda pd, f: (f.count(), f["x"].count(), f["x"].nunique(), f["x"].nunique(dropna=False)),
    "argmax": lambda pd, f: (f["x"].argmax(), f["x"].argmin()),
    "set": lambda pd, f: f.assign(x=f["x"].where(f["k"] == 0, 3.0)).loc[lambda g: g["x"] > 2, "x"].sum(),
    "cut": lambda pd, f: pd.cut(f["x"], [0, 2, 10]),
    "numpy": lambda pd, f: (np.sqrt(f["x"].abs()), np.exp(f["x"].clip(0, 1)), np.isnan(f["x"])),
    "polars and back": lambda pd, f: f["x"].to_numpy(),
}  # fmt: skip


@pytest.mark.parametrize("source", ["memory", "parquet"])
@pytest.mark.parametrize("rows", ["all three", "many", "only NaN", "NaN and missing"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_of_operations(operation: str, rows: str, source: str, tmp_path: Any) -> None:
    frame = column(rows, "float64").to_frame()
    frame["k"] = np.arange(len(frame)) % 2
    frame["y"] = frame["x"].iloc[::-1].reset_index(drop=True)
    if source == "memory":
        check(OPERATIONS[operation], frame, native=None)
        return
    path = tmp_path / "f.parquet"
    frame.to_parquet(path)
    check(lambda pd: OPERATIONS[operation](pd, pd.read_parquet(path, dtype_backend="pyarrow")), native=None)
