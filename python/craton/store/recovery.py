"""Rebuilds damaged or missing files of durable sets from the files of other replicas.

A file has the rows of one partition that were written together. All other replicas have the same rows, in other files; the rows are
found by the partitioning's keys, and by their positions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from craton import _native
from craton._native import CorruptSet
from craton.store.durable import DurableSet, Version
from craton.store.durable_files import POSITION, SetPartitioning, write_partition

__all__ = ["rebuild"]

_File = Mapping[str, Any]


def rebuild(durable: DurableSet, version: Version, damaged: Mapping[str, str], threads: int | None = None) -> list[str]:
    """Rebuild files of a version. Programs can read the set meanwhile: they read another replica.

    Parameters
    ----------
    damaged
        The names of the files, as :meth:`DurableSet.verify` returns them.
    threads
        The number of files that are rebuilt at once; by default one for each core.

    Returns
    -------
    list of str
        The paths of the files that were rebuilt.

    Raises
    ------
    CorruptSet
        If rows of a file are in no other file that is whole, or give other bytes than it had. The files that could be rebuilt are rebuilt.
    """
    lost = [file for file in version.files if file["name"] in damaged]
    whole = [file for file in version.files if file["name"] not in damaged]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        done = list(pool.map(lambda file: _rebuilt(durable, version, file, whole), lost))
    failed = [file["name"] for file, path in zip(lost, done, strict=True) if path is None]
    if failed:
        raise CorruptSet(f"{durable!r}: rows of {failed[0]} are in no other file that is whole")
    return [path for path in done if path is not None]


def _rebuilt(durable: DurableSet, version: Version, file: _File, whole: list[dict[str, Any]]) -> str | None:
    """Rebuild one file; None if rows of it are missing in the others."""
    about = file["about"]
    if not version.organisations:
        return None
    how = version.organisations[about.get("of", 0)]
    pages = [pair for pair in about["bounds"][POSITION] if pair is not None]
    between = (min(low for low, _ in pages), max(high for _, high in pages)) if pages else (0, -1)
    form = version.about["format"]
    rows: pa.Table | None = None
    for number in range(len(version.organisations)):
        if number == about.get("of", 0):
            continue
        others = [one for one in whole if one["about"].get("of", 0) == number]
        found = [part for one in others for part in _rows_of(durable, one, how, about["part"], between, form)]
        some = pa.concat_tables(found if rows is None else [rows, *found]) if found or rows is not None else None
        rows = None if some is None else _distinct(some)
        if rows is not None and len(rows) == file["rows"]:
            break
    if rows is None and not file["rows"] and whole:
        rows = _schema(durable, whole[0], form).empty_table()
    if rows is None or len(rows) != file["rows"]:
        return None
    target = durable.path(dict(file))

    def replace(path: str) -> None:
        written = write_partition(rows, rows.schema, how, about["part"], path, form)
        if written.checksum != file["checksum"]:
            raise CorruptSet(
                f"{target}: its rows give another file now; another version of Arrow wrote it. Save the set again."
            )
        _put_in_place(path, target)

    durable.with_file(os.path.splitext(target)[1][1:], replace)
    return target


def _rows_of(
    durable: DurableSet, file: _File, how: SetPartitioning, part: int, between: tuple[int, int], form: str
) -> Iterator[pa.Table]:
    """The rows of a file that belong to a partition, and whose positions are in a range."""
    pages = file["about"]["bounds"][POSITION]
    if not any(pair is not None and pair[0] <= between[1] and pair[1] >= between[0] for pair in pages):
        return
    path = durable.path(dict(file))
    table = pq.read_table(path) if form == "parquet" else pa.ipc.open_file(pa.memory_map(path)).read_all()
    position = table[POSITION]
    table = table.filter(pc.and_(pc.greater_equal(position, between[0]), pc.less_equal(position, between[1])))
    if how.kind == "rows" or not len(table):
        yield table
        return
    keys = table.select(list(how.by)).append_column("row", pa.array(range(len(table)), pa.uint32()))
    if how.kind == "hash":
        parts = _native.partition(keys, list(how.by), how.parts)
    else:
        assert how.keys is not None
        parts = _native.partition_by_ranges(keys, list(how.by), how.keys.combine_chunks())
    chosen = pa.table(parts[part])["row"]
    if len(chosen):
        yield table.take(chosen)


def _distinct(table: pa.Table) -> pa.Table:
    """The rows with different positions; several replicas may have given the same row."""
    order = pc.sort_indices(table[POSITION])
    positions = table[POSITION].take(order).to_numpy()
    first = [True, *(positions[1:] != positions[:-1])] if len(positions) else []
    return table.take(order.filter(pa.array(first, pa.bool_())))


def _schema(durable: DurableSet, file: _File, form: str) -> pa.Schema:
    path = durable.path(dict(file))
    return pq.read_schema(path) if form == "parquet" else pa.ipc.open_file(pa.memory_map(path)).schema


def _put_in_place(path: str, target: str) -> None:
    """Give a file that is synced the name of another one, durably."""
    os.replace(path, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
