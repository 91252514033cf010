"""Calls with too few, too many or unknown arguments raise pandas' errors, with the same text."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas

CALLS: dict[str, Callable[[Any], Any]] = {
    "DataFrame.apply": lambda df: df.apply(),
    "DataFrame.map": lambda df: df.map(),
    "DataFrame.where": lambda df: df.where(),
    "DataFrame.mask": lambda df: df.mask(),
    "DataFrame.copy": lambda df: df.copy(1, 2, 3),
    "DataFrame.keys": lambda df: df.keys(1),
    "DataFrame.items": lambda df: df.items(1),
    "DataFrame.shift": lambda df: df.shift(1, 2, 3, 4, 5, 6, 7),
    "DataFrame.merge": lambda df: df.merge(),
    "DataFrame.sort_values": lambda df: df.sort_values(),
    "DataFrame.rank": lambda df: df.rank(unknown=1),
    "DataFrame.fillna": lambda df: df.fillna(1, 2, 3),
    "DataFrame.astype": lambda df: df.astype(),
    "DataFrame.isin": lambda df: df.isin(),
    "DataFrame.drop": lambda df: df.drop(1, 2, 3),
    "DataFrame.set_axis": lambda df: df.set_axis(unknown=1),
    "Series.set_axis": lambda df: df["a"].set_axis(unknown=1),
    "DataFrame.describe": lambda df: df.describe("x", "x"),
    "DataFrame.insert": lambda df: df.insert(unknown=1),
    "DataFrame.query": lambda df: df.query("a > 1", 2),
    "DataFrame.eval": lambda df: df.eval("a + 1", 2),
    "DataFrame.compare": lambda df: df.compare(),
    "Series.compare": lambda df: df["a"].compare(axis=7),
    "DataFrame.nlargest": lambda df: df.nlargest(),
    "Series.apply": lambda df: df["a"].apply(),
    "Series.copy": lambda df: df["a"].copy(1, 2, 3),
    "Series.items": lambda df: df["a"].items(1),
    "groupby": lambda df: df.groupby(1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    "groupby.ffill": lambda df: df.groupby("s").ffill(1, 2, 3),
    "groupby.bfill": lambda df: df.groupby("s").bfill(1, 2, 3),
    "groupby.head": lambda df: df.groupby("s").head(1, 2),
    "groupby.tail": lambda df: df.groupby("s").tail(1, 2),
    "groupby.nth": lambda df: df.groupby("s").nth(),
    "groupby.get_group": lambda df: df.groupby("s").get_group(),
    "groupby.value_counts": lambda df: df.groupby("s").value_counts(1, 2, 3, 4, 5, 6, 7),
    "groupby of a column.apply": lambda df: df.groupby("s")["a"].apply(),
    "groupby.apply": lambda df: df.groupby("s").apply(),
    "groupby.shift": lambda df: df.groupby("s").shift(1, 2, 3, 4, 5, 6, 7, 8),
    "str.cat": lambda df: df["s"].str.cat(1, 2, 3, 4, 5),
    "str.contains": lambda df: df["s"].str.contains(),
    "str.extract": lambda df: df["s"].str.extract(),
    "str.split": lambda df: df["s"].str.split(1, 2, 3),
    "str.partition": lambda df: df["s"].str.partition(1, 2, 3, 4),
    "dt.isocalendar": lambda df: df["t"].dt.isocalendar(1),
}


def error_of(pd: Any, call: Callable[[Any], Any]) -> str:
    times = np.array(["2020-01-01"] * 3, dtype="M8[ns]")
    frame = pd.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"], "t": times})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that arguments will be keyword-only
        with pytest.raises(TypeError) as raised:
            call(frame)
    return str(raised.value)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("small_rows", [0, 4096])
def test_arguments_that_do_not_fit(call: Callable[[Any], Any], small_rows: int) -> None:
    with craton.option_context(small_rows=small_rows):
        found = error_of(craton.pandas, call)
    assert found == error_of(pandas, call)


@pytest.mark.parametrize("cls", ["DataFrame", "Series"])
def test_unknown_keywords_are_named_before_missing_arguments(cls: str) -> None:
    """Python names an unknown keyword first, unless a function takes any keywords."""
    theirs, ours = getattr(pandas, cls), getattr(craton.pandas, cls)
    found = []
    for name in dir(ours):
        entry = getattr(inspect.getattr_static(ours, name), "__craton_native__", None)
        if entry is None or entry.function is None or not hasattr(theirs, name):
            continue
        _, *parameters = inspect.signature(entry.function).parameters.values()
        any_keywords, required = (
            any(one.kind is one.VAR_KEYWORD for one in parameters),
            any(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters),
        )
        expected = inspect.signature(getattr(theirs, name)).parameters.values()
        if any_keywords and required and all(one.kind is not one.VAR_KEYWORD for one in expected):
            found.append(name)
    assert found == []


@pytest.mark.parametrize("method", ["idxmin", "idxmax", "argmin", "argmax"])
@pytest.mark.parametrize("axis", [0, None, "index", 1])
def test_the_axis_of_extremes(method: str, axis: Any) -> None:
    def outcome(pd: Any) -> Any:
        try:
            return getattr(pd.Series([2, 3, 1]), method)(axis=axis)
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    with craton.option_context(small_rows=0):
        assert outcome(craton.pandas) == outcome(pandas)
