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
from craton.pandas.io.sets.scans import frame_of
from craton.pandas.io.sets.writing import EXTENSIONS, SetWriting, as_table
from craton.store.durable import DurableSet, every_set
from craton.store.durable_files import Format
from craton.store.places import Places

__all__ = ["catalog", "drop_set", "open_set", "read_set", "save"]

_MODES = ("error", "overwrite", "append")


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
    losses: int = 0,
) -> int:
    """Save a table as a durable set, from which every program can read it by name (:func:`read_set`).

    The set is below ``craton.options.data``, a folder or a URL in an object store. When this returns, the rows survive crashes of the
    process and of the machine; before that, and after an error, nothing has changed. Other programs that read the set meanwhile see the
    version before.

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
    losses
        How many of the places of ``craton.options.data_places`` may be lost at the same time without loss of rows; 0: the files are in
        the set's own folder. The partitions of each replica are spread over all places. Rows of which too few copies are in different
        places are stored once more. Appended rows are spread as those before. Must be 0 in an object store.

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
    craton.store.UnknownOutcome
        If the connection to an object store was lost, so that it is not known whether the version was published. It is an ``OSError``.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is one of {_MODES}, not {mode!r}")
    if format not in EXTENSIONS:
        raise ValueError(f"format is one of {tuple(EXTENSIONS)}, not {format!r}")
    durable = DurableSet(name)
    before = durable.current()
    if before is not None and mode == "error":
        raise FileExistsError(
            f"there is a set {durable.database}.{durable.name} already; pass mode='overwrite' or 'append'"
        )
    table = as_table(frame)
    wanted = [[keys] if isinstance(keys, str) else list(keys) for keys in (partition_by or (), *(replicate_by or ()))]
    if before is not None and mode == "append":
        writing = SetWriting.appended(before, table, wanted, evolve, durable.places(before))
    else:
        places = None if losses == 0 else Places.new(durable.database, durable.name, losses)
        writing = SetWriting.new(table, format, wanted, kind, partitions, places)
    extension = EXTENSIONS[writing.form]
    return durable.publish(writing.write, writing.about, before, writing.kept, extension, writing.places).number


@contextlib.contextmanager
def open_set(name: str, **options: Any) -> Iterator[Callable[[Any], None]]:
    """Write a durable set part by part. The version is published at the end of the ``with`` block; after an error nothing has changed.

    Parameters
    ----------
    name, **options
        As for :func:`save`.

    Yields
    ------
    callable
        Adds the rows of a table; all tables have the columns of the first one, without row labels. They are on disk until the end of the
        block, so they need not fit into memory together.

    Raises
    ------
    ValueError
        If a table has other columns than the first one, or as for :func:`save`.

    Examples
    --------
    >>> import craton, pandas, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, craton.option_context(data=folder):
    ...     with craton.open_set("numbers") as add:
    ...         for start in (0, 3):
    ...             add(pandas.DataFrame({"n": range(start, start + 3)}))
    ...     int(craton.read_set("numbers")["n"].sum())
    15
    """
    with tempfile.TemporaryDirectory(prefix="craton-set-") as folder:
        path = os.path.join(folder, "rows")
        parts = _Parts(path)
        try:
            yield parts.add
        finally:
            parts.close()
        if parts.schema is None:
            raise ValueError("a set is made of at least one table, which may have no rows")
        with pa.memory_map(path) as file:
            save(name, pa.ipc.open_file(file).read_all(), **options)


class _Parts:
    """Writes tables of the same columns to one Arrow file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: Any = None
        self.schema: pa.Schema | None = None

    def add(self, rows: Any) -> None:
        """Add the rows of a table."""
        table = as_table(rows)
        if not isinstance(table, pa.Table):
            table = pa.Table.from_pandas(pd.DataFrame(table), preserve_index=False).replace_schema_metadata(None)
        if self.schema is None:
            self.schema = table.schema
            self._writer = pa.ipc.new_file(self._path, table.schema)
        elif not table.schema.equals(self.schema):
            raise ValueError(
                f"the columns are {table.schema.to_string()}, those of the first table {self.schema.to_string()}"
            )
        self._writer.write_table(table)

    def close(self) -> None:
        """Complete the file."""
        if self._writer is not None:
            self._writer.close()


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
