"""Durable sets of frames: ``craton.save``, ``craton.read_set``, ``craton.drop_set`` and ``craton.catalog``."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from craton.pandas.core.counterparts import as_craton
from craton.pandas.io.set_keys import boundaries_of, check_keys, parts_for
from craton.pandas.io.set_scans import frame_of, schema_as_text
from craton.store.durable import DurableSet, Version, every_set
from craton.store.durable_files import (
    POSITION,
    Format,
    SetPartitioning,
    WrittenFile,
    describe_file,
    write_file,
    write_partitions,
)
from craton.store.process import default_store
from craton.store.sets import as_batches

__all__ = ["catalog", "drop_set", "read_set", "save"]

_MODES = ("error", "overwrite", "append")
#: The extension of the files of each format.
_EXTENSIONS: dict[Format, str] = {"arrow": "arrow", "parquet": "parquet"}

_Batches = Callable[[], Iterator[pa.RecordBatch]]


def save(
    name: str,
    frame: Any,
    *,
    mode: Literal["error", "overwrite", "append"] = "error",
    partition_by: str | Sequence[str] | None = None,
    replicate_by: Sequence[str | Sequence[str]] | None = None,
    kind: Literal["hash", "range"] = "hash",
    partitions: int | None = None,
    format: Format = "arrow",
    evolve: bool = False,
) -> int:
    """Save a table as a durable set, from which every program can read it by name (:func:`read_set`).

    The set is below ``craton.options.data``. When this returns, the rows survive crashes of the process and of the machine; before that,
    and after an error, nothing has changed. Other programs that read the set meanwhile see the version before.

    Parameters
    ----------
    name
        The name of the set, or ``database.name``.
    frame
        A frame of Craton or pandas, or a table of Arrow or Polars. A plan is computed while it is written.
    mode
        What happens if there is a set of this name: ``error``, ``overwrite``: a new version has the new rows instead, ``append``: after the
        rows of the newest version, which must have the same columns.
    partition_by
        Columns by which rows are distributed over files, so that joins and group-bys by them move no rows. The set keeps the order of the
        rows. Appended rows are distributed as those before.
    replicate_by
        Columns of replicas: for each item, all rows are stored once more, distributed by these columns. Plans read the replica that suits
        them best, and a damaged file is rebuilt from another replica.
    kind
        ``hash``: by a hash of the columns. ``range``: by ranges of the first of them, within which the rows are sorted, so that filters
        by it read few files.
    partitions
        The number of partitions; by default it depends on the size.
    format
        ``arrow`` files, or ``parquet`` files, which are smaller and slower to read.
    evolve
        Whether appended rows may have other columns: missing ones, more, or columns of a wider type. They are read as ``pandas.concat``
        joins them.

    Returns
    -------
    int
        The number of the new version.

    Raises
    ------
    FileExistsError
        If there is a set of this name, and the mode is ``error``.
    KeyError
        If a column of ``partition_by`` is missing.
    ValueError
        If the name or a parameter is not valid, or the rows cannot be appended because their columns differ.
    TypeError
        If ``frame`` is no table.
    craton.store.SetConflict
        If another program has changed the set meanwhile.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is one of {_MODES}, not {mode!r}")
    if format not in _EXTENSIONS:
        raise ValueError(f"format is one of {tuple(_EXTENSIONS)}, not {format!r}")
    durable = DurableSet(name)
    before = durable.current()
    if before is not None and mode == "error":
        raise FileExistsError(
            f"there is a set {durable.database}.{durable.name} already; pass mode='overwrite' or 'append'"
        )
    base = before if mode == "append" else None
    table = _table(frame)
    about = _about(table)
    wanted = [[keys] if isinstance(keys, str) else list(keys) for keys in (partition_by or (), *(replicate_by or ()))]
    if base is not None:
        _check_appended(base, about, wanted, evolve)
        about["columns"] = _merged(base.about["columns"], about["columns"])
    else:
        for keys in wanted if wanted != [[]] else ():
            check_keys(keys, kind, partitions, table)
    about["schemas"] = [] if base is None else list(base.about["schemas"])
    about["format"] = form = format if base is None else base.about["format"]
    known = () if base is None else base.organisations
    about["organisations"] = [how.as_json() for how in known]

    def write(next_path: Callable[[], str]) -> Iterator[WrittenFile]:
        in_order = wanted == [[]] and not known
        if in_order and form == "arrow" and _is_planned(table):
            path = next_path()
            table.to_feather(path, compression="uncompressed")
            if (schema := _streamed_schema(path)) is not None:
                yield _numbered(describe_file(path), schema, about, 0)
                return
        with _arrow_of(table, labels=not in_order and not about["default_index"]) as (schema, batches):
            _check_format(form, schema)
            if in_order:
                path = next_path()
                write_file(path, pa.Table.from_batches(batches(), schema), schema, form)
                yield _numbered(describe_file(path, form), schema, about, 0)
                return
            chosen = known or tuple(_partitioning(keys, kind, partitions, batches, schema) for keys in wanted)
            about["organisations"] = [how.as_json() for how in chosen]
            first = 0 if base is None else base.rows
            stored = schema.append(pa.field(POSITION, pa.int64(), nullable=False))
            for number, how in enumerate(chosen):
                for file in write_partitions(default_store(), batches(), stored, how, next_path, first, form):
                    yield _numbered(file, stored, about, number)

    return durable.publish(write, about, before, () if base is None else base.files, _EXTENSIONS[form]).number


def _numbered(file: WrittenFile, schema: pa.Schema, about: dict[str, Any], of: int) -> WrittenFile:
    """A file with the number of its schema among those of the version, to which it is added, and the number of its organisation."""
    schemas, text = about["schemas"], schema_as_text(schema)
    if text not in schemas:
        schemas.append(text)
    return WrittenFile(file.path, file.rows, {**file.about, "schema": schemas.index(text), "of": of})


def _streamed_schema(path: str) -> pa.Schema | None:
    """The schema of a file that a plan was written to; None if it must be written anew, since it has categories or no page."""
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        if not reader.num_record_batches or any(pa.types.is_dictionary(field.type) for field in reader.schema):
            return None
        return reader.schema


def _partitioning(
    keys: list[str],
    kind: Literal["hash", "range"],
    partitions: int | None,
    batches: _Batches,
    schema: pa.Schema,
) -> SetPartitioning:
    count = partitions or parts_for(sum(batch.nbytes for batch in batches()))
    if not keys:
        return SetPartitioning((), "rows", count)
    if kind == "hash":
        return SetPartitioning(tuple(keys), kind, count)
    return SetPartitioning.by_ranges(boundaries_of(batches(), schema, keys, count))


@contextlib.contextmanager
def _arrow_of(table: Any, labels: bool) -> Iterator[tuple[pa.Schema, _Batches]]:
    """The columns of a table with pandas' metadata, and a function that returns its batches. A plan is computed into a temporary file.

    Parameters
    ----------
    labels
        Whether the row labels become a column, also if they are a range.
    """
    if not isinstance(table, pa.Table) and not labels and _is_planned(table):
        with tempfile.TemporaryDirectory(prefix="craton-save-") as folder:
            path = os.path.join(folder, "rows")
            table.to_feather(path, compression="uncompressed")
            with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
                found = [reader.get_batch(i) for i in range(reader.num_record_batches)]
                yield reader.schema, lambda: iter(found)
                del found
        return
    if not isinstance(table, pa.Table):
        table = pa.Table.from_pandas(pd.DataFrame(table), preserve_index=True if labels else None)
    yield table.schema, lambda: iter(as_batches(table))


def read_set(name: str, *, version: int | None = None, columns: list[str] | None = None) -> Any:
    """Read a durable set as a lazy frame.

    Parameters
    ----------
    name
        The name of the set, or ``database.name``.
    version
        The number of the version; by default the newest. The frame stays with this version, whatever is written later.
    columns
        The columns to read, all by default.

    Raises
    ------
    FileNotFoundError
        If there is no such set or version.
    KeyError
        If a column is missing.
    """
    durable = DurableSet(name)
    frame = frame_of(durable, durable.version(version))
    return frame if columns is None else frame[list(columns)]


def drop_set(name: str) -> None:
    """Drop a durable set with all of its versions. Frames that were read from it stay readable as long as they keep its files open.

    Raises
    ------
    FileNotFoundError
        If there is no such set.
    """
    durable = DurableSet(name)
    if not durable.drop():
        raise FileNotFoundError(f"no set {durable.database}.{durable.name}")


def catalog() -> Any:
    """The durable sets below ``craton.options.data``.

    Returns
    -------
    DataFrame
        One row for each set: ``database``, ``name``, ``version``, ``versions`` (their number), ``rows``, ``nbytes``, ``files``, ``columns``
        (their number), ``format``, ``partitioned_by`` (such as ``hash(k), 8``, for each replica), and ``time`` (UTC) of the newest version.
    """
    rows = []
    for durable in every_set():
        version = durable.version()
        rows.append(
            {
                "database": durable.database,
                "name": durable.name,
                "version": version.number,
                "versions": len(durable.versions()),
                "rows": version.rows,
                "nbytes": version.nbytes,
                "files": len(version.files),
                "columns": len(version.about.get("columns", ())),
                "format": version.about.get("format", ""),
                "partitioned_by": "; ".join(map(str, version.organisations)),
                "time": pd.Timestamp(version.time, unit="ms", tz="UTC"),
            }
        )
    names = ["database", "name", "version", "versions", "rows", "nbytes", "files", "columns"]
    return as_craton(pd.DataFrame(rows, columns=[*names, "format", "partitioned_by", "time"]))


def _is_planned(table: pd.DataFrame) -> bool:
    return hasattr(table, "_evaluate")


def _table(frame: Any) -> Any:
    """A frame, or an Arrow table."""
    if isinstance(frame, pd.DataFrame):
        return frame
    if hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pd.Series):
        return pa.table(frame)
    raise TypeError(f"a set is saved from a table, not from {type(frame).__name__}")


def _about(table: Any) -> dict[str, Any]:
    labels = table.column_names if isinstance(table, pa.Table) else list(table.columns)
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) != len(labels):
        raise ValueError("the columns of a set have different texts as labels")
    if POSITION in labels:
        raise ValueError(f"a column of a set cannot have the name {POSITION!r}")
    if isinstance(table, pa.Table):
        return {"columns": [[field.name, str(field.type)] for field in table.schema], "default_index": True}
    default = isinstance(table.index, pd.RangeIndex) and (table.index.start, table.index.step) == (0, 1)
    columns = [[label, _described(dtype)] for label, dtype in table.dtypes.items()]
    levels = [] if default else list(enumerate(table.index.names))
    named = [[str(name), _described(table.index.get_level_values(i).dtype)] for i, name in levels]
    return {"columns": columns, "default_index": default, "labels": named}


def _described(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {dtype.categories.tolist()!r}{', ordered' if dtype.ordered else ''}"
    return str(dtype)


def _check_format(form: Format, schema: pa.Schema) -> None:
    if form == "parquet" and (odd := [field.name for field in schema if pa.types.is_dictionary(field.type)]):
        raise ValueError(
            f"column {odd[0]!r} has categories, which sets of Parquet files cannot have; use format='arrow'"
        )


def _check_appended(before: Version, about: dict[str, Any], wanted: list[list[str]], evolve: bool) -> None:
    """Refuse to append rows whose columns or labels do not fit to those of a version.

    Raises
    ------
    ValueError
        If they do not.
    """
    if wanted != [[]] and wanted != [list(how.by) for how in before.organisations]:
        raise ValueError(f"version {before.number} is {_organised(before)}")
    if about["default_index"] != before.about["default_index"]:
        raise ValueError(
            f"the row labels differ from those of version {before.number}: one of the two has a default index"
        )
    if evolve and before.organisations:
        raise ValueError(f"the columns of a partitioned set cannot change; overwrite {before.number} instead")
    for what in ("columns", "labels"):
        ours, theirs = about.get(what, []), before.about.get(what, [])
        if ours == theirs:
            continue
        odd = [one for one in ours if one not in theirs] or [one for one in theirs if one not in ours] or ours
        if not evolve or what == "labels":
            raise ValueError(
                f"the {what} differ from those of version {before.number}, for example {odd[0][0]!r} of {odd[0][1]}"
            )
        known = dict(theirs)
        for name, dtype in ours:
            if name in known and _family(dtype) != _family(known[name]):
                raise ValueError(f"column {name!r} of {known[name]} cannot be continued with {dtype}")


def _organised(version: Version) -> str:
    return (
        f"partitioned by {'; '.join(map(str, version.organisations))}" if version.organisations else "not partitioned"
    )


def _family(dtype: str) -> str:
    """The first word of a dtype, which columns that are continued share; one for all numbers."""
    word = dtype.lower().split("[")[0].rstrip("0123456789")
    return (
        "number"
        if word in ("int", "uint", "float", "double", "halffloat")
        else dtype
        if word == "category of "
        else word
    )


def _merged(before: list[list[str]], ours: list[list[str]]) -> list[list[str]]:
    """The columns of a set after rows with other columns were appended."""
    known = {name for name, _ in before}
    return [*before, *(column for column in ours if column[0] not in known)]
