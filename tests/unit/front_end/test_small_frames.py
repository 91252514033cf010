"""Calls on small frames in memory: what they do beyond pandas is counted, and a column of one is pandas' column."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import craton.pandas as pd
from bench.small import OPERATIONS


def operands(module: Any) -> tuple[Any, Any, Any]:
    frame = module.DataFrame(
        {
            "a": list(range(10)),
            "b": [0.5 * row if row % 4 else None for row in range(10)],
            "c": ["xyz"[row % 3] for row in range(10)],
            "d": module.date_range("2024-01-31", periods=10, freq="D"),
        }
    )
    return module, frame, module.DataFrame({"c": ["x", "y", "w"], "f": [10, 20, 30]})


def calls_of(operation: Callable[..., Any], module: Any) -> int:
    """The number of calls of functions, of Python's and of C's, in an operation that has run before."""
    given = operands(module)
    for _ in range(3):
        operation(*given)
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        operation(*given)
    finally:
        sys.setprofile(None)
    return count


def test_operations_on_ten_rows_call_few_functions_more_than_pandas() -> None:
    # Calls are counted because times depend on the machine; each costs about as much as any other.
    ours = {name: calls_of(operation, pd) for name, operation in OPERATIONS.items()}
    theirs = {name: calls_of(operation, pandas) for name, operation in OPERATIONS.items()}
    assert sum(ours.values()) <= 1.05 * sum(theirs.values()), {name: (ours[name], theirs[name]) for name in ours}


LABELS: dict[str, Any] = {
    "texts": ["a", "b", "c"],
    "duplicates": ["a", "b", "a"],
    "objects": pandas.Index(["a", 1, None], dtype=object),
    "subclasses of str": pandas.Index([np.str_("a"), "b", "c"], dtype=object),
    "categories": pandas.CategoricalIndex(["a", "b", "c"]),
    "Arrow": pandas.Index(["a", "b", None], dtype="string[pyarrow]"),
    "missing texts": pandas.Index(["a", None, "c"], dtype="str"),
    "levels": pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]),
    "numbers": [1, 2, 3],
    "named": pandas.Index(["a", "b", "c"], name="n"),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("change", ["none", "attrs", "flags", "subclass", "rows labelled"])
def test_a_column_of_a_small_frame_is_the_column_of_pandas(kind: str, change: str) -> None:
    def column(module: Any) -> Any:
        cls: Any = type("Special", (module.DataFrame,), {}) if change == "subclass" else module.DataFrame
        frame = cls([[1, 2.5, 4], [3, None, 5]])
        frame.columns = LABELS[kind]
        if change == "attrs":
            frame.attrs["source"] = ["here"]
        if change == "flags" and kind != "duplicates":
            frame = frame.set_flags(allows_duplicate_labels=False)
        if change == "rows labelled":
            frame.index = pandas.Index(["r", "s"], name="rows")
        try:
            found = frame["a"]
        except KeyError as error:
            return repr(error)
        shown = repr(found), type(getattr(found, "name", None)), found.attrs, found.flags.allows_duplicate_labels
        changed = frame["a"]
        changed.iloc[0] = 7
        changed.index.name = "renamed"
        return *shown, repr(changed), repr(frame), frame["a"].index is frame.index

    assert column(pd) == column(pandas)
