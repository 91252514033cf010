"""The decode cache: columns of files as they were decoded, so that no query of any process decodes them again.

One locality set a file, whose tag says which state of the file its pages are of; one page a column of a stretch of rows.
The pages can be made again at the cost of decoding them, so paging drops them without writing them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from craton import _native
from craton.store.sets import LocalitySet
from craton.store.store import Store

#: Rows of a page, about: 32 MiB of a column of 64-bit numbers.
CHUNK_ROWS = 1 << 22


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """A file whose columns may be in the store.

    Parameters
    ----------
    name
        Its path, and whatever else decides what is read from it.
    state
        Tells one state of the file from another: size, time of change, inode, or an etag.
    rows
        Rows in the file.
    group_rows
        Rows that the file keeps together; chunks are cut there.
    """

    name: str
    state: str
    rows: int
    group_rows: int

    def chunks(self) -> list[tuple[int, int]]:
        """(first row, number of rows) of each chunk."""
        step = max(CHUNK_ROWS // max(self.group_rows, 1), 1) * max(self.group_rows, 1)
        return [(start, min(step, self.rows - start)) for start in range(0, self.rows, step)]


class DecodeCache:
    """Decoded columns in a store.

    Parameters
    ----------
    store
        Where the pages are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def missing(self, file: DecodedFile, columns: Sequence[tuple[str, str]]) -> list[str]:
        """The columns, given as (name, type), that are not in the store, or not as a whole."""
        pages = self._find(file)
        if pages is None:
            return [name for name, _ in columns]
        keys = {name: [_key(chunk, name, dtype) for chunk in file.chunks()] for name, dtype in columns}
        found = iter(pages.find([key for each in keys.values() for key in each]))
        return [name for name, each in keys.items() if not all([next(found) is not None for _ in each])]  # noqa: C419

    def read(self, file: DecodedFile, columns: Sequence[tuple[str, str]]) -> pl.DataFrame | None:
        """The columns as a frame over the store's memory, pinned while it lives; None if one is missing.

        Raises
        ------
        MemoryError
            If they do not fit together.
        """
        pages = self._find(file)
        if pages is None:
            return None
        parts = []
        for chunk in file.chunks():
            keys = [_key(chunk, name, dtype) for name, dtype in columns]
            tables = []
            for info in pages.find(keys):
                if info is None:
                    return None
                try:
                    tables.append(pages.pin(info).batch())
                except KeyError:  # dropped by paging just now
                    return None
            parts.append(pl.concat([_frame(table) for table in tables], how="horizontal"))
        return pl.concat(parts, rechunk=False) if parts else None

    def fill(
        self, file: DecodedFile, columns: Sequence[tuple[str, str]], decode: Callable[[int, int], pl.DataFrame]
    ) -> None:
        """Decode columns and leave them in the store.

        Parameters
        ----------
        file
            The file.
        columns
            (name, type) of each.
        decode
            Called with a first row and a number of rows; returns them with the columns. The next rows are decoded while
            the ones before are copied.

        Raises
        ------
        MemoryError
            If they do not fit; what was copied until then stays.
        """
        pages = self._made(file)
        types = dict(columns)
        for chunk, frame, seconds in _ahead(file.chunks(), decode):
            for column in frame.get_columns():
                batch = _batch(column)
                share = seconds * column.estimated_size() / max(frame.estimated_size(), 1)
                pages.append(batch, key=_key(chunk, column.name, types[column.name]), rebuild=share)

    def _find(self, file: DecodedFile) -> LocalitySet | None:
        try:
            pages = self._store.get_set(_set_name(file))
        except KeyError:
            return None
        return pages if pages.tag == file.state.encode() else None

    def _made(self, file: DecodedFile) -> LocalitySet:
        while True:
            try:
                return self._store.create_set(_set_name(file), tag=file.state.encode(), durability="discard")
            except FileExistsError:
                try:
                    pages = self._store.get_set(_set_name(file))
                    if pages.tag == file.state.encode():
                        return pages
                    pages.drop()  # of another state of the file
                except KeyError:
                    continue


def _ahead(
    chunks: Iterable[tuple[int, int]], decode: Callable[[int, int], pl.DataFrame]
) -> Iterator[tuple[tuple[int, int], pl.DataFrame, float]]:
    """Each chunk with its rows and the seconds that they took, decoded one chunk ahead in another thread."""

    def timed(chunk: tuple[int, int]) -> tuple[tuple[int, int], pl.DataFrame, float]:
        started = time.perf_counter()
        frame = decode(*chunk)
        return chunk, frame, time.perf_counter() - started

    with ThreadPoolExecutor(1, "craton-decode") as pool:
        waiting: Future[tuple[tuple[int, int], pl.DataFrame, float]] | None = None
        for chunk in chunks:
            following = pool.submit(timed, chunk)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def _batch(column: pl.Series) -> pa.RecordBatch:
    table = column.rechunk().to_frame().to_arrow(compat_level=pl.CompatLevel.newest())
    return table.combine_chunks().to_batches()[0]


def _frame(batches: _native.ArrowBatches) -> pl.DataFrame:
    return pl.DataFrame(batches)


def _set_name(file: DecodedFile) -> str:
    return f"decoded:{file.name}"


def _key(chunk: tuple[int, int], name: str, dtype: str) -> bytes:
    return f"{chunk[0]}+{chunk[1]} {dtype} {name}".encode()
