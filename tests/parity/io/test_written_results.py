"""Users can write to the result of a call; a call that returns the object itself in pandas does so in Craton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from support import check

import craton.pandas

ONE_ROW = pandas.DataFrame({"g": ["B"], "h": ["q"], "x": [1.5], "n": [3]})
#: Small results that pandas' own code assembles from the result of a plan.
TABLES: dict[str, Callable[[Any, Any], Any]] = {
    "pivot": lambda pd, df: df.pivot_table(index="g", values="x"),
    "pivot of two": lambda pd, df: df.pivot_table(index="g", values=["x", "n"], aggfunc="sum"),
    "pivot by columns": lambda pd, df: df.pivot_table(index="g", columns="h", values="x"),
    "pivot with two functions": lambda pd, df: df.pivot_table(index="g", values="x", aggfunc=["min", "max"]),
    "crosstab": lambda pd, df: pd.crosstab(df["g"], df["h"]),
    "groups": lambda pd, df: df.groupby("g")[["x"]].mean(),
    "groups unstacked": lambda pd, df: df.groupby(["g", "h"])["x"].mean().unstack(),
    "counts": lambda pd, df: df["n"].value_counts(),
    "counts of groups": lambda pd, df: df.groupby("g")["h"].value_counts(),
    "describe": lambda pd, df: df.describe(),
    "quantiles": lambda pd, df: df[["x"]].quantile([0.5]),
    "sums": lambda pd, df: df[["x", "n"]].sum(),
    "correlation": lambda pd, df: df[["x", "n"]].corr(),
    "row": lambda pd, df: df[["x", "n"]].iloc[0],
    "turned": lambda pd, df: df[["x", "n"]].T,
    "computed": lambda pd, df: df[["x"]] * 2,
    "sorted": lambda pd, df: df[["x"]].sort_values("x"),
}
WRITES: dict[str, Callable[[Any], None]] = {
    "a row": lambda t: t.iloc.__setitem__(0, 7),
    "by its label": lambda t: t.loc.__setitem__(t.index[0], 7),
    "rows": lambda t: t.iloc.__setitem__(slice(0, None), 7),
    "a cell": lambda t: t.iat.__setitem__((0, 0) if t.ndim == 2 else 0, 7),
    "where": lambda t: t.where(t < 0, 7, inplace=True),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("table", TABLES)
def test_results_can_be_written_to(table: str, write: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        made = TABLES[table](pd, df)
        str(made)
        WRITES[write](made)
        return made, TABLES[table](pd, df)

    check(program, ONE_ROW, native=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made.clip(),
        lambda made: made.clip(np.nan),
        lambda made: made.clip(None, None, axis=0),
        lambda made: made.clip(inplace=True),
    ],
)
@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("column", [["x"], ["g"], "x", "g"], ids=str)
def test_a_clip_without_bounds_is_the_object(column: Any, look: bool, call: Callable[[Any], Any]) -> None:
    def program(pd: Any, df: Any) -> Any:
        made = df[column]
        if look:
            str(made)
        same = call(made)
        same.iloc[0] = made.iloc[0] * 2
        return same is made, made, df

    check(program, ONE_ROW, native=None)
    frame = craton.pandas.DataFrame(ONE_ROW)
    with pytest.raises(ValueError, match="inplace"):
        frame.clip(inplace=3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize(
    "call",
    [lambda made: made.iloc[:, :], lambda made: made.loc[:, :], lambda made: made.squeeze(), lambda made: made.iloc[:]],
    ids=["iloc of both", "loc of both", "squeeze", "iloc of rows"],
)
def test_all_rows_and_columns_where_an_axis_has_levels(call: Callable[[Any], Any], looked: bool, axis: int) -> None:
    """If an axis has levels, pandas returns the object itself for two full slices, so writes to one are visible in the other."""
    levels = pandas.MultiIndex.from_arrays([["p", "q"], [1, 2]])
    data = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    data = data.set_axis(levels, axis=axis)

    def program(pd: Any, df: Any) -> Any:
        made = df * 2
        if looked:
            str(made)
        other = call(made)
        made.drop(columns=made.columns[0], inplace=True)
        made.iloc[0, 0] = 100
        return other, other is made, made

    check(program, data, native=None)
