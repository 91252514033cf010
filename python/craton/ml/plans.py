"""Lazy frames and durable sets as inputs of estimators: their plans are computed while their rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from craton.errors import Unsupported
from craton.pandas.io.output_rows import iterate_batches, output_rows
from craton.pandas.io.sets.tables import read_set

__all__ = ["plan_batches", "set_frame"]


def plan_batches(frame: Any, rows: int) -> Callable[[], Iterator[Any]] | None:
    """A function that computes the columns of a lazy frame in batches of that many rows; None if the frame has to be computed at once."""
    try:
        found = output_rows(frame, index=False)
    except Unsupported:
        return None
    return lambda: iterate_batches(found, rows)


def set_frame(name: str) -> Any:
    """The newest version of a durable set, as a lazy frame."""
    return read_set(name)
