"""``read_parquet``: Parquet files as scans, with the columns, dtypes, index and row order that pandas would give.

Only footers are read here. What pandas makes of the file (column order, dtypes, index) is found by letting pandas read an
empty file of the same schema; what remains open is whether an integer column has missing values, and the footers' null
counts tell that.
"""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from craton.errors import Unsupported
from craton.pandas.dtypes import DtypeObj, physical, with_missing
from craton.pandas.frame import DataFrame
from craton.pandas.lazy import lazy
from craton.pandas.native import reader
from craton.pandas.view import IndexSpec, Value, View
from craton.plan.expr import Call, Column, Expr, Literal, Values, conjunction, options
from craton.plan.operators import Filter, Scan
from craton.plan.sources import FileSource

_KNOWN = {"columns", "filters", "dtype_backend", "engine"}
_GLOB = frozenset("*?[")


@reader(pd.read_parquet)
def read_parquet(path: Any, engine: str = "auto", columns: Any = None, **kwargs: Any) -> Any:
    """See :func:`pandas.read_parquet`. A list of paths and a glob pattern are taken too."""
    kwargs = {
        name: value for name, value in kwargs.items() if value is not None and value is not pd.api.extensions.no_default
    }
    if engine not in ("auto", "pyarrow") or not kwargs.keys() <= _KNOWN:
        raise Unsupported(f"read_parquet with {sorted(kwargs)} by {engine}")
    held, attrs = scan_parquet(path, columns, kwargs.get("filters"), kwargs.get("dtype_backend"))
    frame = lazy(DataFrame, held)
    if attrs:
        frame.attrs = attrs
    return frame


def scan_parquet(path: Any, columns: Any, filters: Any, backend: Any) -> tuple[View, dict[str, Any]]:
    """The view that scans Parquet files, and the frame's ``attrs``."""
    try:
        dataset = pq.ParquetDataset(_paths(path))
    except Exception as error:
        raise Unsupported(f"files that pandas should open: {error}") from error
    files = tuple(dataset.files)
    if not files:
        raise Unsupported("no files")
    footers = [pq.read_metadata(name) for name in files]
    stored = dataset.fragments[0].physical_schema
    if any(not footer.schema.to_arrow_schema().equals(stored, check_metadata=False) for footer in footers[1:]):
        raise Unsupported("files with different schemas")
    partitions = [name for name in dataset.schema.names if name not in stored.names]
    schema = pa.schema(list(dataset.schema), metadata=stored.metadata)
    template, names = _template(schema, columns, backend, partitions)
    rows = sum(footer.num_rows for footer in footers)
    scan_options: dict[str, Any] = {"hive_partitioning": True} if partitions else {}
    physicals = _physical_schema(files, scan_options)
    source = FileSource(
        tuple(physicals.items()),
        "parquet",
        files,
        tuple(_version(name) for name in files),
        options(**scan_options),
        rows=rows,
        reopen=_reopen(path, columns, filters),
    )
    base = Scan(source, tuple(physicals))
    missing = _null_counts(footers)
    values: dict[str, Value] = {}
    for name, dtype in names.items():
        if name in partitions:
            values[name] = _partition_value(base, name, dtype, dataset)
        else:
            values[name] = _value(base, name, dtype, missing.get(name))
    view = _view(base, values, template, rows)
    if filters is not None:
        view = _filtered(view, base, filters, partitions)
    attrs: dict[str, Any] = {}
    if stored.metadata and b"PANDAS_ATTRS" in stored.metadata:
        import json

        attrs = json.loads(stored.metadata[b"PANDAS_ATTRS"])
    return view, attrs


def _paths(path: Any) -> Any:
    if isinstance(path, Path):
        path = os.fspath(path)
    if isinstance(path, (list, tuple)) and path and all(isinstance(item, (str, Path)) for item in path):
        return [os.fspath(item) for item in path]
    if not isinstance(path, str):
        raise Unsupported(f"a path of type {type(path).__name__}")
    if "://" in path:
        raise Unsupported("a URL")
    path = os.path.expanduser(path)
    if _GLOB & set(path) and not os.path.exists(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise Unsupported("a pattern that no file matches")
        return found
    return path


def _reopen(path: Any, columns: Any, filters: Any) -> Callable[[], Any]:
    def reopen() -> Any:
        return pd.read_parquet(_paths(path), columns=columns, filters=filters)

    return reopen


def _version(name: str) -> tuple[int, int]:
    status = os.stat(name)
    return status.st_size, status.st_mtime_ns


def _physical_schema(files: Sequence[str], scan_options: dict[str, Any]) -> dict[str, pl.DataType]:
    try:
        return dict(pl.scan_parquet(list(files), glob=False, **scan_options).collect_schema())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise Unsupported(f"the kernel can't read the file: {error}") from error


def _template(
    schema: pa.Schema, columns: Any, backend: Any, partitions: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, DtypeObj]]:
    """What pandas gives for no rows of the schema, and the pandas dtype of each column that it reads from the file."""
    plain = schema
    for name in partitions:
        field = schema.field(name)
        plain = plain.set(schema.get_field_index(name), pa.field(name, field.type))
    sink = io.BytesIO()
    pq.write_table(plain.empty_table(), sink)
    sink.seek(0)
    named: dict[str, Any] = {} if backend is None else {"dtype_backend": backend}
    try:
        template = pd.read_parquet(sink, columns=columns, **named)
    except Exception as error:
        raise Unsupported(f"pandas should read this: {error}") from error
    if not template.columns.is_unique or isinstance(template.columns, pd.MultiIndex):
        raise Unsupported("column labels that are not unique, or MultiIndex columns")
    names: dict[str, DtypeObj] = {}
    for label, dtype in template.dtypes.items():
        if not isinstance(label, str):
            raise Unsupported("column labels that are not strings")
        names[label] = dtype
    if not isinstance(template.index, pd.RangeIndex):
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        levels = [template.index.get_level_values(i).dtype for i in range(template.index.nlevels)]
        for name, dtype in zip(stored, levels, strict=True):
            names[name] = dtype
    return template, names


def _value(base: Scan, name: str, dtype: DtypeObj, missing: int | None) -> Value:
    column = base.column(name)
    expected = physical(dtype)
    if expected != column.dtype and not (expected == pl.Datetime("ms") and column.dtype == pl.Datetime("ms")):
        raise Unsupported(f"column {name!r} of {column.dtype} as {dtype}")
    nulls = missing is None or missing > 0
    floating = column.dtype.is_float() and isinstance(dtype, np.dtype)
    if not nulls or with_missing(dtype) == dtype:
        return Value(column, dtype, nulls, nans=floating)
    if dtype.kind == "b":
        raise Unsupported(f"a boolean column {name!r} with missing values")
    if missing is None:
        return Value(column, dtype, source=(base, name))
    promoted = with_missing(dtype)
    return Value(Call("cast", (column,), physical(promoted)), promoted)


def _partition_value(base: Scan, name: str, dtype: DtypeObj, dataset: Any) -> Value:
    """A hive partition: a categorical whose categories are the folders' values, as pyarrow lists them."""
    if not isinstance(dtype, pd.CategoricalDtype):
        raise Unsupported(f"partition {name!r} as {dtype}")
    partitioning = dataset.partitioning
    found = partitioning.dictionaries[partitioning.schema.get_field_index(name)]
    if found is None:
        raise Unsupported(f"partition {name!r} without known values")
    column = base.column(name)
    keys = pl.Series(found.to_pylist(), dtype=column.dtype)
    categories = pd.CategoricalDtype(found.to_pandas(), ordered=False)
    codes = Values.of(pl.Series(range(len(keys)), dtype=pl.Int32))
    return Value(Call("map_values", (column, Values.of(keys), codes), pl.Int32()), categories, nulls=False)


def _null_counts(footers: Sequence[pq.FileMetaData]) -> dict[str, int | None]:
    """Missing values of each column over all files; ``None`` where a row group does not tell."""
    counts: dict[str, int | None] = {}
    for footer in footers:
        for i in range(footer.num_columns):
            name = footer.schema.column(i).path
            for group in range(footer.num_row_groups):
                if not footer.row_group(group).num_rows:
                    continue
                statistics = footer.row_group(group).column(i).statistics
                known = counts.setdefault(name, 0)
                if statistics is None or not statistics.has_null_count or known is None:
                    counts[name] = None
                else:
                    counts[name] = known + statistics.null_count
            counts.setdefault(name, 0)
    return counts


def _view(base: Scan, values: dict[str, Value], template: pd.DataFrame, rows: int) -> View:
    labels = template.columns
    index = IndexSpec("default", (), (template.index.name,))
    if isinstance(template.index, pd.RangeIndex):
        ranges = _stored_range(template, base, rows)
        if ranges is not None:
            index = ranges
    else:
        stored = [name for name in values if name not in set(labels)]
        kind = "multi" if len(stored) > 1 else "labels"
        index = IndexSpec(kind, tuple(values[name] for name in stored), tuple(template.index.names))  # type: ignore[arg-type]
    return View(base, tuple(values[name] for name in labels), labels, index, rows)


def _stored_range(template: pd.DataFrame, base: Scan, rows: int) -> IndexSpec | None:
    """A stored RangeIndex that is not the default one can't be planned; one that fits no longer is the default."""
    schema = pq.read_schema(base.source.paths[0])  # type: ignore[attr-defined]
    for entry in (schema.pandas_metadata or {}).get("index_columns", []):
        if not isinstance(entry, dict):
            continue
        stored = range(entry["start"], entry["stop"], entry["step"])
        if len(stored) != rows:
            return IndexSpec("default", (), (None,))
        if entry["start"] != 0 or entry["step"] != 1:
            raise Unsupported("a stored RangeIndex that does not count from 0")
        return IndexSpec("default", (), (entry["name"],))
    return None


_OPERATORS = {"=": "eq", "==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}


def _filtered(view: View, base: Scan, filters: Any, partitions: Sequence[str]) -> View:
    """Rows by pyarrow's filters in disjunctive normal form: null never matches."""
    if not isinstance(filters, list) or not filters:
        raise Unsupported("filters of this kind")
    groups = [filters] if isinstance(filters[0], tuple) else filters
    anyof: Expr | None = None
    for group in groups:
        parts = [_condition(base, *entry) for entry in group]
        every = conjunction(parts)
        anyof = every if anyof is None else Call("or", (anyof, every), pl.Boolean())
    assert anyof is not None
    index = view.index if view.index.values else IndexSpec("default", (), (None,))
    return View(Filter(base, anyof), view.values, view.labels, index, None)


def _condition(base: Scan, name: str, symbol: str, operand: Any) -> Expr:
    known = dict(base.source.columns)
    if name not in known:
        raise Unsupported(f"a filter on an unknown column {name!r}")
    column = Column(name, known[name])
    if symbol in ("in", "not in"):
        values = Values.of(pl.Series(list(operand)).cast(column.dtype))
        member = Call("is_in", (column, values), pl.Boolean())
        if symbol == "in":
            return member
        raise Unsupported("a filter by 'not in'")
    if symbol not in _OPERATORS or isinstance(operand, (list, tuple, set)):
        raise Unsupported(f"a filter {symbol!r}")
    if isinstance(operand, (pd.Timestamp, np.datetime64)):
        operand = pd.Timestamp(operand)
        if not isinstance(column.dtype, pl.Datetime):
            raise Unsupported("a timestamp beside another dtype")
        constant: Expr = Literal(operand, pl.Datetime(column.dtype.time_unit, column.dtype.time_zone))
    else:
        try:
            constant = Literal(operand, pl.Series([operand]).dtype)
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise Unsupported(f"a filter operand {operand!r}") from error
    test: Expr = Call(_OPERATORS[symbol], (column, constant), pl.Boolean())
    if column.dtype.is_float() and symbol in (">", ">="):
        test = conjunction([test, Call("is_not_nan", (column,), pl.Boolean())])
    return test
