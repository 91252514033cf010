"""The decode cache: columns of files as they were decoded, so that no query of any process decodes them again.

One locality set a file, whose tag says which state of the file its pages are of; one page a column of a stretch of rows.
The pages can be made again at the cost of decoding them, so paging drops them without writing them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from craton import _native
from craton.store.sets import LocalitySet, one_batch
from craton.store.store import Store

#: Text columns of at most so many distinct values get codes of one byte each.
MOST_CODES = 255
#: Rows that are looked at first, to tell that a column has more.
_SAMPLED = 20_000

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
        Rows in the file; None where only reading it tells, and it is decoded as a whole.
    group_rows
        Rows that the file keeps together; chunks are cut there.
    """

    name: str
    state: str
    rows: int | None
    group_rows: int

    def chunks(self) -> list[tuple[int, int | None]]:
        """(first row, number of rows) of each chunk; no number for one that goes to the file's end."""
        if self.rows is None:
            return [(0, None)]
        step = max(CHUNK_ROWS // max(self.group_rows, 1), 1) * max(self.group_rows, 1)
        return [(start, min(step, self.rows - start)) for start in range(0, self.rows, step)]

    def chunks_of(self, rows: tuple[int, int] | None) -> list[tuple[int, int | None]]:
        """Those that have some of these rows, as (first, number); all if none are given, or if they cannot be told."""
        chunks = self.chunks()
        if rows is None or self.rows is None:
            return chunks
        first, number = rows
        return [
            (start, count)
            for start, count in chunks
            if count is not None and start < first + number and first < start + count
        ]


@dataclass(frozen=True, slots=True)
class Codes:
    """A text column as small numbers.

    Parameters
    ----------
    values
        The text of each code.
    parts
        The codes of each chunk, ``UInt8``, null where the text is.
    """

    values: list[str]
    parts: list[pl.Series]


class DecodedPages:
    """What the store has of a file: one look-up of its set, and one of the columns that are asked for.

    Made by :meth:`DecodeCache.find`.
    """

    def __init__(self, pages: LocalitySet, file: DecodedFile) -> None:
        self._pages, self._file = pages, file
        self._found: dict[bytes, _native.PageInfo] = {}

    def missing(self, columns: Sequence[tuple[str, str]], rows: tuple[int, int] | None = None) -> list[str]:
        """The columns, given as (name, type), that are not in the store as a whole, or not for these rows."""
        chunks = self._file.chunks_of(rows)
        keys = {name: [_key(chunk, name, dtype) for chunk in chunks] for name, dtype in columns}
        self._look_up([key for each in keys.values() for key in each])
        return [name for name, each in keys.items() if not all(key in self._found for key in each)]

    def read(
        self, columns: Sequence[tuple[str, str]], beside: Mapping[str, Codes], rows: tuple[int, int] | None = None
    ) -> pl.DataFrame | None:
        """The columns as a frame over the store's memory, pinned while it lives; None if one is missing.

        Parameters
        ----------
        columns
            (name, type) of each.
        beside
            Codes to put beside them, by the name that they get; none where not all rows are read.
        rows
            Only these, as (first, number); no other chunks than those that have them are touched.

        Raises
        ------
        MemoryError
            If they do not fit together.
        """
        chunks = self._file.chunks_of(rows)
        keys = [_key(chunk, name, dtype) for chunk in chunks for name, dtype in columns]
        found = self._series(keys)
        if found is None or not chunks:
            return None
        parts = []
        for number in range(len(chunks)):
            series = found[number * len(columns) : (number + 1) * len(columns)]
            series += [codes.parts[number].alias(name) for name, codes in beside.items()]
            parts.append(pl.DataFrame(series))
        frame = pl.concat(parts, rechunk=False)
        return frame if rows is None else frame.slice(rows[0] - chunks[0][0], rows[1])

    def codes(self, column: str) -> Codes | None:
        """The codes of a text column that is in the store, made now if they are not there; None if it has too many values.

        Raises
        ------
        KeyError
            If they were dropped just now.
        MemoryError
            If they do not fit.
        """
        values_key = f"values {column}".encode()
        keys = [_code_key(chunk, column) for chunk in self._file.chunks()]
        self._look_up([values_key, *keys])
        if values_key not in self._found:
            values = self._encode(column)
            (made,) = self._pages.append(_batch(pl.Series(column, values, pl.String)), key=values_key, rebuild=1.0)
            self._found[values_key] = made
            self._look_up(keys)
        else:
            values = _frame(self._pages.pin(self._found[values_key]).batch()).get_column(column).to_list()
        if not values:
            return None
        parts = self._series(keys)
        if parts is None:
            self._pages.drop_key(values_key)
            return None
        return Codes(values, parts)

    def _look_up(self, keys: Sequence[bytes]) -> None:
        """Learn which pages have these keys."""
        wanted = [key for key in keys if key not in self._found]
        if wanted:
            self._found.update((key, info) for key, info in zip(wanted, self._pages.find(wanted), strict=True) if info)

    def _series(self, keys: Sequence[bytes]) -> list[pl.Series] | None:
        """The columns with these keys, pinned together; None if one is not there any more."""
        self._look_up(keys)
        if not all(key in self._found for key in keys):
            return None
        try:
            parts = self._pages.read([([self._found[key].number], None) for key in keys])
        except KeyError:  # dropped by paging just now
            return None
        return [_frame(batches).to_series() for (batches,) in parts]

    def _encode(self, column: str) -> list[str]:
        """Leave the codes of a column in the store; the value of each code, or nothing if there are too many."""
        values: list[str] = []
        for chunk in self._file.chunks():
            (info,) = self._pages.find([_key(chunk, column, "String")])
            if info is None:
                return []
            text = _frame(self._pages.pin(info).batch()).get_column(column)
            if text.head(_SAMPLED).n_unique() > MOST_CODES:
                return []
            started = time.perf_counter()
            values += [value for value in text.unique() if value is not None and value not in values]
            if len(values) > MOST_CODES:
                return []
            codes = text.cast(pl.Enum(values)).to_physical().cast(pl.UInt8)
            self._pages.append(_batch(codes), key=_code_key(chunk, column), rebuild=time.perf_counter() - started)
        return values


class DecodeCache:
    """Decoded columns in a store.

    Parameters
    ----------
    store
        Where the pages are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, file: DecodedFile) -> DecodedPages | None:
        """What the store has of a file as it is now; None if that is nothing."""
        try:
            pages = self._store.get_set(_set_name(file))
        except KeyError:
            return None
        return DecodedPages(pages, file) if _is_of(pages, file) else None

    def fill(
        self, file: DecodedFile, columns: Sequence[tuple[str, str]], decode: Callable[[int, int | None], pl.DataFrame]
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

    def _made(self, file: DecodedFile) -> LocalitySet:
        while True:
            try:
                return self._store.create_set(_set_name(file), tag=file.state.encode(), durability="discard")
            except FileExistsError:
                try:
                    pages = self._store.get_set(_set_name(file))
                    if _is_of(pages, file):
                        return pages
                    pages.drop()  # of another state of the file
                except KeyError:
                    continue


def _ahead(
    chunks: Iterable[tuple[int, int | None]], decode: Callable[[int, int | None], pl.DataFrame]
) -> Iterator[tuple[tuple[int, int | None], pl.DataFrame, float]]:
    """Each chunk with its rows and the seconds that they took, decoded one chunk ahead in another thread."""

    def timed(chunk: tuple[int, int | None]) -> tuple[tuple[int, int | None], pl.DataFrame, float]:
        started = time.perf_counter()
        frame = decode(*chunk)
        return chunk, frame, time.perf_counter() - started

    with ThreadPoolExecutor(1, "craton-decode") as pool:
        waiting: Future[tuple[tuple[int, int | None], pl.DataFrame, float]] | None = None
        for chunk in chunks:
            following = pool.submit(timed, chunk)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def _is_of(pages: LocalitySet, file: DecodedFile) -> bool:
    try:
        return pages.tag == file.state.encode()
    except KeyError:  # dropped just now
        return False


def _batch(column: pl.Series) -> pa.RecordBatch:
    table = column.rechunk().to_frame().to_arrow(compat_level=pl.CompatLevel.newest())
    return one_batch(table)


def _frame(batches: _native.ArrowBatches) -> pl.DataFrame:
    return pl.DataFrame(batches)


def _code_key(chunk: tuple[int, int | None], name: str) -> bytes:
    return f"{chunk[0]}+{chunk[1]} codes {name}".encode()


def _set_name(file: DecodedFile) -> str:
    return f"decoded:{file.name}"


def _key(chunk: tuple[int, int | None], name: str, dtype: str) -> bytes:
    return f"{chunk[0]}+{chunk[1]} {dtype} {name}".encode()
