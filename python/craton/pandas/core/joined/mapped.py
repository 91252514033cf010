"""Takes whole columns of durable sets from their Arrow files, which are mapped into memory: texts without a copy, numbers with one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from craton.pandas.core.array_conversion import Array
from craton.pandas.core.dtypes import OBJECT, DtypeObj
from craton.pandas.core.view import View
from craton.plan.expr import Column
from craton.plan.operators import Operator, Scan, Sort
from craton.plan.rules.positions import sorted_layout
from craton.plan.sources import FileLayout, FileSource

__all__ = ["mapped_columns"]

_UNITS = {"s", "ms", "us", "ns"}


def mapped_columns(view: View) -> tuple[list[Array], int] | None:
    """The columns of a view of all rows of a set in their stored order, and the number of rows; None for other views."""
    found = _stored(view.base)
    if found is None or view.index.kind != "default" or not view.values:
        return None
    source, layout = found
    names = [value.expr.name if isinstance(value.expr, Column) else None for value in view.values]
    if None in names or any(value.source is not None for value in view.values) or not source.rows:
        return None
    wanted = [name for name in names if name is not None]
    dtypes = [value.dtype for value in view.values]
    if not all(_is_mapped(dtype, layout.nulls.get(name, ())) for name, dtype in zip(wanted, dtypes, strict=True)):
        return None
    try:
        paths = list(source.paths) if source.held is None else source.held.readable()
        tables = [_open(path, wanted) for path in paths]
    except (OSError, pa.ArrowInvalid):
        return None  # the scan raises the error
    columns = [list(itertools.chain.from_iterable(table[i].chunks for table in tables)) for i in range(len(wanted))]
    if not all(_fits(parts, dtype) for parts, dtype in zip(columns, dtypes, strict=True)):
        return None
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        arrays = list(pool.map(_array, columns, dtypes, itertools.repeat(source.rows)))
    return arrays, source.rows


def _stored(base: Operator) -> tuple[FileSource, FileLayout] | None:
    """The Arrow files that an operator reads whole and in their order; None for other operators."""
    ordered = base
    if isinstance(base, Sort):
        sorted_by = sorted_layout(base)
        if sorted_by is None or not sorted_by.in_order:
            return None
        ordered = base.input
    if not isinstance(ordered, Scan) or ordered.predicate is not None or ordered.row_number is not None:
        return None
    source = ordered.source
    if not isinstance(source, FileSource) or source.layout is None or source.format != "ipc":
        return None
    return source, source.layout


def _is_mapped(dtype: DtypeObj, nulls: Sequence[int]) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype != OBJECT and (dtype.kind in "fmM" or (dtype.kind in "iu" and not any(nulls)))
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"


def _open(path: str, names: Sequence[str]) -> pa.Table:
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all().select(list(names))  # with `included_fields`, the reader would copy


def _fits(parts: Sequence[Any], dtype: DtypeObj) -> bool:
    """Whether parts have the type that pandas stores a column as, so that values need not be converted."""
    for part in parts:
        kind = part.type
        if isinstance(dtype, pd.StringDtype):
            if kind != pa.large_string():
                return False
        elif dtype.kind in "mM":
            temporal = pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)
            if not temporal or kind.unit not in _UNITS or np.datetime_data(dtype)[0] != kind.unit:  # type: ignore[arg-type]
                return False
        elif kind != pa.from_numpy_dtype(dtype):
            return False
    return True


def _array(parts: Sequence[Any], dtype: DtypeObj, rows: int) -> Array:
    """The pandas array of a column's parts."""
    if isinstance(dtype, pd.StringDtype):
        chunked = pa.chunked_array(list(parts), type=pa.large_string())
        return pd.arrays.ArrowStringArray(chunked, dtype=dtype)  # type: ignore[call-arg]
    assert isinstance(dtype, np.dtype)
    stored = np.dtype("int64") if dtype.kind in "mM" else dtype
    missing = np.nan if dtype.kind == "f" else np.iinfo(np.int64).min
    values = np.empty(rows, dtype=stored)
    start = 0
    for part in parts:
        stop = start + len(part)
        plain = part.view(pa.int64()) if dtype.kind in "mM" else part
        values[start:stop] = _values(plain, stored)
        if part.null_count:
            values[start:stop][part.is_null().to_numpy(zero_copy_only=False)] = missing
        start = stop
    return values.view(dtype)


def _values(part: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The values of an Arrow array, with any values where they are missing."""
    buffer = part.buffers()[1]
    return np.frombuffer(buffer, dtype=dtype)[part.offset : part.offset + len(part)]
