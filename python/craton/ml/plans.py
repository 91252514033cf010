"""Lazy frames as inputs of estimators: their plans are computed while their rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from craton.errors import Unsupported
from craton.pandas.io.output_rows import iterate_batches, output_rows

__all__ = ["plan_batches"]


def plan_batches(frame: Any, rows: int) -> Callable[[], Iterator[Any]] | None:
    """A function that computes the columns of a lazy frame in batches of that many rows; None if the frame has to be computed at once."""
    try:
        found = output_rows(frame, index=False)
    except Unsupported:
        return None
    return lambda: iterate_batches(found, rows)
