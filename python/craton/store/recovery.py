"""Rebuilds damaged or missing files of durable sets from the files of other replicas.

A file has the rows of one partition that were written together. All other replicas have the same rows, in other files; the rows are
found by the partitioning's keys, and by their positions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from craton import _native
from craton._native import CorruptSet
from craton.store.durable import DurableSet, Version
from craton.store.durable_files import POSITION, SetPartitioning, sync, write_partition

__all__ = ["rebuild"]

_File = Mapping[str, Any]


def rebuild(durable: DurableSet, version: Version, damaged: Mapping[str, str], threads: int | None = None) -> list[str]:
    """Rebuild files of a version. Programs can read the set meanwhile: they read another replica.

    Each file of another replica is read once for all lost files of a replica. Memory is needed for the rows of these.

    Parameters
    ----------
    damaged
        The names of the files, as :meth:`DurableSet.verify` returns them.
    threads
        The number of files that are read or rebuilt at once; by default one for each core.

    Returns
    -------
    list of str
        The paths of the files that were rebuilt.

    Raises
    ------
    CorruptSet
        If rows of a file are in no other file that is whole, or give other bytes than it had. The files that could be rebuilt are rebuilt.
    """
    whole = [file for file in version.files if file["name"] not in damaged]
    rebuilt: list[str] = []
    failed: list[str] = []
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        for number, how in enumerate(version.organisations or (None,)):
            lost = [_Lost(file) for file in version.files_of(number) if file["name"] in damaged]
            if how is not None:
                _collect(durable, version, lost, how, number, whole, pool)
            done = [one for one in lost if one.is_complete]
            failed += [one.file["name"] for one in lost if not one.is_complete]
            rebuilt += pool.map(lambda one, how=how: _write(durable, version, one, how), done)  # type: ignore[misc]
    if failed:
        raise CorruptSet(f"{durable!r}: rows of {failed[0]} are in no other file that is whole")
    return rebuilt


class _Lost:
    """A file that is rebuilt, and the rows of it that were found."""

    def __init__(self, file: _File) -> None:
        self.file = file
        self.part: int = file["about"].get("part", 0)
        pages = [pair for pair in file["about"]["bounds"].get(POSITION, ()) if pair is not None]
        self.first: int = min((low for low, _ in pages), default=0)
        self.last: int = max((high for _, high in pages), default=-1)
        self.rows: pa.Table | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all rows were found."""
        return self.rows is not None and len(self.rows) == self.file["rows"]

    def add(self, found: Sequence[pa.Table]) -> None:
        """Add rows; the same row from several replicas counts once."""
        every = [*found] if self.rows is None else [self.rows, *found]
        if not every:
            return
        rows = pa.concat_tables(every)
        one_replica = self.rows is None and len(rows) == self.file["rows"]
        self.rows = rows if one_replica else _distinct(rows)


def _collect(
    durable: DurableSet,
    version: Version,
    lost: Sequence[_Lost],
    how: SetPartitioning,
    number: int,
    whole: Sequence[dict[str, Any]],
    pool: ThreadPoolExecutor,
) -> None:
    """Find the rows of lost files of an organisation in the files of the others."""
    form = version.about["format"]
    for other in range(len(version.organisations)):
        wanted = [one for one in lost if not one.is_complete]
        if other == number or not wanted:
            continue
        files = [file for file in whole if file["about"].get("of", 0) == other]
        found: dict[int, list[pa.Table]] = {}
        for parts in pool.map(lambda file, wanted=wanted: _rows_of(durable, file, how, wanted, form), files):  # type: ignore[misc]
            for place, table in parts:
                found.setdefault(place, []).append(table)
        for place, one in enumerate(wanted):
            if not one.file["rows"] and files:
                one.rows = _schema(durable, files[0], form).empty_table()
            else:
                one.add(found.get(place, []))


def _write(durable: DurableSet, version: Version, lost: _Lost, how: SetPartitioning | None) -> str:
    """Write a file from its rows, and put it in place."""
    target = durable.path(dict(lost.file))
    rows = lost.rows
    assert how is not None
    assert rows is not None

    def replace(path: str) -> None:
        written = write_partition(rows, rows.schema, how, lost.part, path, version.about["format"])
        if written.checksum != lost.file["checksum"]:
            raise CorruptSet(
                f"{target}: its rows give another file now; another version of Arrow wrote it. Save the set again."
            )
        _put_in_place(path, target)

    durable.with_file(os.path.splitext(target)[1][1:], replace)
    return target


def _rows_of(
    durable: DurableSet, file: _File, how: SetPartitioning, lost: Sequence[_Lost], form: str
) -> list[tuple[int, pa.Table]]:
    """The rows of a file that belong to lost files: the place of the lost file among them, and the rows."""
    pages = [pair for pair in file["about"]["bounds"][POSITION] if pair is not None]
    near = [
        place for place, one in enumerate(lost) if any(low <= one.last and high >= one.first for low, high in pages)
    ]
    if not near:
        return []
    path = durable.path(dict(file))
    table = pq.read_table(path) if form == "parquet" else pa.ipc.open_file(pa.memory_map(path)).read_all()
    parts = _parts_of(table, how)
    found = []
    for place in near:
        one = lost[place]
        chosen = pa.table(parts[one.part])["row"] if parts is not None else None
        position = table[POSITION] if chosen is None else table[POSITION].take(chosen)
        inside = pc.and_(pc.greater_equal(position, one.first), pc.less_equal(position, one.last))
        rows = table.filter(inside) if chosen is None else table.take(chosen.filter(inside))
        if len(rows):
            found.append((place, rows))
    return found


def _parts_of(table: pa.Table, how: SetPartitioning) -> list[Any] | None:
    """The numbers of the rows of each partition; None if the partitions are of rows in order."""
    if how.kind == "rows":
        return None
    keys = table.select(list(how.by)).append_column("row", pa.array(np.arange(len(table), dtype=np.uint32)))
    if how.kind == "hash":
        return list(_native.partition(keys, list(how.by), how.parts))
    assert how.keys is not None
    return list(_native.partition_by_ranges(keys, list(how.by), how.keys.combine_chunks()))


def _distinct(table: pa.Table) -> pa.Table:
    """The rows with different positions; several replicas may have given the same row."""
    order = pc.sort_indices(table[POSITION])
    positions = table[POSITION].take(order).to_numpy()
    first = np.append(True, positions[1:] != positions[:-1])[: len(positions)]
    return table.take(order.filter(pa.array(first)))


def _schema(durable: DurableSet, file: _File, form: str) -> pa.Schema:
    path = durable.path(dict(file))
    return pq.read_schema(path) if form == "parquet" else pa.ipc.open_file(pa.memory_map(path)).schema


def _put_in_place(path: str, target: str) -> None:
    """Give a file that is synced the name of another one, durably."""
    os.replace(path, target)
    sync(os.path.dirname(target))
