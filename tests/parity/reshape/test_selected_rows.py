"""Filters and sorts of tables in memory, whose columns are taken from the arrays in memory by row position."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas
import pytest
from support import _copy, outcome, same, to_craton
from tables import KEYS, LEFT

import craton
import craton.pandas
from craton.pandas.core import array_conversion

LABELS: dict[str, Callable[[Any], Any]] = {
    "numbered": lambda df: df,
    "other range": lambda df: df.set_axis(range(10, 10 + 3 * len(df), 3)),
    "texts": lambda df: df.set_axis([f"row {i % 5}" for i in range(len(df))]),
    "dates": lambda df: df.set_axis(pandas.date_range("2024-01-01", periods=len(df), name="day")._with_freq(None)),
    "dates with gaps": lambda df: df.set_axis(pandas.to_datetime(["2024-01-01", "2025-06-01"] * len(df))[: len(df)]),
    "levels": lambda df: df.set_axis(pandas.MultiIndex.from_arrays([np.arange(len(df)) % 3, np.arange(len(df))])),
}


def check(program: Callable[..., Any], *data: Any) -> None:
    """Compare a program with pandas, with frames of two rows and more planned, and calls on data in memory in pandas."""
    expected, error = outcome(program, pandas, [_copy(item) for item in data])
    with craton.option_context(small_rows=1):
        got, raised = outcome(program, craton.pandas, [to_craton(_copy(item)) for item in data])
    assert type(raised) is type(error), (raised, error)
    same(got, expected)


@pytest.mark.parametrize("labels", LABELS)
def test_masks(labels: str) -> None:
    """Masks of pandas and masks that a plan computes, one upon another, and columns that are computed of selected rows."""

    def program(pd: Any, df: Any) -> Any:
        some = df[df["v"] > df["v"].median()]
        text = df[df["s"].isin(["a", "b"])]
        both = some[some["k"] == some["k"].iloc[0]]
        parts = df[(df["v"] > 0) & df["f"].notna()].assign(more=lambda d: d["v"] * 2)
        none, every = df[df["v"] > np.inf], df[df["v"].notna() | df["v"].isna()]
        return some, text, both, parts, none, every, parts["more"].sum(), both["s"], some.index, len(some[["v", "t"]])

    check(program, LABELS[labels](LEFT.copy()))


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("key", [*KEYS, ["k", "s"], ["f", "t"]])
def test_sorts(key: Any, labels: str) -> None:
    def program(pd: Any, df: Any) -> Any:
        keys = [key] if isinstance(key, str) else key
        down = df.sort_values(keys, ascending=False, kind="stable")
        chosen = down[down["v"] > 0]
        again = chosen.sort_values("v", kind="stable", na_position="first", ignore_index=True)
        return down, chosen, again, down["v"].cumsum(), chosen.index, again["s"].tail(2), len(down[keys])

    check(program, LABELS[labels](LEFT.copy()))


@pytest.mark.parametrize("sorts", [False, True])
def test_writes_before_and_after(sorts: bool) -> None:
    """A change of the mask or of the frame after the call does not change the result, nor does a change of the result the frame."""

    def program(pd: Any, df: Any) -> Any:
        mask = df["v"] > 0
        some = df.sort_values("v", kind="stable") if sorts else df[mask]
        mask.iloc[:] = False
        df.loc[df.index[0], "v"] = 99.5
        df["k"] = 0
        before = some["v"].sum(), len(some)
        seen = some.copy()
        some.iloc[0, some.columns.get_loc("v")] = -1.0
        return before, seen, some, df, df[mask]

    check(program, LEFT)


def test_blocks_in_column_order_and_views() -> None:
    """Columns of one array that NumPy holds by rows, and arrays that the program still refers to."""
    numbers = np.arange(60.0).reshape(20, 3)

    def program(pd: Any, _: Any) -> Any:
        held = numbers.copy()
        df = pd.DataFrame(held, columns=list("xyz"))
        own = np.arange(20)
        series = pd.Series(own, copy=False)
        some, odd = df[df["x"] > 20], series[series % 2 == 1]
        own[3] = 77
        return some, odd, df.sort_values("y", ascending=False), series[series > 70], some["z"].iloc[-1]

    check(program, LEFT)


def test_long_texts_are_converted_when_they_are_read() -> None:
    """A plan over numbers converts no texts, also of a frame from which several threads compute."""
    rows = 12_000
    data = pandas.DataFrame(
        {
            "k": np.arange(rows) % 7,
            "x": np.where(np.arange(rows) % 5 == 0, np.nan, np.arange(rows) / 8),
            "a": pandas.Series([f"text {i % 90}" for i in range(rows)], dtype="str"),
            "b": pandas.Series([None if i % 11 == 0 else "long " * (i % 4) for i in range(rows)], dtype="str"),
        }
    )
    before = len(array_conversion._from_arrays)
    with craton.option_context(small_rows=1):
        ours = craton.pandas.DataFrame(data)
        same(ours.groupby("k")["x"].sum(), data.groupby("k")["x"].sum())
        same(ours[ours["x"] > 200].reset_index(drop=True), data[data["x"] > 200].reset_index(drop=True))
        assert len(array_conversion._from_arrays) == before
        with ThreadPoolExecutor(4) as pool:
            counted = list(pool.map(lambda name: ours.groupby([name, "k"], dropna=False).size(), ["a", "b", "a", "b"]))
        for name, found in zip(["a", "b", "a", "b"], counted, strict=True):
            same(found, data.groupby([name, "k"], dropna=False).size())
        same(ours.sort_values(["b", "x"], kind="stable"), data.sort_values(["b", "x"], kind="stable"))
        few = data.iloc[::40][["a", "x"]].rename(columns={"x": "y"})
        same(ours.merge(craton.pandas.DataFrame(few), on="a").head(50), data.merge(few, on="a").head(50))


@pytest.mark.parametrize("labels", LABELS)
def test_items_in_loops(labels: str) -> None:
    """Cells, rows and ranges by label and position, and labels and columns that do not exist."""

    def program(pd: Any, df: Any) -> Any:
        first, second = df.index[1], df.index[2]
        cells = [df.iloc[i, 1] for i in range(3)] + [df.loc[df.index[i]] for i in (0, 1)]
        found = [type(cell).__name__ for cell in cells]
        for name in df.columns:
            found += [df.loc[first, name], df[name].loc[second], df[name].iloc[3], type(df[name].iloc[0]).__name__]
        for key in ("nothing", 10**6):
            for read in (
                lambda key=key: df.loc[key, "v"],
                lambda key=key: df["v"][key],
                lambda key=key: df.loc[first, key],
            ):
                try:
                    found.append(read())
                except (KeyError, TypeError, ValueError) as error:
                    found.append(f"{type(error).__name__} {error}")
        return [str(one) for one in found], df.iloc[1:5], df.iloc[::3], df.loc[first:, "v"].sum(), df["s"].name

    check(program, LABELS[labels](LEFT.copy()))
