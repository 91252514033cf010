"""Helpers of the tests in which workers call functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas

from craton.remote import parallel_calls


class Counted:
    """Counts the pieces that workers have run."""

    def __init__(self) -> None:
        self.pieces = 0

    def __enter__(self) -> Counted:
        self._take = parallel_calls._Run.take

        def take(run: Any, *args: Any) -> None:
            self.pieces += 1
            self._take(run, *args)

        parallel_calls._Run.take = take  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        parallel_calls._Run.take = self._take  # type: ignore[method-assign]


N = 60
DATA = pandas.DataFrame(
    {
        "a": range(N),
        "b": np.linspace(-3, 3.7, N),
        "text": ["x", "yy", None] * (N // 3),
        "key": [3, 1, 2, 1] * (N // 4),
        "time": pandas.date_range("2024-01-01", periods=N, freq="h"),
        "kind": pandas.Categorical(["u", "v", "u"] * (N // 3), categories=["w", "v", "u"]),
        "maybe": pandas.array([1, None, 3] * (N // 3), dtype="Int64"),
    },
    index=pandas.Index([f"row {i}" for i in range(N)], name="label"),
)


class Local:
    """A callable object."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, value: Any) -> Any:
        return value * self.by
