"""A frame whose index levels and columns share a name: each method picks what pandas picks, or raises its error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas
import pytest
from support import check

_VALUES = {"k": [3, 1, 2, 2], "v": [5, 6, 6, 5]}
FRAMES: dict[str, pandas.DataFrame] = {
    "a column's name": pandas.DataFrame(_VALUES, index=pandas.Index([1, 2, 3, 3], name="k")),
    "the other column's name": pandas.DataFrame(_VALUES, index=pandas.Index([1, 2, 3, 4], name="v")),
    "a range": pandas.DataFrame(_VALUES, index=pandas.RangeIndex(4, name="k")),
    "two levels of one name": pandas.DataFrame(
        _VALUES, index=pandas.MultiIndex.from_arrays([[1, 2, 3, 3], [1, 2, 2, 2]], names=["k", "k"])
    ),
    "the name of the columns": pandas.DataFrame(_VALUES).rename_axis("k", axis=1).rename_axis("v"),
}


def _renamed(df: Any) -> Any:
    return df[["v"]].rename(columns={"v": "w"})


ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "sort_values": lambda pd, df: df.sort_values("k"),
    "sort by two": lambda pd, df: df.sort_values(["v", "k"]),
    "sort, missing first": lambda pd, df: df.sort_values(["k", "v"], na_position="first")["v"].shift().sum(),
    "largest": lambda pd, df: df.nlargest(2, "k"),
    "largest by two": lambda pd, df: df.nlargest(2, ["k", "v"]),
    "smallest by two": lambda pd, df: df.nsmallest(3, ["v", "k"])["k"].sum(),
    "distinct": lambda pd, df: df.drop_duplicates("k"),
    "duplicated": lambda pd, df: df.duplicated(["k"]).sum(),
    "set_index": lambda pd, df: df.set_index("k"),
    "set_index, appended": lambda pd, df: df.set_index("k", append=True),
    "reset_index": lambda pd, df: df.reset_index(),
    "reset a level": lambda pd, df: df.reset_index(level="k"),
    "reset, doubled": lambda pd, df: df.reset_index(allow_duplicates=True),
    "groups": lambda pd, df: df.groupby("k").sum(),
    "groups of a level": lambda pd, df: df.groupby(level="k").sum(),
    "groups of two": lambda pd, df: df.groupby(["v", "k"]).sum(),
    "groups of a series": lambda pd, df: df["v"].groupby("k").cumsum().max(),
    "groups by a column": lambda pd, df: df.groupby(df["k"])["v"].transform("sum").sum(),
    "merge": lambda pd, df: df.merge(df, on="k"),
    "merge on the other": lambda pd, df: df.merge(df, on="v"),
    "merge on two names": lambda pd, df: df.merge(df, left_on="k", right_on="v"),
    "merge on the index": lambda pd, df: df.merge(df, left_index=True, right_index=True),
    "merge of column and index": lambda pd, df: df.merge(df, left_on="v", right_index=True),
    "join": lambda pd, df: df.join(_renamed(df), on="k"),
    "join of indexes": lambda pd, df: df.join(_renamed(df)),
    "melt": lambda pd, df: df.melt("k"),
    "melt with labels": lambda pd, df: df.melt("k", ignore_index=False),
    "pivot_table": lambda pd, df: df.pivot_table(index="k", values="v"),
    "counts of pairs": lambda pd, df: df.pivot_table(index="v", columns="k", aggfunc="size"),
    "crosstab": lambda pd, df: pd.crosstab(df["k"], df["v"]),
    "query": lambda pd, df: df.query("k > 1"),
    "query of the other": lambda pd, df: df.query("v > 5")["k"].sum(),
    "eval": lambda pd, df: df.eval("k + v"),
    "value_counts": lambda pd, df: df.value_counts("k"),
    "explode": lambda pd, df: df.explode("k"),
    "sort_index": lambda pd, df: df.sort_index(level="k"),
    "unstack": lambda pd, df: df.set_index("v", append=True).unstack(),
    "droplevel": lambda pd, df: df.set_index("v", append=True).droplevel("k"),
    "groups of appended levels": lambda pd, df: df.set_index("v", append=True).groupby(["k", "v"]).sum(),
    "sort by appended levels": lambda pd, df: df.set_index("v", append=True).sort_values(["k", "v"]),
    "a series back": lambda pd, df: df["k"].reset_index(),
    "concat": lambda pd, df: pd.concat([df, df], keys=["a", "b"], names=["k"]),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_name_of_a_level_and_a_column(frame: str, ending: str) -> None:
    check(lambda pd, df: ENDINGS[ending](pd, df), FRAMES[frame], native=None)
