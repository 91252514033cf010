"""Windows of groups that move values or number rows: shifts, differences, fills and row numbers, by one sort of the rows.

The kernel evaluates such a window group by group. With a million rows in 710,000 groups that takes 0.8 s. Here
the rows are sorted by the group keys once, by the radix sort of :mod:`craton.lower.ordering`, and each window is a gather by row
numbers, which takes 0.2 s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import polars as pl

from craton.lower.expressions import lower_expr
from craton.lower.ordering import NO_ROW, Rows, can_sort, gathered, rows_in_order
from craton.plan.expr import Column, Expr, WindowCall, dtype_of, roots
from craton.plan.names import hidden_name

__all__ = ["GroupedWindows", "lower_grouped_windows"]

_MOVING = frozenset(["shift", "diff", "forward_fill", "backward_fill"])


def _is_by_row_numbers(call: WindowCall) -> bool:
    """Whether a window is computed here."""
    if not call.partition or not all(can_sort(dtype_of(key)) for key in call.partition):
        return False
    if call.function == "row_number":
        return True
    if call.function not in _MOVING or len(call.args) != 1 or call.option("limit") is not None:
        return False
    return call.function != "diff" or call.dtype == _dtype_of_difference(dtype_of(call.args[0]))


def _dtype_of_difference(dtype: pl.DataType) -> pl.DataType | None:
    """The dtype of one value less another; None if the kernel's ``diff`` of the dtype is more than that."""
    if isinstance(dtype, (pl.Datetime, pl.Duration)):
        return pl.Duration(dtype.time_unit)
    return dtype if dtype.is_signed_integer() or dtype.is_float() else None


def lower_grouped_windows(
    frame: pl.LazyFrame, calls: Sequence[tuple[str, WindowCall]], kept: Sequence[str]
) -> tuple[pl.LazyFrame, list[tuple[str, WindowCall]]]:
    """Add the windows that are computed here to a frame whose rows are in order.

    Parameters
    ----------
    frame
        The rows.
    calls
        The windows, with the names of their columns.
    kept
        The other columns that are needed above.

    Returns
    -------
    tuple of (frame, list)
        The frame, and the windows that are left to the kernel. The frame has their columns, too.
    """
    mine: dict[tuple[Expr, ...], list[tuple[str, WindowCall]]] = defaultdict(list)
    for name, call in calls:
        if _is_by_row_numbers(call):
            mine[call.partition].append((name, call))
    if not mine:
        return frame, list(calls)
    columns = dict.fromkeys(kept)
    for _, call in calls:
        columns |= dict.fromkeys(name for expr in (*call.args, *call.partition) for name in roots(expr))
    frame = frame.select(*columns)
    asked = [expr for windows in mine.values() for _, call in windows for expr in (*call.args, *call.partition)]
    computed = {expr: Column(hidden_name("window"), dtype_of(expr)) for expr in asked if not isinstance(expr, Column)}
    frame = frame.with_columns(lower_expr(expr).alias(column.name) for expr, column in computed.items())

    def of_columns(call: WindowCall) -> WindowCall:
        args, partition = ([computed.get(expr, expr) for expr in exprs] for exprs in (call.args, call.partition))
        return replace(call, args=tuple(args), partition=tuple(partition))

    for windows in mine.values():
        steps = tuple((name, of_columns(call)) for name, call in windows)
        frame = grouped_windows(steps).lowered(frame)
    return frame, [(name, call) for name, call in calls if not _is_by_row_numbers(call)]


@dataclass(frozen=True)
class GroupedWindows:
    """Windows over the groups of the same keys.

    Use :func:`grouped_windows`: it returns one object for equal windows, which the kernel recognises and runs once.

    Parameters
    ----------
    steps
        The windows, with the names of their columns. Their arguments and keys are columns.
    """

    steps: tuple[tuple[str, WindowCall], ...]

    def lowered(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The frame with the windows' columns."""
        added = {name: call.dtype for name, call in self.steps}
        return frame.map_batches(self, schema={**frame.collect_schema(), **added})

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the windows to a frame that has all rows."""
        if frame.height >= NO_ROW:
            return frame.with_columns(lower_expr(call).alias(name) for name, call in self.steps)
        frame = frame.rechunk()
        groups = _Groups(frame, tuple(key.name for key in self.steps[0][1].partition if isinstance(key, Column)))
        columns = {column.name: column for column in frame.iter_columns()}
        for name, call in self.steps:
            columns[name] = groups.column(frame, call).alias(name)
        return pl.DataFrame(columns)


grouped_windows = lru_cache(maxsize=256)(GroupedWindows)


class _Groups:
    """The rows of a frame, sorted by group.

    Parameters
    ----------
    frame
        The rows.
    keys
        The columns by which they are grouped.
    """

    def __init__(self, frame: pl.DataFrame, keys: tuple[str, ...]) -> None:
        self.size = frame.height
        #: The row numbers, those of a group together and in order; and for each place the first and the last place of its group.
        self.rows, begins = rows_in_order(frame, keys)
        starts = np.flatnonzero(begins).astype(np.uint32)
        lengths = np.diff(starts, append=np.uint32(self.size))
        self.first: Rows = np.repeat(starts, lengths)
        self.last: Rows = np.repeat(starts + lengths - np.uint32(1), lengths)

    def column(self, frame: pl.DataFrame, call: WindowCall) -> pl.Series:
        """The column of a window."""
        if not call.args:
            numbers = np.empty(self.size, np.int64)
            numbers[self.rows] = np.arange(self.size, dtype=np.uint32) - self.first
            return pl.Series(numbers).cast(call.dtype)
        (arg,) = call.args
        assert isinstance(arg, Column)
        value = frame.get_column(arg.name)
        if call.function in ("shift", "diff"):
            moved = gathered(value, self._moved(call.option("periods", 1)))
            return value - moved if call.function == "diff" else moved
        if not value.null_count():
            return value
        return gathered(value, self._filled(value, forward=call.function == "forward_fill"))

    def _moved(self, periods: int) -> Rows:
        """For each row, the row of its group that is a number of rows before it."""
        sources = np.full(self.size, NO_ROW, np.uint32)
        far = abs(periods)
        if far < self.size:
            earlier, later = self.rows[: self.size - far], self.rows[far:]
            together = self.first[: self.size - far] == self.first[far:]
            earlier, later = earlier[together], later[together]
            if periods >= 0:
                sources[later] = earlier
            else:
                sources[earlier] = later
        return sources

    def _filled(self, value: pl.Series, *, forward: bool) -> Rows:
        """For each row, the row of its group with the last value until it, or with the next value from it on."""
        present = value.is_not_null().to_numpy()[self.rows]
        places = np.arange(self.size, dtype=np.uint32)
        sources = np.full(self.size, NO_ROW, np.uint32)
        if forward:
            found = np.maximum.accumulate(np.where(present, places + np.uint32(1), np.uint32(0)))
            known = found > self.first
            sources[self.rows[known]] = self.rows[found[known] - 1]
        else:
            nearest = np.where(present, places, np.uint32(NO_ROW))[::-1]
            found = np.minimum.accumulate(nearest)[::-1]
            known = found <= self.last
            sources[self.rows[known]] = self.rows[found[known]]
        return sources
