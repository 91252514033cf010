"""Calls that pandas computes once from whole columns, in programs: the other columns stay planned, and results are pandas'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

ROWS = 40
FRAME = pandas.DataFrame(
    {
        "k": np.arange(ROWS) % 4,
        "g": pandas.Categorical(list("abca") * 10, categories=list("dcba"), ordered=True),
        "s": pandas.Series(["x", None, "y z", ""] * 10, dtype="str"),
        "x": np.where(np.arange(ROWS) % 7 == 0, np.nan, np.arange(ROWS) % 5 / 3),
        "y": np.arange(ROWS) % 6 - 2.5,
        "n": pandas.array([1, None, 3, 3] * 10, dtype="Int64"),
        "t": pandas.date_range("2024-02-27", periods=ROWS, freq="7h"),
    }
)
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "ranks of missing values": lambda pd, df: [df["x"].rank(na_option=option) for option in ("keep", "top", "bottom")],
    "ranks of mixed columns": lambda pd, df: df.rank(method="dense", na_option="top"),
    "ranks of texts": lambda pd, df: df[["s", "g", "n"]].rank(pct=True),
    "relative changes by frequency": lambda pd, df: df.set_index("t")[["x", "y"]].pct_change(freq="14h"),
    "counts of categories": lambda pd, df: [df[["g", "k"]].value_counts(), df.value_counts("g"), df.value_counts(["g"])],
    "shares of categories": lambda pd, df: df.value_counts(["k", "g"], normalize=True, sort=False),
    "counts of categories in groups": lambda pd, df: df.groupby("k")["g"].value_counts(dropna=False),
    "counts of bins in groups": lambda pd, df: df.groupby("k")["y"].value_counts(bins=2),
    "counts of frames in groups": lambda pd, df: df.groupby("k")[["g", "s"]].value_counts(normalize=True),
    "products": lambda pd, df: [
        df[["x", "y"]].dot(np.arange(6.0).reshape(2, 3)),
        df[["k", "y"]] @ pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}, index=["k", "y"]),
        df[["y"]].dot([2.0]),
    ],
    "largest by columns with gaps": lambda pd, df: [
        df.nlargest(7, ["x", "y"]), df.nsmallest(7, ["x", "k"], keep="last"), df.nlargest(3, ["k", "y"], keep="all")
    ],
    "squeezed": lambda pd, df: [
        df[["x"]].squeeze(), df[["x"]].squeeze("index"), df.head(1).squeeze(), df[["y"]].head(1).squeeze(), df["x"].squeeze(),
        df["x"].head(1).squeeze(), df.squeeze(), df[["s"]].squeeze(axis=1),
    ],
    "objects inferred": lambda pd, df: [df.infer_objects(), df["x"].infer_objects().sum()],
}  # fmt: skip


@pytest.mark.parametrize("label", [None, "label", "levels"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_in_programs(name: str, label: str | None) -> None:
    call = PROGRAMS[name]

    def program(pd: Any, df: Any) -> Any:
        held = df.assign(y=df["y"] * 2)[df["k"] != 2]
        if label == "label":
            held = held.set_index("y", drop=False).rename_axis("label")
        if label == "levels":
            held = held.set_index(["k", "s"], drop=False).rename_axis(["i", "j"])
        before = held["y"].sum()
        found = call(pd, held)
        held["y"] = 0
        return found, before, held["y"].sum(), call(pd, df.iloc[:0]) if name == "objects inferred" else None

    check(program, FRAME)


@pytest.mark.parametrize("method", ["compare", "squeeze", "dot"])
def test_wrong_arguments(method: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        if method == "squeeze":
            return df[["x"]].squeeze("wrong")
        return getattr(df[["x", "y"]], method)(df[["x"]])

    assert isinstance(check(program, FRAME, native=None), ValueError)


@pytest.mark.parametrize("levels", [["k"], ["k", "s"]])
def test_attributes_that_are_missing(levels: list[str]) -> None:
    """Libraries ask objects for attributes, which may be labels: that reads the data, and is no fallback."""

    def program(pd: Any, df: Any) -> Any:
        held = (df.set_index(levels)["y"] * 2)[lambda y: y > 0]
        total = held.sum()
        return (
            total,
            hasattr(held, "columns"),
            getattr(held, "to_arrow", None),
            held.groupby(level=0).sum(),
            held.mean(),
        )

    check(program, FRAME)
