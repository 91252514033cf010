"""Writes the data files of durable sets, and reads from their manifests which rows are in which page."""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from io import RawIOBase
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from craton import _native
from craton.plan.sources import FileLayout
from craton.records import dataclass
from craton.store.sets import LocalitySet, empty_batch
from craton.store.shuffle import shuffle
from craton.store.statistics import (
    Statistics,
    about_pages,
    bounds_of,
    describe_page,
    describe_pages,
    sketches_of,
    values_of,
)
from craton.store.store import Store

__all__ = ["PAGE_ROWS", "POSITION", "SetPartitioning", "WrittenFile", "describe_file", "layout_of", "write_partitions"]

#: The rows of a page.
PAGE_ROWS = 1 << 17
#: The column with the number of each row in the set, which partitioned sets have.
POSITION = "__position__"
#: Seconds between the syncs of a file that is being written.
_SYNCED_EVERY = 0.1
#: Columns without sketches.
_UNCOUNTED = frozenset([POSITION])

Format = Literal["arrow", "parquet"]


@dataclass(frozen=True, slots=True)
class SetPartitioning:
    """How the rows of a set are distributed over files.

    Parameters
    ----------
    by
        The columns.
    kind
        ``"hash"``: by the stable hash of the columns. ``"range"``: by ranges of them. ``"rows"``: in order, without columns.
    parts
        The number of partitions.
    boundaries
        For ranges: the first keys of each partition but the first, as an Arrow stream in base64.
    """

    by: tuple[str, ...]
    kind: Literal["hash", "range", "rows"]
    parts: int
    boundaries: str = ""

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.by)}), {self.parts}" if self.by else f"{self.kind}, {self.parts}"

    @classmethod
    def by_ranges(cls, boundaries: pa.Table) -> SetPartitioning:
        """A partitioning by the ranges between sorted keys, which are all different."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, boundaries.schema) as writer:
            writer.write_table(boundaries)
        text = base64.b64encode(sink.getvalue()).decode()
        return cls(tuple(boundaries.column_names), "range", len(boundaries) + 1, text)

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The columns by which the rows of a partition are sorted; those with equal keys stay in order."""
        return self.by if self.kind == "range" else ()

    @property
    def keys(self) -> pa.Table | None:
        """The boundaries as a table; None for hashes."""
        return pa.ipc.open_stream(base64.b64decode(self.boundaries)).read_all() if self.boundaries else None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SetPartitioning:
        """A partitioning from what the manifest says."""
        return cls(tuple(found["by"]), found["kind"], found["parts"], found["boundaries"])

    def as_json(self) -> dict[str, Any]:
        """What the manifest says."""
        return {**asdict(self), "by": list(self.by)}


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file that is complete and synced: its path, its rows, what the manifest says of it, its length and its CRC-32C."""

    path: str
    rows: int
    about: dict[str, Any]
    nbytes: int
    checksum: int

    def with_more(self, **about: Any) -> WrittenFile:
        """The same file; the manifest says more of it."""
        return replace(self, about={**self.about, **about})

    def as_json(self) -> dict[str, Any]:
        """What the manifest says of it."""
        name = os.path.basename(self.path)
        return {"name": name, "rows": self.rows, "bytes": self.nbytes, "checksum": self.checksum, "about": self.about}


#: The partitioning of files whose rows are in order, and that are no organisation.
IN_ORDER = SetPartitioning((), "rows", 1)


def write_file(
    path: str, table: pa.Table, schema: pa.Schema, form: Format = "arrow", statistics: Statistics = "all"
) -> WrittenFile:
    """Write a table as pages of :data:`PAGE_ROWS` rows, and sync the file. A table without rows becomes one page without rows."""
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table.cast(schema) if table.schema != schema else table, path, row_group_size=PAGE_ROWS)
        return describe_file(path, form, statistics)
    if max((column.num_chunks for column in table.columns), default=0) > 2 * -(-table.num_rows // PAGE_ROWS):
        table = table.combine_chunks()
    table = pa.Table.from_arrays([_with_valid_codes(column) for column in table.columns], schema=schema)
    batches = table.to_batches(PAGE_ROWS) or [empty_batch(table)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, open(path, "wb", buffering=0) as file:
        described = () if statistics == "none" else batches
        pages = [pool.submit(describe_page, batch, _UNCOUNTED, statistics) for batch in described]
        summed = _SummedFile(file)
        with _synced_meanwhile(file.fileno()), pa.ipc.new_file(pa.PythonFile(summed, mode="w"), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        os.fsync(file.fileno())
        about = about_pages([page.result() for page in pages])
    return WrittenFile(path, table.num_rows, about, summed.length, summed.checksum)


class _SummedFile:
    """A file that is written from its start to its end, with the length and the CRC-32C of what was written."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file
        self.length = self.checksum = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write all of some bytes."""
        with memoryview(data).cast("B") as left:
            self.checksum = _native.checksum(left, self.checksum)
            self.length += left.nbytes
            written = 0
            while written < left.nbytes:
                written += self._file.write(left[written:]) or 0
        return written

    def tell(self) -> int:
        """The bytes that were written."""
        return self.length

    def flush(self) -> None:
        """Does nothing: writes are not buffered."""

    def close(self) -> None:
        """Does nothing: who opened the file closes it."""
        self.closed = True


def _with_valid_codes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose missing categories have a valid code: readers check the codes, also where a value is missing."""
    if not pa.types.is_dictionary(column.type) or not column.null_count:
        return column
    chunks = []
    for chunk in column.chunks:
        missing = chunk.is_null().to_numpy(zero_copy_only=False)
        codes = np.where(missing, 0, chunk.indices.fill_null(0).to_numpy())
        indices = pa.array(codes.astype(chunk.indices.type.to_pandas_dtype()), mask=missing)
        chunks.append(pa.DictionaryArray.from_arrays(indices, chunk.dictionary, ordered=chunk.type.ordered))
    return pa.chunked_array(chunks, type=column.type)


def describe_file(path: str, form: Format = "arrow", statistics: Statistics = "all") -> WrittenFile:
    """Describe a file that has been written, for the manifest, while it is synced and its checksum is computed."""
    with ThreadPoolExecutor(2) as pool:
        synced, summed = pool.submit(sync, path), pool.submit(_native.file_checksum, path)
        about = {"pages": []} if statistics == "none" else describe_pages(path, form, _UNCOUNTED, statistics)
        nbytes, checksum = summed.result()
        synced.result()
    return WrittenFile(path, sum(about["pages"]), about, nbytes, checksum)


def sync(path: str | os.PathLike[str]) -> None:
    """Make the contents of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(path: str, target: str) -> None:
    """Give a file that is synced the name of another one, durably."""
    os.replace(path, target)
    sync(os.path.dirname(target))


@contextlib.contextmanager
def _synced_meanwhile(descriptor: int) -> Iterator[None]:
    """Let the disk write a file while it grows, so that little is left to sync in the end."""
    done = threading.Event()
    errors: list[OSError] = []  # the system reports each only once

    def sync_often() -> None:
        while not errors and not done.wait(_SYNCED_EVERY):
            try:
                os.fdatasync(descriptor)
            except OSError as error:
                errors.append(error)

    thread = threading.Thread(target=sync_often, name="craton-sync")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if errors:
        raise errors[0]


def layout_of(
    files: Sequence[Mapping[str, Any]],
    partitioning: SetPartitioning | None,
    counted: Sequence[Mapping[str, Any]] | None = None,
) -> FileLayout:
    """Which rows are in which part of the files of a version, all of which have the same columns.

    Parameters
    ----------
    counted
        The files with the sketches of these rows, by default the same.
    """
    abouts = [file["about"] for file in files]
    names = abouts[0]["nulls"] if abouts else {}
    nulls = {name: tuple(count for about in abouts for count in about["nulls"][name]) for name in names}
    sketches = sketches_of([file["about"] for file in (files if counted is None else counted)])
    layout = FileLayout(
        tuple(tuple(about["pages"]) for about in abouts), bounds_of(abouts), nulls, values_of(abouts), sketches
    )
    if partitioning is None:
        return layout
    layout = replace(layout, position=POSITION, name=str(partitioning))
    match partitioning.kind:
        case "rows":
            return replace(layout, in_order=True)
        case "range":
            return replace(layout, ranged_by=partitioning.by[0])
        case _:
            of = tuple(about["part"] for about in abouts)
            return replace(layout, keys=partitioning.by, parts=partitioning.parts, part_of=of)


def write_partitions(
    store: Store,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    partitioning: SetPartitioning,
    next_path: Callable[[int], str],
    first: int = 0,
    form: Format = "arrow",
    statistics: Statistics = "all",
) -> Iterator[WrittenFile]:
    """Write one file for each partition that has rows, or one without rows if there are none.

    Parameters
    ----------
    store
        The store through which the rows are shuffled; memory for two partitions is needed besides.
    batches
        The rows.
    schema
        Their columns, and :data:`POSITION` as the last one, with the metadata that the files get.
    next_path
        Returns the path of the next file; its argument is the number of the partition.
    first
        The number of the first row in the set.
    statistics
        What the manifest says of the pages.
    """
    rows = numbered(batches, schema, first)
    if partitioning.kind == "rows":
        yield from _write_in_order(rows, schema, partitioning, next_path, form, statistics)
        return
    beginning = next(rows, None)
    nothing = schema.empty_table() if beginning is None else without_rows(beginning)
    sets: list[LocalitySet] = shuffle(
        store,
        rows if beginning is None else itertools.chain([beginning], rows),
        list(partitioning.by),
        partitioning.parts,
        kind=partitioning.kind,
        boundaries=partitioning.keys,
    )

    def write(number: int, path: str) -> WrittenFile:
        part, sets[number] = sets[number], None  # type: ignore[call-overload]  # the store drops the set when it was written
        found = part.to_arrow() if len(part) else nothing
        return write_partition(found, schema, partitioning, number, path, form, statistics)

    filled = [number for number in range(partitioning.parts) if len(sets[number])] or [partitioning.parts - 1]
    with ThreadPoolExecutor(1) as pool:  # one partition is sorted while the one before is written
        before: Future[WrittenFile] | None = None
        for number in filled:
            following = pool.submit(write, number, next_path(number)) if before is None else None
            if before is not None:
                found = write(number, next_path(number))
                yield before.result()
                yield found
            before = following
        if before is not None:
            yield before.result()


def numbered(batches: Iterable[pa.RecordBatch], schema: pa.Schema, first: int) -> Iterator[pa.RecordBatch]:
    """Batches with the numbers of their rows in the set as another column, :data:`POSITION`."""
    start = first
    for batch in batches:
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        start += batch.num_rows
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)


def without_rows(rows: pa.RecordBatch | pa.Table) -> pa.Table:
    """A table without rows that has the columns and the categories of another."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    return pa.Table.from_batches([empty_batch(table)])


def write_partition(
    rows: pa.Table,
    schema: pa.Schema,
    partitioning: SetPartitioning,
    number: int,
    path: str,
    form: Format,
    statistics: Statistics = "all",
) -> WrittenFile:
    """Write the rows of one partition, in any order, as a file. Equal rows give an equal file."""
    rows = sorted_rows(rows, partitioning).combine_chunks()
    return write_file(path, rows, schema, form, statistics).with_more(part=number)


def sorted_rows(rows: pa.Table, partitioning: SetPartitioning) -> pa.Table:
    """A copy of the rows of one partition in the order of its file. What is below missing values is cleared."""
    order = [(name, "ascending") for name in (*partitioning.sorted_by, POSITION)]
    return rows.take(pc.sort_indices(rows, sort_keys=order))


def _write_in_order(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    partitioning: SetPartitioning,
    next_path: Callable[[int], str],
    form: Format,
    statistics: Statistics,
) -> Iterator[WrittenFile]:
    """Write all rows, in order, as files of about equally many rows."""
    table = pa.Table.from_batches(batches, schema)
    rows = max(-(-table.num_rows // partitioning.parts), 1)
    for number, start in enumerate(range(0, max(table.num_rows, 1), rows)):
        part = table.slice(start, rows)
        yield write_partition(part, schema, partitioning, number, next_path(number), form, statistics)
