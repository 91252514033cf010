"""Programs of many steps are planned in linear time: twice the steps take about twice as many function calls, not four times."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas

ROWS = 5000
#: Function calls of a program of 2n steps, at most this many times those of n steps.
LINEAR = 2.6

Program = Callable[[Any, Any, int], Any]


def filters(pd: Any, frame: Any, steps: int) -> Any:
    for step in range(steps):
        frame = frame[frame["v"] > -9 - step]
    return frame["x"].sum()


def assigned(pd: Any, frame: Any, steps: int) -> Any:
    for step in range(steps):
        frame = frame.assign(**{f"a{step}": frame["v"] * step + frame["x"]})
    return frame[f"a{steps - 1}"].sum()


def columns_set(pd: Any, frame: Any, steps: int) -> Any:
    frame = frame.copy()
    for step in range(steps):
        frame[f"a{step}"] = frame["v"] + step
    return frame["a7"].sum()


def columns_replaced(pd: Any, frame: Any, steps: int) -> Any:
    frame = frame.copy()
    for step in range(steps):
        frame["v"] = frame["v"].clip(-step - 1, 3)
    return frame["v"].sum()


def sums(pd: Any, frame: Any, steps: int) -> Any:
    total = frame["v"]
    for step in range(steps):
        total = total + frame["x"] * step
    return total.sum()


def arithmetic(pd: Any, frame: Any, steps: int) -> Any:
    frame = frame[["v", "x"]]
    for step in range(steps):
        frame = frame * 1.01 + step
    return frame["x"].mean()


def concatenated(pd: Any, frame: Any, steps: int) -> Any:
    return pd.concat([frame[frame["k"] == step % 50].head(20) for step in range(steps)])["v"].sum()


def merged(pd: Any, frame: Any, steps: int) -> Any:
    keys = frame[["k"]].drop_duplicates()
    for step in range(steps // 4):
        frame = frame.merge(keys.assign(**{f"m{step}": step}), on="k", how="left")
    return frame["m3"].sum()


def sorted_and_shifted(pd: Any, frame: Any, steps: int) -> Any:
    for _ in range(steps // 8):
        frame = frame.sort_values(["k", "v"])
        frame["v"] = frame["v"].shift(1, fill_value=0.0)
    return frame["v"].sum()


PROGRAMS: list[Program] = [
    filters,
    assigned,
    columns_set,
    columns_replaced,
    sums,
    arithmetic,
    concatenated,
    merged,
    sorted_and_shifted,
]


@pytest.mark.filterwarnings("ignore::pandas.errors.PerformanceWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_of_many_steps(program: Program) -> None:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(
        {"k": rng.integers(0, 50, ROWS), "v": rng.normal(size=ROWS), "x": rng.integers(0, 9, ROWS).astype(float)}
    )
    calls = []
    with craton.option_context(small_rows=0):
        program(craton.pandas, craton.pandas.DataFrame(frame), 40)  # fills the caches of stand-ins
        for steps in (80, 160):
            profile = cProfile.Profile()
            found = profile.runcall(program, craton.pandas, craton.pandas.DataFrame(frame), steps)
            calls.append(pstats.Stats(profile).total_calls)
            assert found == pytest.approx(program(pandas, frame, steps), rel=1e-12), steps
    assert calls[1] < LINEAR * calls[0], calls
