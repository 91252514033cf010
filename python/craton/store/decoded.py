"""The decode cache: decoded columns of files, stored so that the next query, in any process of the store, does not decode them again.

Each file has one locality set, whose tag identifies the version of the file, and each page holds one column of one chunk of rows.
Paging drops these pages without writing them, because the file can be decoded again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from craton import _native
from craton.store.sets import LocalitySet, one_batch, table_of
from craton.store.store import Store

#: A text column is dictionary encoded, with codes of one byte, if it has at most this many distinct values.
MAX_CODES = 255
#: The distinct values of this many rows are counted first, to reject most other columns cheaply.
_SAMPLE_ROWS = 20_000

#: The key of the page that has a whole file.
_WHOLE = b"whole"

#: Approximate rows of a page: 32 MiB of a column of 64-bit numbers.
CHUNK_ROWS = 1 << 22


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """A file whose columns may be in the store.

    Parameters
    ----------
    name
        Its path, and the options that affect what is read from it.
    version
        Identifies the version of the file: size, modification time, inode, or an etag.
    rows
        Rows in the file; None if they are unknown until the file is read. Such a file is decoded in one chunk.
    group_rows
        Rows of a row group of the file; a chunk has a whole number of row groups.
    """

    name: str
    version: str
    rows: int | None
    group_rows: int

    def chunks(self) -> list[tuple[int, int | None]]:
        """(first row, number of rows) of each chunk; the number is None for a chunk of the whole file."""
        if self.rows is None:
            return [(0, None)]
        step = max(CHUNK_ROWS // max(self.group_rows, 1), 1) * max(self.group_rows, 1)
        return [(start, min(step, self.rows - start)) for start in range(0, self.rows, step)]

    def chunks_with(self, rows: tuple[int, int] | None) -> list[tuple[int, int | None]]:
        """The chunks that overlap `rows`, given as (first, number); all chunks if `rows` is None or the file's rows are unknown."""
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
class DictionaryColumn:
    """A dictionary-encoded text column.

    Parameters
    ----------
    values
        The dictionary: the text of each code.
    parts
        The codes of each chunk, ``UInt8``, null where the text is null.
    """

    values: list[str]
    parts: list[pl.Series]


class DecodedPages:
    """The stored columns of one version of a file. Made by :meth:`DecodeCache.find`.

    Remembers the pages that it has found, so that each is looked up in the store once.
    """

    def __init__(self, pages: LocalitySet, file: DecodedFile) -> None:
        self._pages, self._file = pages, file
        self._found: dict[bytes, _native.PageInfo] = {}

    def missing(self, columns: Sequence[tuple[str, str]], rows: tuple[int, int] | None = None) -> list[str]:
        """Those of the columns, given as (name, type), that lack the page of a chunk, or of a chunk that overlaps `rows`."""
        chunks = self._file.chunks_with(rows)
        keys = {name: [_key(chunk, name, dtype) for chunk in chunks] for name, dtype in columns}
        self._look_up([key for each in keys.values() for key in each])
        return [name for name, each in keys.items() if not all(key in self._found for key in each)]

    def read(
        self,
        columns: Sequence[tuple[str, str]],
        encoded: Mapping[str, DictionaryColumn],
        rows: tuple[int, int] | None = None,
    ) -> pl.DataFrame | None:
        """The columns as a frame over the store's memory, pinned while the frame lives; None if a page is missing.

        Parameters
        ----------
        columns
            (name, type) of each.
        encoded
            Dictionary-encoded columns whose codes are added to the frame, by the name that they get there. Must be empty if `rows` are
            given.
        rows
            Only these, as (first, number); only the chunks that overlap them are read.

        Raises
        ------
        MemoryError
            If the pages do not fit into memory together.
        """
        chunks = self._file.chunks_with(rows)
        keys = [_key(chunk, name, dtype) for chunk in chunks for name, dtype in columns]
        found = self._series(keys)
        if found is None or not chunks:
            return None
        parts = []
        for number in range(len(chunks)):
            series = found[number * len(columns) : (number + 1) * len(columns)]
            series += [column.parts[number].alias(name) for name, column in encoded.items()]
            parts.append(pl.DataFrame(series))
        frame = pl.concat(parts, rechunk=False)
        return frame if rows is None else frame.slice(rows[0] - chunks[0][0], rows[1])

    def batches(self, columns: Sequence[tuple[str, str]]) -> list[pa.RecordBatch] | None:
        """The columns as one record batch for each chunk, over the store's memory; None if a page is missing.

        For columns that were decoded as Arrow tables, in their types; the pages are pinned while the batches live.

        Parameters
        ----------
        columns
            (name, type) of each.

        Raises
        ------
        MemoryError
            If the pages do not fit into memory together.
        """
        chunks = self._file.chunks()
        keys = [_key(chunk, name, dtype) for chunk in chunks for name, dtype in columns]
        parts = self._pinned(keys)
        if parts is None:
            return None
        arrays = [one_batch(table_of(part)).column(0) for part in parts]
        names, width = [name for name, _ in columns], len(columns)
        return [
            pa.RecordBatch.from_arrays(arrays[number * width : (number + 1) * width], names)
            for number in range(len(chunks))
        ]

    def dictionary_column(self, column: str) -> DictionaryColumn | None:
        """A stored text column, dictionary encoded; None if it has too many distinct values.

        The first call encodes the column and stores its codes and dictionary. An empty dictionary is stored for a column that cannot be
        encoded, so that it is tried once.

        Raises
        ------
        KeyError
            If pages were evicted meanwhile.
        MemoryError
            If the pages do not fit into memory.
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
        return DictionaryColumn(values, parts)

    def _look_up(self, keys: Sequence[bytes]) -> None:
        """Add the pages that have these keys to `_found`."""
        wanted = [key for key in keys if key not in self._found]
        if wanted:
            self._found.update((key, info) for key, info in zip(wanted, self._pages.find(wanted), strict=True) if info)

    def _series(self, keys: Sequence[bytes]) -> list[pl.Series] | None:
        """The pages with these keys as series, pinned together; None if one is missing."""
        parts = self._pinned(keys)
        return None if parts is None else [_frame(part).to_series() for part in parts]

    def _pinned(self, keys: Sequence[bytes]) -> list[_native.ArrowBatches] | None:
        """The pages with these keys, pinned together; None if one is missing."""
        self._look_up(keys)
        if not all(key in self._found for key in keys):
            return None
        try:
            parts = self._pages.read([([self._found[key].number], None) for key in keys])
        except KeyError:  # a page was evicted after it was found
            return None
        return [part for (part,) in parts]

    def _encode(self, column: str) -> list[str]:
        """Store the codes of a column and return its dictionary; empty if there are too many distinct values or a chunk is missing."""
        values: list[str] = []
        for chunk in self._file.chunks():
            (info,) = self._pages.find([_key(chunk, column, "String")])
            if info is None:
                return []
            text = _frame(self._pages.pin(info).batch()).get_column(column)
            if text.head(_SAMPLE_ROWS).n_unique() > MAX_CODES:
                return []
            started = time.perf_counter()
            values += [value for value in text.unique() if value is not None and value not in values]
            if len(values) > MAX_CODES:
                return []
            codes = text.cast(pl.Enum(values)).to_physical().cast(pl.UInt8)
            self._pages.append(_batch(codes), key=_code_key(chunk, column), rebuild=time.perf_counter() - started)
        return values


class DecodeCache:
    """Decoded columns in a store.

    Parameters
    ----------
    store
        The store that holds the pages.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, file: DecodedFile) -> DecodedPages | None:
        """The stored columns of this version of the file; None if there are none."""
        try:
            pages = self._store.get_set(_set_name(file))
        except KeyError:
            return None
        return DecodedPages(pages, file) if _is_current(pages, file) else None

    def fill(
        self,
        file: DecodedFile,
        columns: Sequence[tuple[str, str]],
        decode: Callable[[int, int | None], pl.DataFrame | pa.Table],
    ) -> None:
        """Decode columns and store them.

        Parameters
        ----------
        file
            The file.
        columns
            (name, type) of each.
        decode
            Called in another thread with a first row and a number of rows; returns the columns of these rows, as a frame of Polars or as
            an Arrow table. Each chunk is decoded while the one before is copied into the store.

        Raises
        ------
        MemoryError
            If the columns do not fit; the pages that were stored until then stay. Also if a batch cannot hold the text of a chunk.
        """
        pages = self._create_or_get(file)
        types = dict(columns)
        for chunk, frame, seconds in _decode_ahead(file.chunks(), decode):
            parts = list(_columns(frame))
            total = max(sum(size for _, size, _ in parts), 1)
            for name, size, column in parts:
                pages.append(_batch(column), key=_key(chunk, name, types[name]), rebuild=seconds * size / total)

    def whole(self, file: DecodedFile, decode: Callable[[], pa.Table]) -> tuple[pa.Table, bool]:
        """A file whose columns cannot be decoded one by one, as a table over the store's memory, and whether it was decoded now.

        Parameters
        ----------
        file
            The file.
        decode
            Returns its rows; called if they are not in the store.

        Raises
        ------
        MemoryError
            If they do not fit.
        """
        pages = self._create_or_get(file)
        (found,) = pages.find([_WHOLE])
        made = found is None
        if found is None:
            started = time.perf_counter()
            table = decode()
            batch = one_batch(table)
            if batch.num_rows != table.num_rows:
                raise MemoryError("a column has more text than one batch of its type can have")
            (found,) = pages.append(batch, key=_WHOLE, rebuild=time.perf_counter() - started)
        return table_of(pages.pin(found).batch()), made

    def _create_or_get(self, file: DecodedFile) -> LocalitySet:
        while True:
            try:
                return self._store.create_set(_set_name(file), tag=file.version.encode(), durability="discard")
            except FileExistsError:
                try:
                    pages = self._store.get_set(_set_name(file))
                    if _is_current(pages, file):
                        return pages
                    pages.drop()  # its pages are of another version of the file
                except KeyError:
                    continue


def _decode_ahead(
    chunks: Iterable[tuple[int, int | None]], decode: Callable[[int, int | None], pl.DataFrame | pa.Table]
) -> Iterator[tuple[tuple[int, int | None], pl.DataFrame | pa.Table, float]]:
    """Yield each chunk, its frame and the seconds that decoding it took; another thread decodes one chunk ahead of the caller."""

    def timed(chunk: tuple[int, int | None]) -> tuple[tuple[int, int | None], pl.DataFrame | pa.Table, float]:
        started = time.perf_counter()
        frame = decode(*chunk)
        return chunk, frame, time.perf_counter() - started

    with ThreadPoolExecutor(1, "craton-decode") as pool:
        waiting: Future[tuple[tuple[int, int | None], pl.DataFrame | pa.Table, float]] | None = None
        for chunk in chunks:
            following = pool.submit(timed, chunk)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def _is_current(pages: LocalitySet, file: DecodedFile) -> bool:
    try:
        return pages.tag == file.version.encode()
    except KeyError:  # the set was dropped meanwhile
        return False


def _columns(frame: pl.DataFrame | pa.Table) -> Iterator[tuple[str, float, pl.Series | pa.Table]]:
    """Name, bytes and values of each column."""
    if isinstance(frame, pl.DataFrame):
        yield from ((column.name, column.estimated_size(), column) for column in frame.get_columns())
    else:
        for name in frame.column_names:
            column = frame.select([name]).replace_schema_metadata(None)
            yield name, column.nbytes, column


def _batch(column: pl.Series | pa.Table) -> pa.RecordBatch:
    """A column as one record batch.

    Raises
    ------
    MemoryError
        If Arrow's type for its texts does not allow as many bytes in one batch.
    """
    if isinstance(column, pl.Series):
        column = column.rechunk().to_frame().to_arrow(compat_level=pl.CompatLevel.newest())
    batch = one_batch(column)
    if batch.num_rows != column.num_rows:
        raise MemoryError(f"column {batch.schema.names[0]!r} has more text than one batch of its type can have")
    return batch


def _frame(batches: _native.ArrowBatches) -> pl.DataFrame:
    return pl.DataFrame(batches)


def _code_key(chunk: tuple[int, int | None], name: str) -> bytes:
    return f"{chunk[0]}+{chunk[1]} codes {name}".encode()


def _set_name(file: DecodedFile) -> str:
    return f"decoded:{file.name}"


def _key(chunk: tuple[int, int | None], name: str, dtype: str) -> bytes:
    return f"{chunk[0]}+{chunk[1]} {dtype} {name}".encode()
