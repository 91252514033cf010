"""``read_feather``: Arrow IPC files as scans. Building one reads the metadata, and a dictionary where there is one."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.stored import (
    categorical_value,
    physical_schema,
    refuse_if_changed,
    requested_backend,
    stored_frame,
    stored_value,
    stored_view,
    template_of,
)
from craton.pandas.core.view import Value
from craton.pandas.io.ipc_footer import Malformed, row_and_null_counts
from craton.pandas.io.kernel_types import check_kernel_types, has_views, kernel_dtypes
from craton.pandas.io.locations import HttpFiles, Location, locate
from craton.plan.operators import Scan
from craton.plan.sources import FileSource
from craton.refusals import Refusal


@native_function(pd.read_feather, elsewhere=is_file_pattern)
def read_feather(
    path: Any,
    columns: Any = None,
    use_threads: Any = True,
    storage_options: Any = None,
    dtype_backend: Any = pd.api.extensions.no_default,
) -> Any:
    """See :func:`pandas.read_feather`."""
    location = locate(path, storage_options)
    if not isinstance(location.path, str):
        raise Unsupported(Refusal.FILE_LIST)
    backend = requested_backend(dtype_backend)
    named = {} if backend is None else {"dtype_backend": backend}
    held = location.hold([location.path])
    schema, rows, nulls = _metadata(location)
    check_kernel_types(schema)

    def read(table: pa.Table) -> pd.DataFrame:
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        sink.seek(0)
        return pd.read_feather(sink, columns=columns, **named)

    template = template_of(schema, read)

    def reopen() -> Any:
        return pd.read_feather(path, columns=columns, **named)

    names = location.scannable([location.path])
    through = _filesystem(location, schema)
    stores = dict(location.store) if through is None and location.store else None
    if through is None:
        physicals = physical_schema(pl.scan_ipc(list(names), glob=False, storage_options=stores))
    else:
        physicals = kernel_dtypes(schema)
    source = FileSource(
        tuple(physicals.items()),
        "ipc",
        names,
        held.versions,
        rows=rows,
        reopen=reopen if location.filesystem is None else None,
        storage_options=stores,
        filesystem=through,
        held=held,
    )
    base = Scan(source, tuple(physicals))
    values: dict[str, Value] = {}
    for name, dtype in template.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            values[name] = _dictionary(base, name, location, schema, bool(nulls[name]))
        else:
            values[name] = stored_value(base, name, dtype, nulls[name])
    refuse_if_changed(source)
    return stored_frame(frame_class(), stored_view(base, values, template, rows), template)


def _filesystem(location: Location, schema: pa.Schema) -> Any:
    """The file system through which pyarrow reads the file; None if the kernel reads it.

    The kernel refuses the code -1, which pandas writes for missing categories, and panics at compressed views without characters.

    Raises
    ------
    Unsupported
        If the kernel would read views from a remote file.
    """
    views = has_views(schema)
    if location.filesystem is None and (views or any(pa.types.is_dictionary(field.type) for field in schema)):
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem()
    if views and location.store is not None:
        raise Unsupported(Refusal.FILE_KERNEL, "it is remote and has string_view or binary_view columns")
    return location.filesystem if location.store is None else None


def _open(location: Location) -> Any:
    if location.filesystem is None:
        return open(location.path, "rb")
    if isinstance(location.filesystem, HttpFiles) or not hasattr(location.filesystem, "open_input_file"):
        return location.filesystem.open(location.path)
    return location.filesystem.open_input_file(location.path)


def _metadata(location: Location) -> tuple[pa.Schema, int, dict[str, int]]:
    try:
        with _open(location) as file:
            schema = pa.ipc.open_file(file).schema
            rows, nulls = row_and_null_counts(file, len(schema))
    except Unsupported:
        raise
    except (OSError, pa.ArrowException, Malformed) as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if len(set(schema.names)) != len(schema.names):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    return schema, rows, dict(zip(schema.names, nulls, strict=True))


def _dictionary(base: Scan, name: str, location: Location, schema: pa.Schema, missing: bool) -> Value:
    """A dictionary column. Its categories are those of the first batch: the file format has one dictionary per column."""
    with _open(location) as file:
        options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name)])
        reader = pa.ipc.open_file(file, options=options)
        if not reader.num_record_batches:
            raise Unsupported(Refusal.FILE_DICTIONARY)
        first = reader.get_batch(0).column(0)
    with warning_filters.ignoring():
        dtype = first.slice(0, 0).to_pandas().dtype
    return categorical_value(base, name, first.dictionary, dtype, missing)
