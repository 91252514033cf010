"""Sorts by one key in which NumPy decides the order of rows with equal keys, as in pandas' ``sort_values`` with its default algorithm.

NumPy's ``quicksort`` is not stable, and its result depends on the number of rows, the dtype and the processor's vector instructions,
so these sorts call it as pandas does: with the values that are not missing, reversed for a descending sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from craton.lower.ordering import gather_rows, ordered_rows
from craton.plan.operators import NumpySort

Rows = np.ndarray[Any, np.dtype[Any]]
Values = np.ndarray[Any, np.dtype[Any]]

#: The first rows are selected without sorting all rows if there are at least this many times as many.
_MANY = 8


@dataclass(frozen=True)
class TiedSort:
    """A sort by one key. Use :func:`tied_sort`: it returns one object for equal sorts, which the kernel recognises and runs once.

    Parameters
    ----------
    key, descending, nulls_last
        The column to sort by.
    ties
        NumPy's sort.
    order
        The columns that restore the order of the rows before the sort, each with its direction and whether nulls come last.
    kept
        The columns of the result.
    numbered
        The name of a column to add: the rows' numbers before the sort.
    first
        The number of rows that are needed; None for all.
    """

    key: str
    descending: bool
    nulls_last: bool
    ties: NumpySort
    order: tuple[tuple[str, bool, bool], ...]
    kept: tuple[str, ...]
    numbered: str | None = None
    first: int | None = None

    def lowered(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The sort of a LazyFrame."""
        schema = frame.collect_schema()
        return frame.map_batches(self, schema={name: schema.get(name, pl.UInt32()) for name in self.kept})

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sort a frame."""
        frame = frame.rechunk()
        before = ordered_rows(frame, self.order) if self.order else None
        key = frame.get_column(self.key)
        rows = self._sorted(key if before is None else key.gather(pl.Series(before)))
        if before is not None:
            rows = before[rows]
        rows = (rows if self.first is None else rows[: self.first]).astype(np.uint32, copy=False)
        made = {} if self.numbered is None else {self.numbered: pl.Series(self.numbered, rows)}
        gathered = gather_rows(frame, tuple(name for name in self.kept if name not in made), rows)
        return pl.DataFrame({name: made[name] if name in made else gathered.get_column(name) for name in self.kept})

    def _sorted(self, key: pl.Series) -> Rows:
        """The numbers of the rows in order; with ``first``, only the first ones may be right."""
        values, missing = _values(key, self.ties)
        if self.ties.checked and missing is None and _in_order(values, self.descending):
            return np.arange(len(values))
        present = None if missing is None else np.flatnonzero(~missing)
        if present is not None:
            values = values[present]
        found = self._first_of(values) if missing is None or self.nulls_last else None
        if found is None:
            found = _argsort(values, self.descending, self.ties.algorithm)
        if present is None or missing is None:
            return found
        found, absent = present[found], np.flatnonzero(missing)
        return np.concatenate([found, absent] if self.nulls_last else [absent, found])

    def _first_of(self, values: Values) -> Rows | None:
        """The first rows, if they are few and their keys differ, so that every algorithm finds them in the same order; else None."""
        count = self.first
        if count is None or not 0 < count * _MANY < len(values) or values.dtype.kind in "bO":
            return None
        numbers = values.view(np.int64) if values.dtype.kind in "mM" else values
        place = len(values) - 1 - count if self.descending else count
        last = np.partition(numbers, place)[place]  # the first key that is not needed
        chosen = np.flatnonzero(numbers >= last if self.descending else numbers <= last)
        if len(chosen) != count + 1:
            return None
        order = np.argsort(numbers[chosen], kind="stable")
        keys = numbers[chosen][order]
        if not (keys[1:] > keys[:-1]).all():
            return None
        return chosen[order[::-1] if self.descending else order][:count]


tied_sort = lru_cache(maxsize=256)(TiedSort)


def _values(key: pl.Series, ties: NumpySort) -> tuple[Values, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """The values as pandas has them, with any value where they are missing; and where that is, None if nowhere."""
    missing = key.is_null().to_numpy() if key.null_count() else None
    if ties.dtype == "object":
        return key.to_numpy(), missing
    physical = key.cast(pl.Float64) if key.dtype == pl.Null else key.to_physical()
    if missing is not None:
        physical = physical.fill_null(False if physical.dtype == pl.Boolean else 0)
    dtype = np.dtype(ties.dtype)
    if ties.plain and missing is not None and dtype.kind in "biu":  # what pandas makes of numbers, or booleans, and NaN
        dtype = np.dtype(object if dtype.kind == "b" else np.float64)
    values = physical.to_numpy()
    values = values.view(dtype) if dtype.kind in "mM" else values.astype(dtype, copy=False)
    if ties.plain and dtype.kind == "f":
        nan = np.isnan(values)
        if nan.any():
            missing = nan if missing is None else nan | missing
    return values, missing


def _in_order(values: Values, descending: bool) -> bool:
    return bool((values[1:] <= values[:-1] if descending else values[1:] >= values[:-1]).all())


def _argsort(values: Values, descending: bool, algorithm: Any) -> Rows:
    if not descending:
        return np.argsort(values, kind=algorithm)
    return (len(values) - 1 - np.argsort(values[::-1], kind=algorithm))[::-1]
