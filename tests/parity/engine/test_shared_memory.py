"""Plans read pandas' memory without a copy, and must not see later writes to it through other objects that share it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd

KINDS: dict[str, Callable[[], Any]] = {
    "float64": lambda: np.arange(5.0),
    "int64": lambda: np.arange(5),
    "bool": lambda: np.array([False, False, True, True, True]),
    "datetime64[us]": lambda: np.arange(5).astype("M8[us]"),
    "datetime64[us, UTC]": lambda: pd.to_datetime(np.arange(5)).tz_localize("UTC").as_unit("us"),
    "Int64": lambda: pd.array(np.arange(5), dtype="Int64"),
    "category": lambda: pd.Categorical(["a", "b", "a", "b", "b"]),
    "string": lambda: pd.array(["a", "b", "c", "d", "e"], dtype="string"),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    """A function that makes the frame, so that only the test holds a reference to it."""
    with craton.option_context(small_rows=0):
        yield lambda: pd.DataFrame({"a": KINDS[request.param](), "b": np.arange(5)})


def overwrite(held: Any) -> None:
    """Write the value of the column's last row into its first row."""
    held.loc[0, "a"] = held["a"].array[4]
    assert held["a"].array[0] == held["a"].array[4]


def first(column: Any) -> Any:
    return column.array[0]


def test_a_plan_outlives_what_it_scanned(make: Callable[[], Any]) -> None:
    frame = make()
    before = first(frame["a"].copy())
    planned = frame[frame["b"] >= 0]
    other = pandas.DataFrame(frame)
    del frame
    gc.collect()
    overwrite(other)
    assert first(planned["a"]) == before


def test_a_result_is_a_part_of_what_was_scanned(make: Callable[[], Any]) -> None:
    frame = make()
    before = first(frame["a"].copy())
    result = frame[["a"]]
    assert len(result.to_numpy()) == 5
    other = pandas.DataFrame(frame)
    overwrite(frame)
    overwrite(other)
    assert first(result["a"]) == before


def test_a_result_is_remembered(make: Callable[[], Any]) -> None:
    frame = make()

    def planned() -> Any:
        return frame.sort_values("b", ascending=False).sort_values("b")

    before = first(frame["a"].copy())
    result = planned()
    assert first(result["a"]) == before
    other = pandas.DataFrame(result)
    del result
    gc.collect()
    overwrite(other)
    assert first(planned()["a"]) == before


def test_writing_and_planning_in_turns(make: Callable[[], Any]) -> None:
    frame = make()
    shorter = []
    for row in range(4):
        shorter.append(frame[frame["b"] >= row])
        frame.loc[row, "b"] = -1
    assert [len(one) for one in shorter] == [5, 4, 3, 2]
