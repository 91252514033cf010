"""``read_parquet``: Parquet files as scans, with the columns, dtypes, index and row order that pandas would give.

Building the scan reads only the footers and the dictionaries of categorical columns. pandas reads an empty file of the same
schema, which yields the column order, the dtypes and the index. The footers' null counts show whether integer columns have
missing values, which also affect their dtypes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
from pandas._config import using_string_dtype
from pandas.io._util import arrow_table_to_pandas

from craton.errors import Unsupported
from craton.lower.scans import parquet_options
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.file_cache import memoised
from craton.pandas.core.native import is_file_pattern, native_function
from craton.pandas.core.stored import (
    Template,
    categorical_value,
    physical_schema,
    refuse_if_changed,
    requested_backend,
    stored_frame,
    stored_value,
    stored_view,
    template_of,
)
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.io.dictionary_pages import dictionary_of
from craton.pandas.io.footers import ParquetFooter, local_footer, text_bytes
from craton.pandas.io.kernel_types import check_kernel_types, check_writer_schema, has_views
from craton.pandas.io.locations import HttpFiles, Location, locate
from craton.pandas.io.parquet_engine import require_pyarrow_engine
from craton.pandas.io.parquet_filters import FilterTarget, filter_expr
from craton.pandas.io.partitions import check_folders_match, hive_schema, partition_value
from craton.plan import build
from craton.plan.expr import options
from craton.plan.operators import Operator, Scan
from craton.plan.sources import FileSource
from craton.records import dataclass
from craton.refusals import Refusal

#: Options of pandas on which dtypes depend.
_OPTIONS = ("mode.string_storage",)
#: The values of ``dtype_backend`` that pandas accepts.
_BACKENDS = (None, "numpy_nullable", "pyarrow")
#: Arrow types that survive writing and reading a Parquet file, as decimals and most timestamps do, too.
_PRESERVED_TYPES = frozenset(
    [
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
        pa.date32(),
    ]
)
_TEXTS = (pa.string(), pa.large_string())
#: Names of the columns that pyarrow's datasets add.
_DATASET_NAMES = frozenset(["__fragment_index", "__batch_index", "__last_in_fragment", "__filename"])
_PLANNED = {"filters", "storage_options"}
#: Parameters whose default is None. For other parameters of pyarrow, None may have a meaning.
_NONE_BY_DEFAULT = _PLANNED | {"filesystem", "to_pandas_kwargs"}


@native_function(pd.read_parquet, elsewhere=is_file_pattern)
def read_parquet(path: Any, engine: Any = pd.api.extensions.no_default, columns: Any = None, **kwargs: Any) -> Any:
    """See :func:`pandas.read_parquet`. A list of paths and a glob pattern are accepted, too."""
    backend = kwargs.pop("dtype_backend", pd.api.extensions.no_default)
    given = {name: value for name, value in kwargs.items() if name not in _NONE_BY_DEFAULT or value is not None}
    if not given.keys() <= _PLANNED:
        raise Unsupported(Refusal.PARQUET_READ, sorted(given))
    with require_pyarrow_engine(engine):
        location = locate(path, given.get("storage_options"), patterns=True)
        view, template = scan_parquet(location, columns, given.get("filters"), requested_backend(backend))
        return stored_frame(frame_class(), view, template)


@dataclass(frozen=True, slots=True)
class _ParquetFiles:
    """The files of a scan, and their footers.

    ``schema`` is the schema of the dataset with the metadata of the first file. ``dataset`` is the pyarrow dataset, which has the
    values of hive partitions; ``None`` for a single file.
    """

    files: tuple[str, ...]
    footers: list[ParquetFooter]
    schema: pa.Schema
    partitions: tuple[str, ...]
    dataset: Any


def scan_parquet(location: Location, columns: Any, filters: Any, backend: Any) -> tuple[View, Template]:
    """The view that scans Parquet files, and the template of their schema."""
    inputs = _open_files(location)
    check_kernel_types(inputs.schema)
    if filters is not None and has_views(inputs.schema):
        raise Unsupported(
            Refusal.FILE_KERNEL, "it has string_view or binary_view columns, and is filtered"
        )  # pandas raises an error
    for written in {footer.written for footer in inputs.footers}:
        check_writer_schema(written)

    def read(table: pa.Table) -> pd.DataFrame:
        return read_without_rows(table, columns, backend)

    decided_by = (inputs.schema.serialize().to_pybytes(), repr(columns), backend, using_string_dtype())
    template = memoised(
        ("template", *decided_by, *map(pd.get_option, _OPTIONS)), lambda: template_of(inputs.schema, read)
    )
    rows = sum(footer.rows for footer in inputs.footers)
    base = Scan(source := _source(location, inputs, rows, columns, filters), tuple(name for name, _ in source.columns))
    missing = _null_counts(inputs.footers)
    kept: Operator = base
    if filters is not None:  # dtypes depend on the rows that remain
        files = inputs.files if location.filesystem is None else ()
        kept = build.filter(base, filter_expr(FilterTarget(base, inputs.schema, files), filters))
        missing = {name: 0 if count == 0 else None for name, count in missing.items()}
        if any(name in inputs.partitions for name in template.dtypes):
            check_folders_match(inputs.dataset, filters)
    values: dict[str, Value] = {}
    for name, dtype in template.dtypes.items():
        if name in inputs.partitions:
            values[name] = partition_value(base, name, dtype, inputs.dataset)
        elif isinstance(dtype, pd.CategoricalDtype):
            values[name] = _dictionary_value(base, name, location, inputs)
        else:
            values[name] = stored_value(kept, name, dtype, missing.get(name))
    refuse_if_changed(source)
    view = stored_view(base, values, template, rows)
    if filters is not None:
        if template.ranges is not None and view.index != IndexSpec():
            raise Unsupported(Refusal.FILTER_LABELS)
        stored_dtypes = [dtype for name, dtype in template.dtypes.items() if name not in inputs.partitions]
        if any(isinstance(dtype, pd.CategoricalDtype) for dtype in stored_dtypes):
            raise Unsupported(Refusal.FILTER_CATEGORIES)
        index = view.index if view.index.values else IndexSpec("default", (), (None,))
        view = View(kept, view.values, view.labels, index, None)
    return view, template


def read_without_rows(table: pa.Table, columns: Any, backend: Any) -> pd.DataFrame:
    """The frame that pandas reads from a Parquet file of a table without rows."""
    named = {} if backend is None else {"dtype_backend": backend}
    if columns is None and backend in _BACKENDS and _survives_parquet(table.schema, backend != "pyarrow"):
        return arrow_table_to_pandas(table, **named)
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table, sink)
    sink.seek(0)
    return pd.read_parquet(sink, columns=columns, **named)


def _survives_parquet(schema: pa.Schema, as_categories: bool) -> bool:
    """Whether writing a Parquet file and reading it with pyarrow preserves a schema.

    If so, pandas converts an empty table like an empty file, so no file needs to be written. A schema is not preserved if a file
    may change a type (seconds become milliseconds), if it has nested or extension types, or if it has the ``attrs`` of
    a frame, which pandas reads from the file. The type of a dictionary's indices may change, which categories do not show.

    Parameters
    ----------
    as_categories
        Whether a dictionary becomes a categorical.
    """
    names = set(schema.names)
    return (
        pd.get_option("io.parquet.engine") != "fastparquet"
        and len(names) == len(schema)
        and names.isdisjoint(_DATASET_NAMES)
        and b"PANDAS_ATTRS" not in (schema.metadata or {})
        and all(_field_survives_parquet(field, as_categories) for field in schema)
    )


def _field_survives_parquet(field: pa.Field, as_categories: bool) -> bool:
    """Whether a Parquet file preserves a column's type. It does not preserve extension types, which fields with metadata may have."""
    kind = field.type
    if as_categories and pa.types.is_dictionary(kind):
        kind = kind.value_type if kind.value_type in _TEXTS else kind
    return (field.metadata is None or field.metadata.keys() <= {b"PARQUET:field_id"}) and (
        kind in _PRESERVED_TYPES or (pa.types.is_timestamp(kind) and kind.unit != "s") or pa.types.is_decimal128(kind)
    )


def _open_files(location: Location) -> _ParquetFiles:
    import pyarrow.parquet as pq

    try:
        if isinstance(location.filesystem, HttpFiles):
            footer = ParquetFooter.of(pq.read_metadata(location.filesystem.open(location.path)))
            return _ParquetFiles((location.path,), [footer], footer.schema, (), None)
        if location.filesystem is None and isinstance(location.path, str) and os.path.isfile(location.path):
            footer = local_footer(location.path)
            return _ParquetFiles((location.path,), [footer], footer.schema, (), None)
        dataset = pq.ParquetDataset(location.path, filesystem=location.filesystem)
        files = tuple(dataset.files)
        footers = [
            local_footer(name)
            if location.filesystem is None
            else ParquetFooter.of(pq.read_metadata(name, filesystem=location.filesystem))
            for name in files
        ]
        found = dataset.schema
        first = dataset.fragments[0].physical_schema if files else found
    except Unsupported:
        raise
    except Exception as error:
        raise Unsupported(Refusal.FILE_FOR_PANDAS, error) from error
    if not files:
        raise Unsupported(Refusal.FILE_NONE)
    if any(not footer.schema.equals(first, check_metadata=False) for footer in footers[1:]):
        raise Unsupported(Refusal.FILE_SCHEMAS)
    partitions = tuple(name for name in found.names if name not in first.names)
    return _ParquetFiles(files, footers, pa.schema(list(found), metadata=first.metadata), partitions, dataset)


def _source(location: Location, inputs: _ParquetFiles, rows: int, columns: Any, filters: Any) -> FileSource:
    paths = location.scannable(inputs.files)
    named: dict[str, Any] = {}
    if inputs.partitions:
        folders = hive_schema(paths, inputs.schema, inputs.partitions)
        named = {"hive_partitioning": True, "hive_schema": folders}
    through = location.filesystem if location.filesystem is not None and location.store is None else None
    if through is not None:
        if inputs.partitions:
            raise Unsupported(Refusal.PARTITION_FILES)
        empty = pl.from_arrow(inputs.schema.empty_table())
        assert isinstance(empty, pl.DataFrame)
        physicals = dict(zip(inputs.schema.names, empty.dtypes, strict=True))
    else:
        stores = None if location.store is None else dict(location.store)
        physicals = physical_schema(
            pl.scan_parquet(list(paths), glob=False, storage_options=stores, **parquet_options(options(**named)))
        )
    held = location.hold(inputs.files)
    for footer, version in zip(inputs.footers, held.versions, strict=True):
        if footer.version not in (None, version):
            raise Unsupported(Refusal.FILE_LOST)

    def reopen() -> Any:
        return pd.read_parquet(location.path, columns=columns, filters=filters)

    return FileSource(
        tuple(physicals.items()),
        "parquet",
        paths,
        held.versions,
        options(**named),
        rows=rows,
        text_bytes=text_bytes(inputs.footers, physicals),
        row_groups=sum(footer.groups for footer in inputs.footers),
        stored_bytes=tuple((name, sum(footer.sizes.get(name, 0) for footer in inputs.footers)) for name in physicals),
        complete=frozenset(
            name for name in physicals if all(footer.missing.get(name) == 0 for footer in inputs.footers)
        ),
        reopen=reopen if location.filesystem is None else None,
        storage_options=None if not location.store else dict(location.store),
        filesystem=through,
        held=held,
    )


def _dictionary_value(base: Scan, name: str, location: Location, inputs: _ParquetFiles) -> Value:
    """A column with a dictionary type in the writer's schema, as a categorical with the categories that pandas reads."""
    if location.filesystem is not None:
        raise Unsupported(Refusal.FILE_REMOTE_DICTIONARY)
    parts: list[pa.DictionaryArray] = []
    missing = False
    for path, footer in zip(inputs.files, inputs.footers, strict=True):
        key = ("dictionaries", os.path.abspath(path), footer.version, name)
        found, holes = memoised(key, lambda path=path: _dictionaries(path, name))  # type: ignore[misc]
        parts += found
        missing = missing or holes
    kind = inputs.schema.field(name).type
    dtype = pa.chunked_array(parts, type=kind).to_pandas().dtype
    categories = pa.array(dtype.categories)
    return categorical_value(base, name, categories, dtype, missing)


def _dictionaries(path: str, name: str) -> tuple[list[pa.DictionaryArray], bool]:
    """Arrays of one missing value each that have the dictionaries of a column of a file; and whether a value is missing in the file."""
    import pyarrow.parquet as pq

    parts: list[pa.DictionaryArray] = []
    missing = False
    with pq.ParquetFile(path) as file:
        places = [i for i in range(file.metadata.num_columns) if file.metadata.schema.column(i).path == name]
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group)
            chunk = rows.column(places[0]) if len(places) == 1 and rows.num_rows else None
            counted = chunk is not None and chunk.statistics is not None and chunk.statistics.has_null_count
            one = dictionary_of(file, path, group, name, places[0]) if counted else None
            if chunk is not None and one is not None:
                missing = missing or chunk.statistics.null_count > 0
                chunks = [one]
            else:
                chunks = file.read_row_group(group, columns=[name], use_threads=False).column(0).chunks
                missing = missing or any(part.null_count > 0 for part in chunks)
            for part in chunks:
                codes = pa.nulls(1, part.indices.type) if len(part) else part.indices
                parts.append(pa.DictionaryArray.from_arrays(codes, part.dictionary, ordered=part.type.ordered))
    return parts, missing


def _null_counts(footers: Sequence[ParquetFooter]) -> dict[str, int | None]:
    """The number of missing values of each column over all files; ``None`` if a row group has no null count."""
    counts: dict[str, int | None] = {}
    for footer in footers:
        for name, missing in footer.missing.items():
            known = counts.setdefault(name, 0)
            counts[name] = None if known is None or missing is None else known + missing
    return counts
