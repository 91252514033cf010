"""Tables between ranks: rows by the hash of their keys, and the parts of a table put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from craton import _native

__all__ = ["concatenated", "partition_by_hash"]


def partition_by_hash(table: Any, keys: Sequence[str], parts: int) -> list[Any]:
    """Divide the rows of a table by the hash of their keys.

    The hash is that of exchanges: it depends on the values alone, not on their type's width, on the library, or on the
    process. Rows keep their order; missing keys are equal to each other.

    Parameters
    ----------
    table : Arrow table or record batch, pandas, Craton or Polars frame
        The rows.
    keys : sequence of str
        The names of the key columns.
    parts : int
        The number of parts.

    Returns
    -------
    list
        The parts, each of the type of the table, with its columns, dtypes, categories and index.

    Raises
    ------
    KeyError
        The table has no such column, or several.
    ValueError
        There are no keys.
    TypeError
        It is no table.
    """
    if isinstance(keys, str):
        raise TypeError(f"keys must be a list of names, got the text {keys!r}: write [{keys!r}]")
    if not keys:
        raise ValueError("keys must name at least one column")
    kind = _kind(table)
    names = list(table.schema.names if kind == "arrow" else table.columns)
    for key in keys:
        if names.count(key) != 1:
            raise KeyError(f"{key!r} is the name of {names.count(key)} columns; the columns are {names}")
    numbers = _partition_numbers(_key_columns(table, keys, kind), parts)
    return [_taken(table, np.flatnonzero(numbers == part), kind) for part in range(parts)]


def concatenated(parts: list[Any]) -> Any:
    """Put the parts of a table together again, in their order; they are of one type."""
    kind = _kind(parts[0])
    if kind == "arrow":
        tables = [pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part for part in parts]
        whole = pa.concat_tables(tables).combine_chunks()
        if not isinstance(parts[0], pa.RecordBatch):
            return whole
        batches = whole.to_batches()
        return batches[0] if batches else parts[0].slice(0, 0)
    if kind == "polars":
        import polars as pl

        return pl.concat(parts, how="vertical", rechunk=True)
    return _concatenated_frames(parts)


def _kind(table: Any) -> str:
    if isinstance(table, pa.Table | pa.RecordBatch):
        return "arrow"
    package = type(table).__module__.partition(".")[0]
    if package == "polars" and hasattr(table, "get_columns"):
        return "polars"
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return "pandas"
    raise TypeError(f"expected an Arrow table or a pandas, Craton or Polars frame, got {type(table).__name__}")


def _key_columns(table: Any, keys: Sequence[str], kind: str) -> Any:
    if kind == "arrow":
        return table.select(list(keys))
    if kind == "polars":
        return table.select(list(keys))
    arrays = []
    for key in keys:
        column = table[key]
        if isinstance(column.dtype.name, str) and column.dtype.name == "category":
            # Parts may differ in their categories' codes; the values decide.
            column = column.astype(column.cat.categories.dtype)
        arrays.append(pa.array(column, from_pandas=True))
    return pa.table(arrays, names=[str(number) for number in range(len(keys))])


def _partition_numbers(columns: Any, parts: int) -> Any:
    """The part of each row: ``hash * parts >> 64``, as exchanges compute it."""
    hashes = pa.array(_native.hash_rows(columns)).to_numpy(zero_copy_only=False)
    high, low = hashes >> np.uint64(32), hashes & np.uint64(0xFFFF_FFFF)
    return ((high * np.uint64(parts) + (low * np.uint64(parts) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def _taken(table: Any, rows: Any, kind: str) -> Any:
    if kind == "pandas":
        return table.iloc[rows]
    if kind == "polars":
        return table[rows]
    return table.take(pa.array(rows))


def _concatenated_frames(parts: list[Any]) -> Any:
    import pandas as pd

    whole = [part for part in parts if len(part)] or parts[:1]
    return whole[0] if len(whole) == 1 else pd.concat(whole)
