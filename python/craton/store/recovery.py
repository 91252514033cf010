"""Rebuilds damaged or missing files of durable sets from the files of other replicas.

A file has the rows of one partition that were written together. All other replicas have the same rows, in other files; the rows are
found by the partitioning's keys, and by their positions.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from craton._native import CorruptSet
from craton.store.durable import DurableSet, Version
from craton.store.durable_files import IN_ORDER, POSITION, SetPartitioning, put_in_place, without_rows, write_partition
from craton.store.places import COLLIDING, Colliding, parts_of

__all__ = ["rebuild"]

_File = Mapping[str, Any]


def rebuild(
    durable: DurableSet,
    version: Version,
    damaged: Mapping[str, str],
    threads: int | None = None,
    only: int | None = None,
) -> list[str]:
    """Rebuild files of a version. Programs can read the set meanwhile: they read another replica.

    Each file of another replica is read once for all lost files of a replica. Memory is needed for the rows of these.

    Parameters
    ----------
    damaged
        The names of the files, as :meth:`DurableSet.verify` returns them.
    threads
        The number of files that are read or rebuilt at once; by default one for each core.
    only
        The number of the organisation whose files are rebuilt; by default those of all.

    Returns
    -------
    list of str
        The paths, or URLs, of the files that were rebuilt.

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
            if only not in (None, number):
                continue
            if how is not None:
                _collect(durable, version, lost, how, number, whole, pool)
            done = [one for one in lost if one.is_complete]
            whole += [dict(one.file) for one in done]
            failed += [one.file["name"] for one in lost if not one.is_complete]
            rebuilt += pool.map(lambda one, how=how: _write(durable, version, one, how), done)  # type: ignore[misc]
        lost = [_Lost(file) for file in version.files_of(COLLIDING) if file["name"] in damaged and only is None]
        _collect_colliding(durable, version, lost, whole, pool)
        failed += [one.file["name"] for one in lost if not one.is_complete]
        rebuilt += pool.map(
            lambda one: _write(durable, version, one, IN_ORDER), [one for one in lost if one.is_complete]
        )
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
        self._positions: np.ndarray[Any, Any] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all rows were found."""
        return self.rows is not None and len(self.rows) == self.file["rows"]

    def lacks(self, position: pa.ChunkedArray) -> pa.Array:
        """Which rows are in the file and were not found yet, by their positions."""
        positions = position.to_numpy()
        wanted = (positions >= self.first) & (positions <= self.last)
        if self._positions is not None and len(self._positions):
            places = np.minimum(np.searchsorted(self._positions, positions), len(self._positions) - 1)
            wanted &= self._positions[places] != positions
        return pa.array(wanted)

    def add(self, found: Sequence[pa.Table]) -> None:
        """Add rows that the file lacks; the same row from several files counts once."""
        # Tables without rows may be of other writers, whose files have other metadata.
        every = [table for table in (self.rows, *found) if table is not None and len(table)]
        if not every:
            return
        rows = pa.concat_tables(every)
        positions = rows[POSITION].to_numpy()
        self._positions = np.unique(positions)
        if len(self._positions) < len(positions):
            rows = rows.take(pa.array(np.unique(positions, return_index=True)[1]))
        self.rows = rows


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
    for other in (*range(len(version.organisations)), COLLIDING):
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
                like = [file for file in files if file["about"]["schema"] == one.file["about"]["schema"]]
                one.rows = without_rows(_read(durable, (like or files)[0], form))
            else:
                one.add(found.get(place, []))


def _collect_colliding(
    durable: DurableSet,
    version: Version,
    lost: Sequence[_Lost],
    whole: Sequence[dict[str, Any]],
    pool: ThreadPoolExecutor,
) -> None:
    """Find the rows of lost files of colliding rows in an organisation that is complete."""
    places, known = version.places, {file["name"] for file in whole}
    organisations = map(version.files_of, range(len(version.organisations)))
    files = next((files for files in organisations if {file["name"] for file in files} <= known), ())
    if not lost or places is None or not files:
        return
    for one in lost:
        if not one.file["rows"]:
            one.rows = without_rows(_read(durable, files[0], version.about["format"]))
    colliding = Colliding(places, version.organisations, version.files)

    def read(file: dict[str, Any]) -> list[tuple[_Lost, pa.Table]]:
        table = _read(durable, file, version.about["format"])
        found = []
        for place, rows in colliding.of(table):
            for one in (one for one in lost if one.part == place):
                wanted = one.lacks(table[POSITION].take(rows))
                found.append((one, table.take(rows.filter(wanted))))
        return found

    for parts in pool.map(read, files):
        for one, rows in parts:
            one.add([rows])


def _write(durable: DurableSet, version: Version, lost: _Lost, how: SetPartitioning | None) -> str:
    """Write a file from its rows, and put it in place."""
    target = durable.path(lost.file)
    rows = lost.rows
    assert how is not None
    assert rows is not None

    def replace(path: str) -> None:
        linked = _linked(path, target)
        try:
            written = write_partition(rows, rows.schema, how, lost.part, path, version.about["format"])
            if written.checksum != lost.file["checksum"]:
                raise CorruptSet(
                    f"{target}: its rows give another file now; another version of Arrow wrote it. Save the set again."
                )
            if linked is None:
                durable.replace(lost.file, path)
            else:
                put_in_place(linked, os.readlink(target))
        finally:
            if linked is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(linked)

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
    table = _read(durable, file, form)
    parts = parts_of(table, how)
    found = []
    for place in near:
        one = lost[place]
        chosen = pa.table(parts[one.part])["row"] if parts is not None else None
        wanted = one.lacks(table[POSITION] if chosen is None else table[POSITION].take(chosen))
        rows = table.filter(wanted) if chosen is None else table.take(chosen.filter(wanted))
        if len(rows):
            found.append((place, rows))
    return found


def _read(durable: DurableSet, file: _File, form: str) -> pa.Table:
    path = durable.local_path(file)
    return pq.read_table(path) if form == "parquet" else pa.ipc.open_file(pa.memory_map(path)).read_all()


def _linked(path: str, target: str) -> str | None:
    """Make a path a link to a new file in the place of a damaged one; returns that file, or None if the place is gone.

    A file whose place is gone is rebuilt in the set's own folder.
    """
    if not os.path.islink(target):
        return None
    folder = os.path.dirname(os.readlink(target))
    new = os.path.join(folder, os.path.basename(path))
    try:
        os.makedirs(folder, exist_ok=True)
        with open(new, "wb"):
            pass
    except OSError:
        return None
    os.symlink(new, path)
    return new
