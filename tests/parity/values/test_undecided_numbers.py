"""Computations on columns that have integers or, if a row has no value, floats.

Until the result is read, the plan keeps integers with nulls. pandas converts such a column to floats at the call if a value is
missing; it then does not wrap on overflow, and different integers above 2**53 may become equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

LARGE = 2**60
NUMBERS: dict[str, np.ndarray] = {
    "int8": np.array([127, -128, 5, 0, 127, 100], dtype="int8"),
    "int32": np.array([2**31 - 1, -(2**31), 5, 0, 2**31 - 1, 70000], dtype="int32"),
    "uint32": np.array([2**32 - 1, 1, 5, 0, 2**32 - 1, 70000], dtype="uint32"),
    "int64": np.array([LARGE + 1, LARGE, LARGE + 2, -5, LARGE + 1, 2**63 - 1], dtype="int64"),
    "uint64": np.array([LARGE + 1, LARGE, LARGE + 2, 5, LARGE + 1, 2**64 - 1], dtype="uint64"),
    "bool": np.array([True, False, True, True, False, True]),
}
#: Programs that make such columns; each runs with rows whose value is missing and without.
SOURCES: dict[str, Callable[[Any, Any], Any]] = {
    "where, some": lambda pd, df: df.assign(x=df["x"].where(df["i"] != 3)),
    "where, none": lambda pd, df: df.assign(x=df["x"].where(df["i"] >= 0)),
    "a left join, some": lambda pd, df: df[["i", "k"]].merge(df[df["i"] != 3][["i", "x"]], on="i", how="left"),
    "a left join, none": lambda pd, df: df[["i", "k"]].merge(df[["i", "x"]], on="i", how="left"),
    "an outer join": lambda pd, df: df[["i", "k"]].merge(
        df[df["i"] != 3][["i", "x"]].assign(i=lambda f: f["i"] + 1), on="i", how="outer"
    ),
    "rows before": lambda pd, df: df.assign(x=df["x"].shift(1)),
    "rows before in groups": lambda pd, df: df.assign(x=df.groupby("k")["x"].shift(1)),
    "differences in groups": lambda pd, df: df.assign(x=df.groupby("k")["x"].diff(-2)),
    "differences in groups, none": lambda pd, df: df.head(0).assign(x=df.head(0).groupby("k")["x"].diff()),
    "labels": lambda pd, df: df.set_index("i").reindex([1, 2, 9, 4, 5]).reset_index(),
    "a dict": lambda pd, df: df.assign(x=df["x"].map({value: value for value in df["x"].unique().tolist()[1:]})),
    "one on another": lambda pd, df: pd.concat([df[["i", "k"]].head(1), df]),
    "filled": lambda pd, df: df.assign(x=df["x"].where(df["i"] != 3)).fillna({"x": 1}),
}
ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "twice": lambda pd, df: df["x"] * 2,
    "twice, from the right": lambda pd, df: 2 * df["x"],
    "added to itself": lambda pd, df: df["x"] + df["x"],
    "less one": lambda pd, df: df["x"] - 1,
    "less a large one": lambda pd, df: df["x"] - LARGE,
    "less its maximum": lambda pd, df: (df["x"] - df["x"].max()).sum(),
    "a frame twice": lambda pd, df: (df[["x", "i"]] * 2).sum(),
    "beside another": lambda pd, df: (df["x"] + df["i"], df["i"] * df["x"], df["x"] / df["i"]),
    "down the columns": lambda pd, df: (df[["x", "i"]].mul(df["i"], axis=0), df[["i", "k"]].add(df["x"], axis=0)),
    "columns of a frame": lambda pd, df: (df[["x", "i"]] * df[["x", "i"]], df[["i", "x"]].rsub(df[["i", "x"]])),
    "filled on one side": lambda pd, df: (df["x"].add(df["i"], fill_value=3), df["x"].mul(2, fill_value=1)),
    "beside 32-bit floats": lambda pd, df: df["x"] + df["i"].astype("float32"),
    "divided": lambda pd, df: (df["x"] / 3, df["x"] // 3, df["x"] % 7),
    "negated": lambda pd, df: (-df["x"], df["x"].abs()),
    "equal": lambda pd, df: (df["x"] == LARGE).sum(),
    "filtered": lambda pd, df: df[df["x"] > LARGE],
    "filtered by a small one": lambda pd, df: df[df["x"] >= 5],
    "equal to its maximum": lambda pd, df: df[df["x"] == df["x"].max()],
    "compared to itself": lambda pd, df: (df["x"] < df["x"].shift(-1)).sum(),
    "compared to the row": lambda pd, df: (df["x"] == df["i"]).sum(),
    "queried": lambda pd, df: df.query(f"x <= {LARGE} and x * 2 > 6"),
    "between": lambda pd, df: df["x"].between(LARGE, LARGE + 1).sum(),
    "among": lambda pd, df: df["x"].isin([LARGE, 5, 127]).sum(),
    "cut off": lambda pd, df: (df["x"].clip(6, LARGE), df["x"].clip(upper=100.5)),
    "filled with one": lambda pd, df: df["x"].fillna(1) * 2,
    "filled with a half": lambda pd, df: df["x"].fillna(0.5).sum(),
    "filled forward": lambda pd, df: df["x"].ffill() * 2,
    "rounded": lambda pd, df: df["x"].round(1) * 2,
    "replaced": lambda pd, df: df["x"].replace(LARGE, 3),
    "kept where": lambda pd, df: df["x"].where(df["x"] > 5, 7) * 2,
    "masked by itself": lambda pd, df: df["x"].mask(df["x"] > 5, df["i"]) * 2,
    "sums": lambda pd, df: (df["x"].sum(), df["x"].mean(), df["x"].std(), df["x"].prod()),
    "places": lambda pd, df: (df["x"].min(), df["x"].max(), df["x"].median(), df["x"].quantile(0.3)),
    "labels of extremes": lambda pd, df: (df["x"].idxmax(), df["x"].idxmin()),
    "distinct": lambda pd, df: (df["x"].nunique(), df["x"].unique(), df["x"].duplicated().sum()),
    "without duplicates": lambda pd, df: df.drop_duplicates(subset="x"),
    "counted values": lambda pd, df: df["x"].value_counts(),
    "commonest": lambda pd, df: df["x"].mode(),
    "sorted": lambda pd, df: df.sort_values("x", kind="stable"),
    "sorted, then by row": lambda pd, df: df.sort_values(["x", "i"], ascending=[False, True]),
    "ranks": lambda pd, df: (df["x"].rank(), df["x"].rank(method="first")),
    "the largest": lambda pd, df: (df.nlargest(2, "x"), df["x"].nsmallest(2)),
    "running": lambda pd, df: (df["x"].cumsum(), df["x"].cummax(), df["x"].diff()),
    "groups": lambda pd, df: df.groupby("x", dropna=False)["i"].sum(),
    "sums of groups": lambda pd, df: df.groupby("k")["x"].sum() * 2,
    "moments of groups": lambda pd, df: df.groupby("k")["x"].agg(["mean", "std", "prod", "sem"]),
    "places in groups": lambda pd, df: df.groupby("k")["x"].agg(["min", "max", "first", "median", "nunique"]),
    "rows of groups": lambda pd, df: df["x"] - df.groupby("k")["x"].transform("max"),
    "joined on": lambda pd, df: df.merge(pd.DataFrame({"x": [LARGE, 5], "w": [1, 2]}), on="x", how="left"),
    "joined, then twice": lambda pd, df: df.merge(df[["i", "x"]], on="i", suffixes=("", "_r"))["x_r"] * 2,
    "an index": lambda pd, df: df.set_index("x").sort_index()["i"],
    "stacked": lambda pd, df: pd.concat([df["x"], df["i"]]) * 2,
    "as another": lambda pd, df: (
        df["x"].astype("float64") * 2,
        df["x"].astype("Int64"),
        df["x"].fillna(0).astype("int64"),
    ),
    "as text": lambda pd, df: df["x"].astype(str),
    "several steps": lambda pd, df: ((df["x"] * 2 + 1) * 3 - df["x"]).sum(),
    "of rows": lambda pd, df: df[["x", "i"]].sum(axis=1),
    "pivoted": lambda pd, df: df.pivot_table(index="k", values="x", aggfunc="sum") * 2,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_ending(dtype: str, ending: str, source: str) -> None:
    data = pandas.DataFrame({"i": np.arange(6), "k": [1, 1, 2, 2, 1, 2], "x": NUMBERS[dtype]})

    def program(pd: Any, df: Any) -> Any:
        return ENDINGS[ending](pd, SOURCES[source](pd, df))

    check(program, data, native=None, rtol=1e-9)
