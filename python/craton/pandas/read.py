"""Readers: files as scans of a plan, with exactly the columns, dtypes and index that pandas would give."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow.parquet as pq

from craton import fallbacks
from craton.errors import Unsupported
from craton.pandas.dtypes import DtypeObj, physical, with_missing
from craton.pandas.frame import DataFrame
from craton.pandas.lazy import lazy
from craton.pandas.view import IndexSpec, Value, View
from craton.plan.expr import Column
from craton.plan.operators import Scan
from craton.plan.sources import FileSource


def read_parquet(path: Any, *args: Any, **kwargs: Any) -> Any:
    """Read Parquet files; see :func:`pandas.read_parquet`."""
    try:
        if args or kwargs:
            raise Unsupported(f"arguments {[*args, *kwargs]}")
        return lazy(DataFrame, _scan_parquet(path))
    except Unsupported as refusal:
        fallbacks.count("read_parquet", str(refusal))
        return DataFrame(pd.read_parquet(path, *args, **kwargs))


def _scan_parquet(path: Any) -> View:
    if not isinstance(path, (str, Path)) or not os.path.isfile(path):
        raise Unsupported("not one local file")
    name = os.fspath(path)
    meta = pq.ParquetFile(name)
    arrow = meta.schema_arrow
    if (arrow.pandas_metadata or {}).get("index_columns"):
        raise Unsupported("a stored index")
    template = arrow.empty_table().to_pandas()
    nulls = _null_counts(meta.metadata)
    physicals = pl.scan_parquet(name).collect_schema()
    status = os.stat(name)
    source = FileSource(
        tuple(physicals.items()),
        "parquet",
        (name,),
        ((status.st_size, status.st_mtime_ns),),
        rows=meta.metadata.num_rows,
    )
    base = Scan(source, tuple(physicals))
    values = [_value(base, column, template.dtypes.iloc[i], nulls[i]) for i, column in enumerate(physicals)]
    return View(base, tuple(values), template.columns, IndexSpec(), meta.metadata.num_rows)


def _value(base: Scan, name: str, dtype: DtypeObj, missing: int | None) -> Value:
    column = base.column(name)
    if physical(dtype) != column.dtype:
        raise Unsupported(f"column {name!r} of {column.dtype} as {dtype}")
    nulls = missing is None or missing > 0
    floating = column.dtype.is_float()
    if nulls and with_missing(dtype) != dtype:
        if missing is None:
            raise Unsupported("a file without statistics")
        return Value(Column(name, column.dtype), with_missing(dtype))
    return Value(column, dtype, nulls, nans=floating)


def _null_counts(meta: pq.FileMetaData) -> list[int | None]:
    counts: list[int | None] = []
    for i in range(meta.num_columns):
        total: int | None = 0
        for group in range(meta.num_row_groups):
            statistics = meta.row_group(group).column(i).statistics
            if statistics is None or not statistics.has_null_count or total is None:
                total = None
            else:
                total += statistics.null_count
        counts.append(total)
    return counts


__all__ = ["read_parquet"]
