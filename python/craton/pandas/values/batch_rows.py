"""The rows of a batch that pandas' function is called with: all alike in length, and those that it takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from craton.pandas.core.dtypes import DtypeObj


def of_one_length(columns: list[pl.Series]) -> list[pl.Series]:
    """The columns of one batch, with constants, which the engine hands over as one row, as long as the others."""
    lengths = {len(column) for column in columns}
    if len(lengths) < 2:
        return columns
    (rows,) = lengths - {1}
    return [column if len(column) == rows else column.new_from_index(0, rows) for column in columns]


def without_impossible_nulls(columns: list[pl.Series], dtypes: tuple[DtypeObj, ...]) -> pl.Series | None:
    """Which rows are not null in any column of integers or booleans, which have no missing values; None if all are not."""
    found: pl.Series | None = None
    for column, dtype in zip(columns, dtypes, strict=True):
        if isinstance(dtype, np.dtype) and dtype.kind in "iub" and column.null_count():
            found = column.is_not_null() if found is None else found & column.is_not_null()
    return found


def scattered(results: pl.Series, kept: pl.Series) -> pl.Series:
    """Results at the places of the rows that were kept, null at the others."""
    places = kept.cast(pl.UInt32).cum_sum() - 1
    return results.gather(pl.select(pl.when(kept).then(places)).to_series())


def where_possible(
    columns: list[pl.Series],
    compute: Callable[[list[pl.Series]], pl.Series],
    likely: Callable[[list[pl.Series]], pl.Series | None],
    dtype: pl.DataType,
) -> pl.Series:
    """The results of the rows for which a function does not raise; null for the others.

    Parameters
    ----------
    columns
        What the function is called with.
    compute
        The function; a row's result depends on that row alone.
    likely
        Tells which rows the function takes, or None; it may be too hopeful.
    dtype
        The dtype of the results.
    """
    rows = pl.DataFrame([column.alias(str(i)) for i, column in enumerate(columns)])
    try:
        chosen = likely(columns)
    except Exception:
        chosen = None
    if chosen is not None and not chosen.all():
        if not chosen.any():
            return _nulls(dtype, len(chosen))
        taken = [column.filter(chosen) for column in columns]
        return scattered(where_possible(taken, compute, lambda _: None, dtype), chosen)
    parts: list[pl.Series] = []
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        try:
            parts.append(compute(part.get_columns()))
        except Exception:
            if part.height == 1:
                parts.append(_nulls(dtype, 1))
            else:
                half = part.height // 2
                waiting += [part[half:], part[:half]]
    return pl.concat(parts)


def _nulls(dtype: pl.DataType, rows: int) -> pl.Series:
    return pl.Series([None], dtype=dtype).new_from_index(0, rows)
