"""Preparation of a batch for a pandas function: columns of one length, without the rows that the function cannot compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from craton.pandas.core.dtypes import DtypeObj


def broadcast_constants(columns: list[pl.Series]) -> list[pl.Series]:
    """The columns of one batch, all of the same length: a constant arrives from the kernel as one row and is repeated."""
    lengths = {len(column) for column in columns}
    if len(lengths) < 2:
        return columns
    (rows,) = lengths - {1}
    return [column if len(column) == rows else column.new_from_index(0, rows) for column in columns]


def rows_without_nulls(columns: list[pl.Series], dtypes: tuple[DtypeObj, ...]) -> pl.Series | None:
    """A mask of the rows without nulls in NumPy integer and boolean columns, whose dtypes have no missing values.

    ``None`` if there are no such nulls.
    """
    found: pl.Series | None = None
    for column, dtype in zip(columns, dtypes, strict=True):
        if isinstance(dtype, np.dtype) and dtype.kind in "iub" and column.null_count():
            found = column.is_not_null() if found is None else found & column.is_not_null()
    return found


def scatter(results: pl.Series, kept: pl.Series) -> pl.Series:
    """The results of the rows that were kept, at their positions in the batch; null at the other positions."""
    places = kept.cast(pl.UInt32).cum_sum() - 1
    return results.gather(pl.select(pl.when(kept).then(places)).to_series())


def compute_possible_rows(
    columns: list[pl.Series],
    compute: Callable[[list[pl.Series]], pl.Series],
    accepted: Callable[[list[pl.Series]], pl.Series | None],
    dtype: pl.DataType,
) -> pl.Series:
    """The results of the rows for which a function does not raise; null for the others.

    If the function raises for a part of the rows, that part is divided in two, until the rows that raise are isolated.

    Parameters
    ----------
    columns
        The function's arguments.
    compute
        The function; a row's result depends on that row alone.
    accepted
        Returns a mask of the rows that the function accepts, or ``None`` if it cannot make one. The mask may include rows
        for which the function raises.
    dtype
        The dtype of the results.
    """
    rows = pl.DataFrame([column.alias(str(i)) for i, column in enumerate(columns)])
    try:
        chosen = accepted(columns)
    except Exception:
        chosen = None
    if chosen is not None and not chosen.all():
        if not chosen.any():
            return _nulls(dtype, len(chosen))
        taken = [column.filter(chosen) for column in columns]
        return scatter(compute_possible_rows(taken, compute, lambda _: None, dtype), chosen)
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
