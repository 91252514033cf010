"""Rebuilds damaged or missing files of durable sets from the files of other replicas.

A file has the rows of one partition that were written together. All other replicas have the same rows, in other files; the rows are
found by the partitioning's keys, and by their positions. Of a page of another replica only these columns are read at first, and the others
only for the rows that were found. Pages are skipped if their bounds show that they have no rows of a lost file.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from craton import events
from craton._native import CorruptSet
from craton.config import options
from craton.records import dataclass
from craton.store.durable import DurableSet, Version
from craton.store.durable_files import (
    IN_ORDER,
    POSITION,
    put_in_place,
    sorted_rows,
    without_rows,
    write_file,
)
from craton.store.places import COLLIDING, Colliding, part_numbers

__all__ = ["RebuiltFile", "missing_files", "rebuild"]

_File = Mapping[str, Any]
_Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class RebuiltFile:
    """A file that was rebuilt.

    Parameters
    ----------
    path
        Its path in the set's folder.
    rows
        Its number of rows.
    seconds
        The time since the search for its rows began.
    number, total
        Which one it is of how many that are rebuilt, from 1.
    """

    path: str
    rows: int
    seconds: float
    number: int
    total: int


def rebuild(
    durable: DurableSet,
    version: Version,
    damaged: Mapping[str, str],
    threads: int | None = None,
    only: int | None = None,
    report: Callable[[RebuiltFile], None] | None = None,
    gone: Collection[str] = (),
) -> list[str]:
    """Rebuild files of a version. Programs can read the set meanwhile: they read another replica.

    Each file of another replica is read once for several lost files, as many as have a quarter of ``craton.options.memory_limit`` together.
    Each rebuilt file is an event ``rebuilt`` (:mod:`craton.events`).

    Parameters
    ----------
    damaged
        The names of the files, as :meth:`DurableSet.verify` returns them.
    threads
        The number of files that are read or rebuilt at once; by default one for each core.
    only
        The number of the organisation whose files are rebuilt; by default those of all.
    report
        Called with each file when it is rebuilt, in this thread.
    gone
        Folders of places that must not be touched: their files, which are among the damaged ones, are rebuilt in the set's own folder.

    Returns
    -------
    list of str
        The paths, or URLs, of the files that were rebuilt.

    Raises
    ------
    CorruptSet
        If rows of a file are in no other file that is whole, or give other bytes than it had. The files that could be rebuilt are rebuilt.
    OSError
        If a file cannot be written. The others are rebuilt.
    """
    chosen = range(max(len(version.organisations), 1)) if only is None else [only]
    lost = [_Lost(file, number) for number in chosen for file in version.files_of(number) if file["name"] in damaged]
    colliding = [
        _Lost(file, COLLIDING) for file in version.files_of(COLLIDING) if file["name"] in damaged and only is None
    ]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        work = _Rebuilding(durable, version, damaged, pool, gone, len(lost) + len(colliding), report)
        for group in _groups(lost, options.memory_limit // 4):
            work.finish()
            work.collect(group)
            work.write(group)
        for group in _groups(colliding, options.memory_limit // 4):
            work.collect_colliding(group)
            work.write(group)
            work.finish()
            rest = [one for one in group if not one.is_found]
            work.collect_colliding(rest)  # in files that were rebuilt meanwhile
            work.write(rest)
        work.finish()
    if failed := [one for one in (*lost, *colliding) if not one.is_found]:
        raise CorruptSet(f"{durable!r}: rows of {failed[0].file['name']} are in no other file that is whole")
    if work.errors:
        raise work.errors[0]
    return work.rebuilt


def missing_files(durable: DurableSet, version: Version, gone: Collection[str] = ()) -> dict[str, str]:
    """The files of a version that are not there or have another length, with the reason; those in folders ``gone`` are not looked at."""
    unseen = {
        file["name"] for file in version.files if gone and os.path.dirname(_link(durable.path(file)) or "") in gone
    }
    missing = durable.lost(file for file in version.files if file["name"] not in unseen)
    return dict.fromkeys(unseen, "its place does not answer") | dict.fromkeys(
        missing, "it is missing, or has another length"
    )


def _groups(lost: Sequence[_Lost], most: int) -> Iterator[list[_Lost]]:
    """Neighbouring files of at most some bytes together, or one that has more."""
    group: list[_Lost] = []
    for one in lost:
        if group and sum(other.file["bytes"] for other in (*group, one)) > most:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


class _Lost:
    """A file that is rebuilt, and the rows of it that were found."""

    def __init__(self, file: _File, organisation: int) -> None:
        self.file = file
        self.organisation = organisation
        self.part: int = file["about"].get("part", 0)
        self.bounds = _bounds_of(file)
        self.first, self.last = self.bounds.get(POSITION, (0, -1))
        self.began = time.perf_counter()
        self.rows: pa.Table | None = None
        self.is_written = False
        #: The numbers of the rows in the order of their positions; None if they are in order.
        self.order: np.ndarray[Any, Any] | None = None
        self._positions: _Positions | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all rows were found, and are in memory."""
        return self.rows is not None and len(self.rows) == self.file["rows"]

    @property
    def is_found(self) -> bool:
        """Whether all rows were found."""
        return self.is_written or self.is_complete

    def lacking(self, positions: _Positions, rows: _Positions) -> _Positions:
        """Those of some rows that are within the file's range and were not found yet, by the positions of all rows."""
        chosen = positions[rows]
        wanted = (chosen >= self.first) & (chosen <= self.last)
        if self._positions is not None and len(self._positions):
            places = np.minimum(np.searchsorted(self._positions, chosen), len(self._positions) - 1)
            wanted &= self._positions[places] != chosen
        return rows[wanted]

    def narrow(self, first: int, last: int) -> None:
        """Note that the rows that were not found yet have positions within a range."""
        self.first, self.last = max(self.first, first), min(self.last, last)
        self.bounds[POSITION] = self.first, self.last

    def add(self, found: Sequence[pa.Table]) -> None:
        """Add rows that the file lacks; the same row from several files counts once."""
        # Tables without rows may be of other writers, whose files have other metadata.
        every = [table for table in (self.rows, *found) if table is not None and len(table)]
        if not every:
            return
        rows = pa.concat_tables(every)
        positions = rows[POSITION].to_numpy()
        self.order = None
        if not (positions[1:] > positions[:-1]).all():
            self.order = np.argsort(positions, kind="stable")
            positions = positions[self.order]
            distinct = np.append(True, positions[1:] != positions[:-1])
            if not distinct.all():
                rows, positions = rows.take(pa.array(self.order[distinct])), positions[distinct]
                self.order = None
        self.rows, self._positions = rows, positions

    def written(self) -> None:
        """Forget the rows, which are in the file now."""
        self.rows, self.order, self._positions, self.is_written = None, None, None, True


class _Rebuilding:
    """Finds the rows of lost files in those that are whole, and writes them.

    Attributes
    ----------
    rebuilt
        The paths of the files that were written.
    errors
        Why others were not written.
    """

    def __init__(
        self,
        durable: DurableSet,
        version: Version,
        damaged: Mapping[str, str],
        pool: ThreadPoolExecutor,
        gone: Collection[str],
        total: int,
        report: Callable[[RebuiltFile], None] | None,
    ) -> None:
        self._durable, self._version, self._pool, self._gone = durable, version, pool, gone
        self._total, self._report = total, report
        self._whole = {file["name"]: file for file in version.files if file["name"] not in damaged}
        self._writes: dict[Future[str], _Lost] = {}
        self.rebuilt: list[str] = []
        self.errors: list[Exception] = []

    # ---- rows ----

    def collect(self, lost: Sequence[_Lost]) -> None:
        """Find the rows of lost files of organisations in the files of other organisations."""
        for one in lost:
            one.began = time.perf_counter()
        for other in (*range(len(self._version.organisations)), COLLIDING):
            wanted = [one for one in lost if not one.is_complete and one.organisation != other]
            files = self._whole_files(other)
            for one in (one for one in wanted if not one.file["rows"] and files):
                one.rows = self._nothing_like(one, files)
            wanted = [one for one in wanted if one.file["rows"]]
            if wanted:
                self._search(files, wanted, lambda file, wanted=wanted: self._rows_of(file, wanted))  # type: ignore[misc]
                self._narrow(other, wanted)

    def _narrow(self, organisation: int, lost: Sequence[_Lost]) -> None:
        """Rows that an organisation, which has all, has in no whole file are in the others: their positions are those of these files."""
        others = [
            file for file in self._version.files_of(organisation) if file["name"] not in self._whole and file["rows"]
        ]
        ranges = [_bounds_of(file).get(POSITION) for file in others]
        known = [one for one in ranges if one is not None]
        if organisation != COLLIDING and known and len(known) == len(ranges):
            for one in lost:
                one.narrow(min(first for first, _ in known), max(last for _, last in known))

    def collect_colliding(self, lost: Sequence[_Lost]) -> None:
        """Find the rows of lost files of colliding rows in an organisation, if the files of it that can have them are whole."""
        places = self._version.places
        for one in lost:
            one.began = time.perf_counter()
            if not one.file["rows"] and (files := self._whole_files(0)):
                one.rows = self._nothing_like(one, files)
        searched: dict[str, list[_Lost]] = {}
        for one in lost if places is not None else ():
            for file in self._sources_of_colliding(one) if one.file["rows"] else ():
                searched.setdefault(file["name"], []).append(one)
        if not searched or places is None:
            return
        colliding = Colliding(places, self._version.organisations, self._version.files)

        def rows_of(file: _File) -> Iterator[tuple[_Lost, pa.Table]]:
            for _, page in _Source(self._durable.local_path(file), file, self._form).pages():
                positions = page[POSITION].to_numpy()
                for place, rows in colliding.of(page):
                    numbers = rows.to_numpy()
                    for one in (one for one in searched[file["name"]] if one.part == place):
                        yield one, _taken(page, one.lacking(positions, numbers))

        self._search([self._whole[name] for name in searched], lost, rows_of)

    def _sources_of_colliding(self, lost: _Lost) -> list[_File]:
        """The files of an organisation in which rows can be that collide and are also in a place; none if some of them are lost."""
        places = self._version.places
        assert places is not None
        count = len(places.folders)
        # The place of a further copy is at most as many places after that of the first organisation as may be lost.
        near = [
            file
            for file in self._version.files_of(0)
            if 1 <= (lost.part - file["about"]["place"]) % count <= places.losses
        ]
        every = (self._version.files_of(number) for number in range(len(self._version.organisations)))
        return next((list(files) for files in (near, *every) if all(file["name"] in self._whole for file in files)), [])

    def _search(
        self,
        files: Sequence[_File],
        lost: Sequence[_Lost],
        rows_of: Callable[[_File], Iterator[tuple[_Lost, pa.Table]]],
    ) -> None:
        """Search files at the same time for rows of lost files. A file that cannot be read is not whole any more."""

        def read(file: _File) -> list[tuple[_Lost, pa.Table]]:
            try:
                return list(rows_of(file))
            except (OSError, pa.ArrowInvalid):  # it was lost meanwhile: its rows may be elsewhere
                self._whole.pop(file["name"], None)
                return []

        found: dict[int, list[pa.Table]] = {id(one): [] for one in lost}
        for parts in self._pool.map(read, files):
            for one, rows in parts:
                found[id(one)].append(rows)
        for one in lost:
            one.add(found[id(one)])

    def _rows_of(self, file: _File, lost: Sequence[_Lost]) -> Iterator[tuple[_Lost, pa.Table]]:
        """The rows of a file of an organisation that belong to lost files of others."""
        organisations = self._version.organisations
        source = _Source(self._durable.local_path(file), file, self._form)
        keys = {POSITION, *(name for one in lost for name in organisations[one.organisation].by)}
        for number in range(source.count):
            near = [one for one in lost if source.may_have_rows_of(one, number)]
            if not near:
                continue
            page = source.page(number, keys)
            positions = page[POSITION].to_numpy()
            parts: dict[int, Any] = {}
            chosen: list[tuple[_Lost, Any]] = []
            for one in near:
                if one.organisation not in parts:
                    parts[one.organisation] = part_numbers(page, organisations[one.organisation])
                of = parts[one.organisation]
                rows = one.lacking(
                    positions, np.arange(len(positions)) if of is None else np.flatnonzero(of == one.part)
                )
                if len(rows):
                    chosen.append((one, rows))
            whole = source.page(number) if chosen else page
            yield from ((one, _taken(whole, rows)) for one, rows in chosen)

    def _whole_files(self, organisation: int) -> list[_File]:
        return [file for file in self._version.files_of(organisation) if file["name"] in self._whole]

    def _nothing_like(self, lost: _Lost, files: Sequence[_File]) -> pa.Table | None:
        """No rows, with the columns and categories of a file, if possible one of the same writer."""
        like = [file for file in files if file["about"]["schema"] == lost.file["about"]["schema"]]
        for file in like or files:
            with contextlib.suppress(OSError, pa.ArrowInvalid):
                return without_rows(_Source(self._durable.local_path(file), file, self._form).page(0))
        return None

    @property
    def _form(self) -> str:
        return str(self._version.about["format"])

    # ---- files ----

    def write(self, lost: Sequence[_Lost]) -> None:
        """Begin to write the files of which all rows were found."""
        for one in lost:
            if one.is_complete:
                self._writes[self._pool.submit(self._write, one)] = one

    def finish(self) -> None:
        """Wait until all files are written."""
        for future in as_completed(self._writes):
            one = self._writes[future]
            try:
                path = future.result()
            except OSError as error:  # of others, too, what can be rebuilt is rebuilt
                self.errors.append(error)
                continue
            self._whole[one.file["name"]] = dict(one.file)
            self.rebuilt.append(path)
            seconds = time.perf_counter() - one.began
            made = RebuiltFile(path, one.file["rows"], seconds, len(self.rebuilt), self._total)
            if events.active:
                name = f"{self._durable.database}.{self._durable.name}"
                events.emit(
                    "rebuilt",
                    set=name,
                    path=path,
                    rows=made.rows,
                    seconds=seconds,
                    number=made.number,
                    total=made.total,
                )
            if self._report is not None:
                self._report(made)
        self._writes.clear()

    def _write(self, lost: _Lost) -> str:
        """Write a file from its rows, and put it in place: in the set's own folder if it cannot be written in its place."""
        target = self._durable.path(lost.file)
        extension = os.path.splitext(target)[1][1:]
        try:
            self._durable.with_file(
                extension, lambda path: self._replace(lost, path, target, _linked(path, target, self._gone))
            )
        except CorruptSet:
            raise
        except OSError:
            if not os.path.islink(target):
                raise
            self._durable.with_file(extension, lambda path: self._replace(lost, path, target, None))
        lost.written()
        return target

    def _replace(self, lost: _Lost, path: str, target: str, linked: str | None) -> None:
        """Write a file to a path, which may be a link to another one, and give it the name of the lost one."""
        how = IN_ORDER if lost.organisation == COLLIDING else self._version.organisations[lost.organisation]
        rows = lost.rows
        assert rows is not None
        try:
            if how.sorted_by:
                rows = sorted_rows(rows, how)
            elif lost.order is not None:
                rows = rows.take(pa.array(lost.order))
            written = write_file(path, rows.combine_chunks(), rows.schema, self._version.about["format"], "none")
            if written.checksum != lost.file["checksum"]:
                raise CorruptSet(
                    f"{target}: its rows give another file now; another version of Arrow wrote it. Save the set again."
                )
            if linked is None:
                self._durable.replace(lost.file, path)
            elif (place := _link(target)) is not None:  # or else another program has rebuilt it in the set's own folder
                put_in_place(linked, place)
        finally:
            if linked is not None:
                with contextlib.suppress(OSError):
                    os.unlink(linked)


class _Source:
    """A file that is whole, of which pages are read."""

    def __init__(self, path: str, file: _File, form: str) -> None:
        self._about = file["about"]
        self.count = len(self._about["pages"])
        self._groups = pq.ParquetFile(path) if form == "parquet" else None
        self._batches = pa.ipc.open_file(pa.memory_map(path)) if form != "parquet" else None

    def page(self, number: int, columns: Collection[str] | None = None) -> pa.Table:
        """A page, if possible only some of its columns. What is in an Arrow file is read when it is used."""
        if self._groups is not None:
            return self._groups.read_row_group(number, None if columns is None else list(columns))
        return pa.Table.from_batches([self._batches.get_batch(number)])  # type: ignore[union-attr]

    def pages(self) -> Iterator[tuple[int, pa.Table]]:
        """All pages, with their numbers."""
        return ((number, self.page(number)) for number in range(self.count))

    def may_have_rows_of(self, lost: _Lost, number: int) -> bool:
        """Whether a page has rows, and its bounds, of positions and of other whole numbers, let it have some of a lost file."""
        for name, (low, high) in lost.bounds.items():
            pair = self._about["bounds"][name][number]
            if pair is not None and not self._about["nulls"][name][number] and (pair[0] > high or pair[1] < low):
                return False
        return bool(self._about["pages"][number])


def _bounds_of(file: _File) -> dict[str, tuple[int, int]]:
    """The least and the greatest value in a file of columns of whole numbers, dates and times, if they are known of all pages."""
    found = {}
    for name, pairs in file["about"]["bounds"].items():
        known = [pair for pair, rows in zip(pairs, file["about"]["pages"], strict=True) if rows]
        if known and None not in known and isinstance(known[0][0], int):
            found[name] = min(low for low, _ in known), max(high for _, high in known)
    return found


def _taken(page: pa.Table, rows: Any) -> pa.Table:
    """A copy of some rows of a page, in their order.

    Slices and pages of files are not returned as they are: Arrow writes them with texts and bits of further rows, so that the file would
    have other bytes.
    """
    return page.take(pa.array(rows))


def _linked(path: str, target: str, gone: Collection[str]) -> str | None:
    """Make a path a link to a new file in the place of a damaged one; returns that file, or None if the place is gone.

    A file whose place is gone is rebuilt in the set's own folder.
    """
    place = _link(target)
    if place is None or (folder := os.path.dirname(place)) in gone:
        return None
    new = os.path.join(folder, os.path.basename(path))
    try:
        os.makedirs(folder, exist_ok=True)
        with open(new, "wb"):
            pass
    except OSError:
        return None
    os.symlink(new, path)
    return new


def _link(path: str) -> str | None:
    """What a link names; None if it is none. Other programs may replace links meanwhile."""
    try:
        return os.readlink(path)
    except OSError:
        return None
