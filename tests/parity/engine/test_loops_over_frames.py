"""Loops whose steps use the previous frame twice: as a tree without sharing, the plan would double with each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas
import pytest
from support import same

import craton
import craton.pandas
from tests.fuzz.modes import MODES

if TYPE_CHECKING:
    from collections.abc import Callable


def _features(pd: Any, frame: Any, i: int) -> Any:
    return frame.join(frame.groupby("a")["b"].sum().rename(f"s{i}"), on="a")


def _transformed(pd: Any, frame: Any, i: int) -> Any:
    frame[f"m{i}"] = frame.groupby("a")["b"].transform("mean")
    frame["b"] = frame["b"] * 2 - frame[f"m{i}"]
    return frame


STEPS: dict[str, Callable[[Any, Any, int], Any]] = {
    "rows appended": lambda pd, frame, i: pd.concat([frame, frame.head(1)]),
    "membership": lambda pd, frame, i: frame[frame["a"].isin(frame[frame["b"] > 0]["a"])],
    "features": _features,
    "transformed": _transformed,
    "merged": lambda pd, frame, i: frame.merge(frame[["a"]].drop_duplicates(), on="a"),
    "filtered by a maximum": lambda pd, frame, i: (
        frame[frame["b"] <= frame["b"].max()].sort_values("b", kind="stable").head(39 - i)
    ),
    "shifted": lambda pd, frame, i: frame.assign(b=frame["b"] + frame["b"].shift().fillna(0)),
}


@pytest.mark.parametrize("mode", ["single-node", "tiles3", "no-memory"])
@pytest.mark.parametrize("step", STEPS)
def test_steps_that_use_a_frame_twice(step: str, mode: str) -> None:
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 2, 1, 3] * 10, "b": [1.5, 2, 3, 4] * 10})
        for i in range(18):
            frame = STEPS[step](pd, frame, i)
        return frame, len(frame), frame["b"].sum()

    expected = program(pandas)
    with MODES[mode]():
        got = program(craton.pandas)
        same(got, expected)


@pytest.mark.parametrize("mode", ["single-node", "tiles3"])
@pytest.mark.parametrize("first", ["rows", "the number of rows"])
def test_many_filters_by_membership(first: str, mode: str) -> None:
    # Each step doubles the plan's tree; whichever rule visits a plan inside of another each time would not end.
    def program(pd: Any) -> Any:
        frame = pd.DataFrame({"a": [1, 2, 1, 3] * 10, "b": [1.5, 2, 3, -4] * 10})
        for i in range(30):
            frame = frame[frame["a"].isin(frame[frame["b"] > -i]["a"]) & (~frame["a"].isin(frame[frame["b"] > 3]["a"]))]
        found = [len(frame)] if first == "the number of rows" else []
        return *found, frame, len(frame), frame["b"].sum()

    expected = program(pandas)
    with MODES[mode]():
        same(program(craton.pandas), expected)


@pytest.mark.parametrize("steps", [40, 300])
def test_frames_appended_in_a_loop(steps: int) -> None:
    def program(pd: Any) -> Any:
        frame = part = pd.DataFrame({"a": [1, 2, 1, 3]})
        for _ in range(steps):
            frame = pd.concat([frame, part])
        return frame.tail(3), len(frame), frame["a"].sum()

    with craton.option_context(small_rows=0):
        same(program(craton.pandas), program(pandas))
