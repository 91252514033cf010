"""The questions, as pandas and Polars programs: those of the benchmark's own solutions for each library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["GROUPBY", "JOIN", "Question"]

_GROUPS: dict[str, Any] = {"as_index": False, "sort": False, "observed": True, "dropna": False}


class Question:
    """One question.

    Parameters
    ----------
    pandas
        The program for pandas' API: given the module and the tables, it returns a frame.
    polars
        The program for Polars' lazy API.
    """

    def __init__(self, pandas: Callable[..., Any], polars: Callable[..., Any]) -> None:
        self.pandas = pandas
        self.polars = polars


def _squared_correlation(pd: Any, group: Any) -> Any:
    return pd.Series({"r2": group.corr(numeric_only=True)["v1"]["v2"] ** 2})


GROUPBY: dict[str, Question] = {
    "q1 sum by id1": Question(
        lambda pd, x: x.groupby("id1", **_GROUPS).agg({"v1": "sum"}),
        lambda pl, x: x.group_by("id1").agg(pl.sum("v1")),
    ),
    "q2 sum by id1, id2": Question(
        lambda pd, x: x.groupby(["id1", "id2"], **_GROUPS).agg({"v1": "sum"}),
        lambda pl, x: x.group_by("id1", "id2").agg(pl.sum("v1")),
    ),
    "q3 sum, mean by id3": Question(
        lambda pd, x: x.groupby("id3", **_GROUPS).agg({"v1": "sum", "v3": "mean"}),
        lambda pl, x: x.group_by("id3").agg(pl.sum("v1"), pl.mean("v3")),
    ),
    "q4 means by id4": Question(
        lambda pd, x: x.groupby("id4", **_GROUPS).agg({"v1": "mean", "v2": "mean", "v3": "mean"}),
        lambda pl, x: x.group_by("id4").agg(pl.mean("v1", "v2", "v3")),
    ),
    "q5 sums by id6": Question(
        lambda pd, x: x.groupby("id6", **_GROUPS).agg({"v1": "sum", "v2": "sum", "v3": "sum"}),
        lambda pl, x: x.group_by("id6").agg(pl.sum("v1", "v2", "v3")),
    ),
    "q6 median, std by id4, id5": Question(
        lambda pd, x: x.groupby(["id4", "id5"], **_GROUPS).agg({"v3": ["median", "std"]}),
        lambda pl, x: x.group_by("id4", "id5").agg(pl.median("v3").alias("median"), pl.std("v3").alias("std")),
    ),
    "q7 range by id3": Question(
        lambda pd, x: (
            x.groupby("id3", **_GROUPS)
            .agg({"v1": "max", "v2": "min"})
            .assign(range_v1_v2=lambda made: made["v1"] - made["v2"])[["id3", "range_v1_v2"]]
        ),
        lambda pl, x: x.group_by("id3").agg((pl.max("v1") - pl.min("v2")).alias("range_v1_v2")),
    ),
    "q8 largest two by id6": Question(
        lambda pd, x: (
            x[~x["v3"].isna()][["id6", "v3"]]
            .sort_values("v3", ascending=False)
            .groupby("id6", **_GROUPS)
            .head(2)
            .reset_index(drop=True)
        ),
        lambda pl, x: x.drop_nulls("v3").group_by("id6").agg(pl.col("v3").top_k(2)).explode("v3"),
    ),
    "q9 correlation by id2, id4": Question(
        lambda pd, x: (
            x[["id2", "id4", "v1", "v2"]]
            .groupby(["id2", "id4"], **_GROUPS)
            .apply(lambda group: _squared_correlation(pd, group))
        ),
        lambda pl, x: x.group_by("id2", "id4").agg((pl.corr("v1", "v2") ** 2).alias("r2")),
    ),
    "q10 sum, count by id1 to id6": Question(
        lambda pd, x: x.groupby(["id1", "id2", "id3", "id4", "id5", "id6"], **_GROUPS).agg({"v3": "sum", "v1": "size"}),
        lambda pl, x: x.group_by("id1", "id2", "id3", "id4", "id5", "id6").agg(pl.sum("v3"), pl.len().alias("v1")),
    ),
}

JOIN: dict[str, Question] = {
    "q1 small, inner": Question(
        lambda pd, x, small, medium, big: x.merge(small, on="id1"),
        lambda pl, x, small, medium, big: x.join(small, on="id1"),
    ),
    "q2 medium, inner": Question(
        lambda pd, x, small, medium, big: x.merge(medium, on="id2"),
        lambda pl, x, small, medium, big: x.join(medium, on="id2"),
    ),
    "q3 medium, left": Question(
        lambda pd, x, small, medium, big: x.merge(medium, how="left", on="id2"),
        lambda pl, x, small, medium, big: x.join(medium, how="left", on="id2"),
    ),
    "q4 medium, inner, by text": Question(
        lambda pd, x, small, medium, big: x.merge(medium, on="id5"),
        lambda pl, x, small, medium, big: x.join(medium, on="id5"),
    ),
    "q5 big, inner": Question(
        lambda pd, x, small, medium, big: x.merge(big, on="id3"),
        lambda pl, x, small, medium, big: x.join(big, on="id3"),
    ),
}
