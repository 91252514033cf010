"""The tracebacks of errors: pandas' error, the user's lines, and at most three frames of Craton's own code."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas

OWN = str(Path(craton.__file__).parent)
ROWS = 5000


def inverse(value: float) -> float:
    return 1 / (value - 3)


def failing_group(_: Any) -> float:
    return inverse(3)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "a missing column": lambda pd, df: df["z"],
    "a missing column of a later frame": lambda pd, df: df.groupby("s")["v"].sum().reset_index()["z"],
    "a missing label": lambda pd, df: df.loc[99999],
    "a missing position": lambda pd, df: df.iloc[99999],
    "a missing group key": lambda pd, df: df.groupby("z").sum(),
    "a missing join key": lambda pd, df: df.merge(df, on="z"),
    "a missing sort key": lambda pd, df: df.sort_values("z"),
    "a missing column to drop": lambda pd, df: df.drop(columns=["z"]),
    "a missing name in a query": lambda pd, df: df.query("z > 3"),
    "a missing file": lambda pd, df: pd.read_csv("/there-is-no-such-file.csv"),
    "numbers of text": lambda pd, df: df["s"].astype(int),
    "dates of text": lambda pd, df: pd.to_datetime(df["s"], format="%Y"),
    "text and numbers": lambda pd, df: df["s"] + 1,
    "the mean of text": lambda pd, df: df.mean(),
    "text methods of numbers": lambda pd, df: df["a"].str.upper(),
    "an array of another length": lambda pd, df: df.__setitem__("w", [1, 2]),
    "duplicated cells": lambda pd, df: df.pivot(index="s", columns="s", values="a"),
    "a function of values": lambda pd, df: df["a"].map(inverse).sum(),
    "a function of rows": lambda pd, df: df.apply(lambda row: inverse(row["a"]), axis=1).sum(),
    "a function of groups": lambda pd, df: df.groupby("s").apply(failing_group),
    "a function of a column": lambda pd, df: df.groupby("s")["a"].agg(failing_group),
}


def raised(program: Callable[[Any, Any], Any], pd: Any) -> Exception:
    df = pd.DataFrame({"a": np.arange(ROWS), "s": ["x", "y"] * (ROWS // 2), "v": np.arange(ROWS) / 2})
    with pytest.raises(Exception) as info:
        program(pd, df)
    return info.value


def own_frames(error: BaseException) -> list[str]:
    frames: list[FrameType] = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [frame.f_code.co_qualname for frame in frames if frame.f_code.co_filename.startswith(OWN)]


@pytest.mark.parametrize("small_rows", [0, 100_000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_tracebacks_are_short(name: str, small_rows: int) -> None:
    program = PROGRAMS[name]
    expected = raised(program, pandas)
    with craton.option_context(small_rows=small_rows):
        error = raised(program, craton.pandas)
    assert (type(error), str(error)) == (type(expected), str(expected))
    assert len(own_frames(error)) <= 3
    for function in (inverse, failing_group):  # the user's own functions are shown
        names = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
        wanted = [frame.f_code for frame, _ in traceback.walk_tb(expected.__traceback__)]
        assert (function.__code__ in names) == (function.__code__ in wanted)


def test_full_tracebacks() -> None:
    with craton.option_context(small_rows=0, tracebacks="full"):
        assert len(own_frames(raised(PROGRAMS["a missing column"], craton.pandas))) > 3
