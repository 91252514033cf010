"""Encodes Polars frames and series as Arrow tables, which Polars imports without copying."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from craton.serialize.encoding import Encoder, Handler

__all__ = ["find"]


def find(kind: type) -> Handler | None:
    """Return the handler of a type, or None."""
    if kind is pl.DataFrame:
        return _frame
    if kind is pl.Series:
        return _series
    return None


def _frame(encoder: Encoder, frame: pl.DataFrame) -> Any:
    if not frame.width:
        return NotImplemented
    table = _table(frame)
    if table is not None:
        return _frame_of, (table,)
    return pl.DataFrame, (frame.get_columns(),)


def _series(encoder: Encoder, series: pl.Series) -> Any:
    if series.dtype == pl.Object:
        return _objects, (series.name, series.to_list())
    table = _table(series.to_frame())
    if table is None:
        return NotImplemented  # a type that Arrow does not have, such as 128-bit integers
    return _series_of, (table,)


def _table(frame: pl.DataFrame) -> pa.Table | None:
    """Return a frame as an Arrow table, or None if Polars would not read the same schema back from it."""
    try:
        table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
        again = pl.from_arrow(table.slice(0, 0), rechunk=False)
    except (pa.ArrowException, pl.exceptions.PolarsError, NotImplementedError, TypeError):
        return None
    if not isinstance(again, pl.DataFrame) or again.schema != frame.schema or table.num_rows != frame.height:
        return None
    return table


def _frame_of(table: pa.Table) -> pl.DataFrame:
    batches = table.to_batches()
    if len(batches) > 1:  # for a table with categories, Polars would combine the chunks
        return pl.concat([pl.DataFrame(pl.from_arrow(batch)) for batch in batches], rechunk=False)
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _series_of(table: pa.Table) -> pl.Series:
    return _frame_of(table).to_series()


def _objects(name: str, items: list[Any]) -> pl.Series:
    return pl.Series(name, items, dtype=pl.Object)
