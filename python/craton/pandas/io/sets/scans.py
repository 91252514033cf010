"""Durable sets as lazy frames: scans of all files of a version, with the bounds of their pages."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.core.array_conversion import range_index
from craton.pandas.core.counterparts import as_craton, frame_class
from craton.pandas.core.stored import (
    categorical_value,
    physical_schema,
    refuse_if_changed,
    stored_frame,
    stored_value,
    stored_view,
    template_of,
)
from craton.pandas.core.view import Value
from craton.pandas.io.kernel_types import check_kernel_types
from craton.pandas.io.locations import Location
from craton.pandas.reshape.tables import concat
from craton.plan.operators import Operator, Scan, Sort, SortKey
from craton.plan.sources import FileSource
from craton.store import CorruptSet
from craton.store.durable import DurableSet, Version
from craton.store.durable_files import POSITION, SetPartitioning, layout_of
from craton.store.places import COLLIDING
from craton.store.recovery import rebuild
from craton.store.sets import empty_batch

__all__ = ["frame_of", "schema_as_text"]

_READERS: dict[str, tuple[str, Callable[..., pl.LazyFrame]]] = {
    "arrow": ("ipc", pl.scan_ipc),
    "parquet": ("parquet", pl.scan_parquet),
}


def schema_as_text(schema: pa.Schema) -> str:
    """A schema with its metadata, as the manifest has it."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def frame_of(durable: DurableSet, version: Version) -> Any:
    """The lazy frame of a version. Files with other columns than those before are concatenated, as pandas does it."""
    try:
        return _planned(durable, version)
    except Unsupported:
        return _read(durable, version)


def _planned(durable: DurableSet, version: Version) -> Any:
    default = bool(version.about["default_index"])
    schemas = [pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for text in version.about["schemas"]]

    def together(file: dict[str, Any]) -> tuple[int, str]:
        number = file["about"]["schema"]
        return number, file["name"] if not default and _has_range(schemas[number]) else ""

    intact = intact_organisations(durable, version)
    if version.organisations:
        return _scanned(durable, version, intact, schemas[version.files_of(0)[0]["about"]["schema"]])
    groups = itertools.groupby(version.files, together)
    parts = [_scanned(durable, version, [(None, list(files))], schemas[number]) for (number, _), files in groups]
    return parts[0] if len(parts) == 1 else concat(parts, ignore_index=default)


def _has_range(schema: pa.Schema) -> bool:
    """Whether row labels are in the metadata of the files, and not in a column."""
    return any(isinstance(entry, dict) for entry in (schema.pandas_metadata or {}).get("index_columns", ()))


def intact_organisations(
    durable: DurableSet, version: Version
) -> list[tuple[SetPartitioning | None, tuple[dict[str, Any], ...]]]:
    """The organisations of a version of which no file is missing or has another length, with their files.

    If there is none, the missing files of one of them are rebuilt from the others.

    Raises
    ------
    CorruptSet
        If rows are in no file that is there, or the files cannot be written.
    """
    found: list[tuple[SetPartitioning | None, tuple[dict[str, Any], ...]]] = []
    lost: dict[int, list[str]] = {}
    missing = durable.lost(file for file in version.files if file["about"].get("of", 0) != COLLIDING)
    for number, how in enumerate(version.organisations or (None,)):
        files = version.files_of(number)
        odd = [file["name"] for file in files if file["name"] in missing]
        if odd:
            lost[number] = odd
        else:
            found.append((how, files))
    if found:
        return found
    number = min(lost, key=lambda number: len(lost[number]))
    if version.organisations:
        try:
            rebuild(durable, version, dict.fromkeys(durable.lost(version.files), "it is missing"), only=number)
        except (CorruptSet, OSError) as error:
            raise CorruptSet(f"no replica is complete, and none can be rebuilt: {error}") from error
        return [(version.organisations[number], version.files_of(number))]
    path = next(durable.path(file) for file in version.files if file["name"] in lost[number])
    raise CorruptSet(f"{path}: it is missing, or has another length, and no replica is complete")


def _source(
    durable: DurableSet,
    version: Version,
    how: SetPartitioning | None,
    files: Sequence[dict[str, Any]],
    schema: pa.Schema,
) -> FileSource:
    paths = [durable.path(file) for file in files]
    remote = durable.remote(files)
    held = Location(paths).hold(paths) if remote is None else remote
    form, scan = _READERS[version.about["format"]]
    layout = layout_of(files, how, version.files_of(0) if how is not None else files)
    # A file in an object store is downloaded when its rows are needed.
    physicals = physical_schema(scan(paths[0] if remote is None else _without_rows(schema, form), glob=False))
    return FileSource(
        tuple(physicals.items()),
        form,
        tuple(paths),
        held.versions,
        rows=sum(file["rows"] for file in files),
        complete=frozenset(name for name, counts in layout.nulls.items() if not any(counts)),
        held=held,
        layout=layout,
    )


def _without_rows(schema: pa.Schema, form: str) -> io.BytesIO:
    """A file in memory that has columns and no rows."""
    file = io.BytesIO()
    if form == "parquet":
        pq.write_table(schema.empty_table(), file)
    else:
        with pa.ipc.new_file(file, schema) as writer:
            writer.write_batch(empty_batch(schema.empty_table()))
    file.seek(0)
    return file


def _scanned(
    durable: DurableSet,
    version: Version,
    organisations: Sequence[tuple[SetPartitioning | None, Sequence[dict[str, Any]]]],
    schema: pa.Schema,
) -> Any:
    """The rows of files with the same columns: of one of the organisations, which a plan chooses."""
    check_kernel_types(schema)
    source, *others = [_source(durable, version, how, files, schema) for how, files in organisations]
    first = organisations[0][1][0]
    source = replace(source, alternatives=tuple(others))
    layout, rows = source.layout, source.rows
    assert layout is not None
    missing = {name: sum(counts) for name, counts in layout.nulls.items()}
    base: Operator = Scan(source, tuple(name for name, _ in source.columns))
    if layout.position:
        base = Sort(base, (SortKey(base.column(POSITION)),))
        schema = schema.remove(schema.get_field_index(POSITION))

    def read(table: pa.Table) -> pd.DataFrame:
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        sink.seek(0)
        return pd.read_feather(sink)

    template = template_of(schema, read)
    values: dict[str, Value] = {}
    for name, dtype in template.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            values[name] = _categories(base, name, durable.local_path(first), missing[name] > 0)
        else:
            values[name] = stored_value(base, name, dtype, missing[name])
    refuse_if_changed(source)
    held = stored_view(base, values, template, rows)
    if layout.position and held.index.kind == "labels" and version.about.get("range_index"):
        # They are a column, because each partition has only some of them.
        held = replace(held, index=replace(held.index, kind="range"))
    return stored_frame(frame_class(), held, template)


def _categories(base: Operator, name: str, path: str, missing: bool) -> Value:
    """A categorical column, whose categories are in the first file; all files have the same."""
    with pa.memory_map(path) as file:
        number = pa.ipc.open_file(file).schema.get_field_index(name)
        reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=[number]))
        first = reader.get_batch(0).column(0)
    with warning_filters.ignoring():
        dtype = first.slice(0, 0).to_pandas().dtype
    return categorical_value(base, name, first.dictionary, dtype, missing)


def _read(durable: DurableSet, version: Version) -> Any:
    """The rows in memory, for columns of types that plans do not have."""
    form = version.about["format"]
    tables: list[pd.DataFrame] = []
    how, files = intact_organisations(durable, version)[0]
    for file in files:
        path = durable.local_path(file)
        found = pd.read_feather(path) if form == "arrow" else pd.read_parquet(path)
        tables.append(found)
    whole = tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=bool(version.about["default_index"]))
    if how is not None:
        whole = whole.sort_values(POSITION, ignore_index=bool(version.about["default_index"])).drop(columns=POSITION)
        if version.about.get("range_index") and whole.index.nlevels == 1:
            whole.index = range_index(whole.index.to_numpy()).rename(whole.index.name)
    return as_craton(whole)
