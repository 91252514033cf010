"""The number of files that a call passes through, from the user's line to the kernel.

A reader who follows a method through the code follows two call chains. Both are measured on the stack of a running program:

*building*: from the user's call to the creation of the expression that represents the call in the plan;
*evaluating*: from the first read of the result to the kernel's ``collect``.

A file counts each time that the chain enters it, so a file that the chain leaves and enters again counts twice. Functions that
have returned before the end of the chain (rewrite rules, the lowering, stand-ins) do not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import craton
import craton.pandas as pd
from craton import fallbacks
from craton.plan.expr import WindowCall

PACKAGE = Path(craton.__file__).parent
MOST = 8


def files_of(frame: FrameType | None) -> list[str]:
    """The files of the package on the stack, outermost first; consecutive frames of one file count once."""
    passed: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            if not passed or passed[-1] != name:
                passed.append(name)
        frame = frame.f_back
    return passed[::-1]


def longest(call: Callable[[], Any], arrives: Callable[[FrameType, str, Any], bool]) -> tuple[Any, list[str]]:
    """The result of a call, and the longest chain of files at the moments when `arrives` is true."""
    ways: list[list[str]] = []

    def look(frame: FrameType, event: str, arg: Any) -> None:
        if arrives(frame, event, arg):
            ways.append(files_of(frame))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        result = call()
    finally:
        sys.setprofile(before)
    assert ways, "it never arrives"
    return result, max(ways, key=len)


def makes_the_expression(frame: FrameType, event: str, _: Any) -> bool:
    return (
        event == "call" and frame.f_code.co_name == "__post_init__" and isinstance(frame.f_locals["self"], WindowCall)
    )


def collects(frame: FrameType, event: str, _: Any) -> bool:
    if event != "call" or frame.f_code.co_name not in ("collect", "collect_all"):
        return False
    return frame.f_globals.get("__name__", "").startswith("polars.")


def walk(call: Callable[[Any], Any]) -> list[str]:
    """The chain of files from a call to the kernel."""
    with craton.option_context(small_rows=0, fallback="error"):
        frame = pd.DataFrame({"a": [3, 1, 2], "b": [1.0, None, 2.0]})
        fallbacks.reset()
        result, building = longest(lambda: call(frame), makes_the_expression)
        _, evaluating = longest(lambda: result._mgr, collects)
    return building + evaluating


CALLS: dict[str, Callable[[Any], Any]] = {
    "shift": lambda df: df.shift(1),
    "shift with a value": lambda df: df.shift(2, fill_value=0),
    "diff": lambda df: df.diff(),
    "cumsum": lambda df: df.cumsum(),
    "cummax": lambda df: df.cummax(),
    "rank": lambda df: df.rank(),
    "ffill": lambda df: df.ffill(),
    "shift of a column": lambda df: df["a"].shift(1),
}


@pytest.mark.parametrize("name", CALLS)
def test_from_the_call_to_the_kernel(name: str) -> None:
    passed = walk(CALLS[name])
    assert len(passed) <= MOST, passed
    assert len(set(passed)) == len(passed), f"comes back to a file that it left: {passed}"


def test_the_walk_of_shift() -> None:
    """The chain begins in the module that dispatches all native calls, and ends in the kernel."""
    passed = walk(CALLS["shift"])
    assert passed[:2] == ["pandas/core/native.py", "pandas/window/windows.py"]
    assert passed[-1] == "kernel/run.py"


def test_ways_are_told_apart() -> None:
    """Files outside the package do not count; the module that dispatches native calls does."""

    def outer() -> list[str]:
        return files_of(sys._getframe())

    assert outer() == []
    _, way = longest(lambda: pd.DataFrame({"a": [1]}).sum(), lambda frame, event, _: event == "call")
    assert "pandas/core/native.py" in way
