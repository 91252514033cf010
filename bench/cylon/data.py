"""The two tables of the CylonFlow benchmark, generated once from a fixed seed and kept as Parquet files under ``build/``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["SIDES", "columns", "make"]

ROOT = Path(__file__).resolve().parents[2]

SIDES = ("left", "right")
UNIQUE = 0.9
"""Distinct keys as a share of the rows."""


def columns(rows: int, side: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the key and the value column of one side.

    Every key below ``0.9 × rows`` occurs. The remaining tenth of the rows repeats random keys. Both sides have the same keys in
    different orders, so a join returns about 1.11 rows for each row. Values are below 2**40, so that no sum overflows.
    """
    random = np.random.default_rng((2024, SIDES.index(side)))
    distinct = max(1, int(rows * UNIQUE))
    key = np.concatenate([np.arange(distinct), random.integers(0, distinct, rows - distinct)])
    random.shuffle(key)
    name = "value" if side == "left" else "other"
    return {"key": key, name: random.integers(0, 1 << 40, rows)}


def make(rows: int, folder: Path | None = None) -> Path:
    """Return the folder of ``left.parquet`` and ``right.parquet``, and write these files if they do not exist."""
    if rows < 10:
        raise ValueError(f"rows is {rows}; at least 10 are needed, because a tenth of the rows repeats keys")
    folder = folder or ROOT / "build" / "cylon" / f"{rows}"
    folder.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        target = folder / f"{side}.parquet"
        if target.is_file() and pq.ParquetFile(target).metadata.num_rows == rows:
            continue
        scratch = folder / f"{side}.parquet.tmp"
        pq.write_table(pa.table(columns(rows, side)), scratch, row_group_size=1_000_000, compression="zstd")
        os.replace(scratch, target)
    return folder
