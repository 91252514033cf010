"""``to_parquet`` and ``to_feather``: streaming writers, with the schema and the metadata that pandas writes."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craton.config import options
from craton.engine import collect_rows, run_into_sink
from craton.errors import Unsupported
from craton.pandas.core.execute import count_rows, make_index
from craton.pandas.core.view import IndexSpec, View
from craton.pandas.io.output_rows import (
    OutputRows,
    batch_to_arrow,
    iterate_batches,
    output_rows,
    rows_of_view,
    write_batches,
)
from craton.plan import build
from craton.plan.size import row_bytes
from craton.refusals import Refusal

#: Rows of a record batch.
BATCH_ROWS = 1 << 17
#: The most rows of a row group that pyarrow writes, which are as many as in pandas' files.
_PANDAS_GROUP = 1 << 20
#: If the kernel writes the file: the rows of its row groups by default, the smallest size that is requested instead, and how
#: many row groups must fit into the memory limit.
KERNEL_GROUP, _MIN_GROUP, _BUFFERED_GROUPS = 1 << 18, 1 << 10, 40
_COMPRESSIONS = {"snappy", "gzip", "brotli", "lz4", "zstd", None}
_OLDEST = pl.CompatLevel.oldest()
#: The compressions that the kernel's writer, which is faster, supports, and its names for them.
_KERNEL = {"snappy": "snappy", "gzip": "gzip", "zstd": "zstd", None: "uncompressed"}


def write_parquet(
    frame: Any, path: Any, compression: Any, index: bool | None, partitions: list[str] | None, group: int | None
) -> None:
    """Write a frame as a Parquet file, or as a folder of Parquet files.

    Parameters
    ----------
    path
        The path of the file, or of the folder if there are partitions; or a file that is open for writing.
    group
        Rows of a row group; ``None`` for the default.

    Raises
    ------
    Unsupported
        If pandas must write the frame. It is raised before anything is written.
    """
    import pyarrow.parquet as pq

    if not isinstance(compression, (str, type(None))) or compression not in _COMPRESSIONS:
        raise Unsupported(Refusal.PARAMETER, f"compression={compression!r}")
    if group is not None and (type(group) is not int or group < 1):
        raise Unsupported(Refusal.PARAMETER, f"row_group_size={group!r}")
    rows, schema = _schema(frame, index)
    if frame.attrs:
        schema = schema.with_metadata({**schema.metadata, b"PANDAS_ATTRS": json.dumps(frame.attrs).encode()})
    if partitions:
        _write_folder(rows, schema, path, compression, partitions, group)
    elif isinstance(path, str) and compression in _KERNEL and _same_types(rows, schema):
        metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        named: dict[str, Any] = {"compression": _KERNEL[compression], "row_group_size": group or _group_rows(rows)}
        renamed = dict(zip(rows.names, schema.names, strict=True))
        casts = [pl.col(name).alias(renamed[name]) for name in rows.names]
        run_into_sink(
            rows.plan,
            lambda lowered: lowered.select(casts).sink_parquet(
                path, arrow_schema=schema, metadata=metadata, lazy=True, **named
            ),
        )
    else:
        size = group or min(_rows_in_memory(rows), _PANDAS_GROUP)
        with pq.ParquetWriter(path, schema, compression=compression or "none") as writer:
            write_batches(
                rows,
                lambda batch: writer.write_table(batch_to_arrow(rows, batch, schema), row_group_size=size),
                size,
            )


def _group_rows(rows: OutputRows) -> int | None:
    """The size of a row group at which several fit into memory; None for the kernel's default.

    The kernel buffers several row groups, so long rows need smaller groups.
    """
    most = _rows_in_memory(rows)
    return None if most >= KERNEL_GROUP else most


def _rows_in_memory(rows: OutputRows) -> int:
    """The rows of a row group of which several fit into the memory limit."""
    return max(int(options.memory_limit) // _BUFFERED_GROUPS // max(row_bytes(rows.plan), 1), _MIN_GROUP)


def _write_folder(
    rows: OutputRows, schema: pa.Schema, folder: str, compression: Any, partitions: list[str], group: int | None
) -> None:
    import pyarrow.dataset as ds

    if unknown := [name for name in partitions if name not in schema.names]:
        raise Unsupported(Refusal.WRITE_PARTITIONS, unknown)
    form = ds.ParquetFileFormat()
    parts = (
        part for batch in iterate_batches(rows, BATCH_ROWS) for part in batch_to_arrow(rows, batch, schema).to_batches()
    )
    try:
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(schema, parts),
            folder,
            format=form,
            file_options=form.make_write_options(compression=compression or "none"),
            partitioning=ds.partitioning(pa.schema([schema.field(name) for name in partitions]), flavor="hive"),
            basename_template=f"{uuid.uuid4().hex}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
            preserve_order=True,
            **({} if group is None else {"max_rows_per_group": group}),
        )
    finally:
        parts.close()


def write_feather(frame: Any, path: Any, compression: str | None, size: int | None) -> None:
    """Write a frame as an Arrow IPC file.

    Raises
    ------
    Unsupported
        If pandas must write the frame. It is raised before anything is written.
    """
    rows, schema = _schema(frame, None)
    codec = "lz4" if compression is None else compression
    if codec not in ("lz4", "zstd", "uncompressed"):
        raise Unsupported(Refusal.PARAMETER, f"compression={compression!r}")
    if size is not None and (type(size) is not int or size < 1):
        raise Unsupported(Refusal.PARAMETER, f"chunksize={size!r}")
    options = pa.ipc.IpcWriteOptions(compression=None if codec == "uncompressed" else codec)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        write_batches(
            rows,
            lambda batch: writer.write_table(batch_to_arrow(rows, batch, schema), size or BATCH_ROWS // 2),
            BATCH_ROWS,
        )


def _same_types(rows: OutputRows, schema: pa.Schema) -> bool:
    """Whether the kernel's columns already have the schema's types, as its writer requires."""
    kernel = [
        pl.Series([], dtype=rows.plan.column(name).dtype).to_arrow(compat_level=_OLDEST).type for name in rows.names
    ]
    return [field.type for field in schema] == kernel


def _schema(frame: Any, index: bool | None) -> tuple[OutputRows, pa.Schema]:
    """The rows to write, and the Arrow schema, with metadata, under which pandas would write them."""
    rows = output_rows(frame, index=index is not False)
    held = rows.view
    spec = held.index
    stored: pd.RangeIndex | None = None  # labels that are stored in the metadata, not as a column
    if spec.kind == "range":
        labels = _labels(held) if index is None else None
        if isinstance(labels, pd.RangeIndex):
            stored = labels
            rows = rows_of_view(replace(held, index=IndexSpec("default", (), spec.names)))
        else:
            rows = rows_of_view(replace(held, index=replace(spec, kind="labels")))
    elif spec.kind == "default" and index:
        numbered = held.numbered()
        rows = rows_of_view(replace(numbered, index=replace(numbered.index, kind="labels")))
    elif spec.kind == "default" and index is None and (held.rows is not None or spec.names[0] is not None):
        stored = pd.RangeIndex(count_rows(held), name=spec.names[0])
    template = rows.template
    preserved: bool | None = index
    if rows.view.index.kind == "default":
        preserved = index if index is False else None  # then pandas describes the column labels too
    elif index is None:
        preserved = True
    try:
        schema = pa.Schema.from_pandas(template, preserve_index=preserved)
    except (pa.ArrowException, ValueError, TypeError, AssertionError) as error:  # pyarrow asserts that labels are text
        raise Unsupported(Refusal.WRITE_FOR_PANDAS, error) from error
    if len(schema) != len(rows.values):
        raise Unsupported(Refusal.WRITE_SCHEMA)
    if len(set(schema.names)) < len(schema) or any("\0" in name for name in schema.names):
        raise Unsupported(Refusal.WRITE_FOR_PANDAS, "names that are equal as text, or have a null byte")
    order = _positions(schema, rows)
    schema = pa.schema([schema.field(i) for i in order], metadata=schema.metadata)
    metadata = dict(schema.metadata or {})
    described = json.loads(metadata[b"pandas"])
    if preserved is None:
        described["index_columns"] = [] if stored is None else [_range(stored)]
    if frame.attrs:
        described["attributes"] = frame.attrs
    try:
        metadata[b"pandas"] = json.dumps(described).encode()
    except (TypeError, ValueError) as error:
        raise Unsupported(Refusal.WRITE_ATTRS) from error
    rows, schema = _columns_first(rows, schema.with_metadata(metadata))
    return rows, schema


def _positions(schema: pa.Schema, rows: OutputRows) -> list[int]:
    """The positions of the index levels, then of the columns, in a schema that has the columns first."""
    levels, columns = len(rows.view.index.values), len(rows.view.values)
    return [*range(columns, columns + levels), *range(columns)]


def _columns_first(rows: OutputRows, schema: pa.Schema) -> tuple[OutputRows, pa.Schema]:
    """Move the index levels behind the columns, where pandas writes them."""
    count = len(rows.view.index.values)
    if not count:
        return rows, schema
    names = (*rows.names[count:], *rows.names[:count])
    fields = [schema.field(i) for i in (*range(count, len(schema)), *range(count))]
    plan = build.project(rows.plan, tuple((name, rows.plan.column(name)) for name in names))
    every = (*rows.view.values, *rows.view.index.values)
    view = replace(rows.view, values=every, index=IndexSpec(), labels=pd.Index(names, dtype=object))
    return OutputRows(view, names, plan), pa.schema(fields, metadata=schema.metadata)


def _labels(view: View) -> pd.Index:
    (value,) = view.index.values
    (frame,) = collect_rows([build.project(view.base, (("labels", value.expr),))], ordered=True)
    return make_index(view.index, [np.asarray(frame.get_column("labels").to_numpy())], frame.height)


def _range(labels: pd.RangeIndex) -> dict[str, Any]:
    return {
        "kind": "range",
        "name": None if labels.name is None else str(labels.name),
        "start": labels.start,
        "stop": labels.stop,
        "step": labels.step,
    }
