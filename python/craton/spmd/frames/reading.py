"""Reads the rank's part of Parquet files."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from craton.spmd.frames.parts import agreed, default_index

if TYPE_CHECKING:
    from craton.spmd.environment import Environment

__all__ = ["divided", "read_part"]


def read_part(env: Environment, path: Any, columns: Sequence[str] | None) -> pd.DataFrame:
    """Read the rank's part; see :meth:`craton.spmd.Environment.read_parquet`."""
    opened = [pq.ParquetFile(name) for name in _files(path)]
    groups = [
        (file, group, file.metadata.row_group(group).num_rows)
        for file in opened
        for group in range(file.metadata.num_row_groups)
    ]
    first, last = divided([rows for _, _, rows in groups], env.world_size)[env.rank]
    names = None if columns is None else list(columns)
    tables: list[pa.Table] = []
    for file in opened:
        own = [group for other, group, _ in groups[first:last] if other is file]
        if own:
            tables.append(file.read_row_groups(own, columns=names, use_pandas_metadata=True))
    if not tables:
        tables = [opened[0].schema_arrow.empty_table()]
        if names is not None:
            tables = [opened[0].read_row_groups([], columns=names, use_pandas_metadata=True)]
    frame = pa.concat_tables(tables, promote_options="permissive").to_pandas()
    for file in opened:
        file.close()
    (frame,) = agreed(env, frame)
    return default_index(env, frame) if isinstance(frame.index, pd.RangeIndex) else frame


def _files(path: Any) -> list[str]:
    if isinstance(path, (list, tuple)):
        return [name for one in path for name in _files(one)]
    name = os.fspath(path)
    if os.path.isdir(name):
        found = sorted(glob.glob(os.path.join(glob.escape(name), "**", "*.parquet"), recursive=True))
    elif os.path.exists(name) or not glob.has_magic(name):
        return [name]
    else:
        found = sorted(glob.glob(name, recursive=True))
    if not found:
        raise FileNotFoundError(f"there are no Parquet files at {name}")
    return found


def divided(rows: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Divide runs of rows into consecutive parts of nearly equal numbers of rows; return the first and the end of each part.

    Examples
    --------
    >>> divided([10, 10, 10, 10], 2), divided([5, 100, 5], 2), divided([7], 3)
    ([(0, 2), (2, 4)], [(0, 1), (1, 3)], [(0, 0), (0, 1), (1, 1)])
    """
    total, passed, ends, at = sum(rows), 0, [], 0
    for part in range(1, size):
        # A run belongs to the part in which its middle row is.
        while at < len(rows) and (passed + rows[at] / 2) * size < part * total:
            passed += rows[at]
            at += 1
        ends.append(at)
    ends.append(len(rows))
    return list(zip([0, *ends[:-1]], ends, strict=True))
