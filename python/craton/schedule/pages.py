"""Outputs of tasks as pages of a store: how a task writes them, and how other tasks read them.

An output is one unnamed locality set. A part of it is a list of slices of pages, and small batches of several parts share a page,
so that a task with hundreds of small parts writes one page instead of hundreds.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa

from craton.schedule.tasks import PartSize, Read
from craton.store import LocalitySet, Store
from craton.store.sets import as_batches, one_batch, one_table

#: Batches of fewer bytes, or of fewer rows, share pages.
SMALL_BYTES, SMALL_ROWS = 256 << 10, 256
#: The limit in bytes for workers with little memory. A shared page that was spilled is read from disk once for each of its parts, so
#: fewer batches share pages there.
FRUGAL_BYTES = 16 << 10
#: Bytes of small batches that a sink buffers before it writes them.
_HELD = 16 << 20


#: Consecutive rows of a page: the page's number, the first row, the number of rows, and their bytes.
PageSlice = tuple[int, int, int, int]


class StoredOutput(NamedTuple):
    """The location of an output: everything that a reader needs. It is small and picklable.

    Parameters
    ----------
    node
        The number of the machine whose store has the output.
    number
        The number of its locality set there; 0 if it has no pages.
    parts
        The page slices of each part, in order.
    schema
        The schema as an Arrow IPC message; ``None`` if the task wrote nothing and declared no schema.
    store
        The store's identity, see :func:`identity_of`. A store that was restarted reuses the numbers of sets.
    """

    node: int
    number: int
    parts: tuple[tuple[PageSlice, ...], ...]
    schema: bytes | None = None
    store: bytes = b""

    def sizes(self) -> tuple[PartSize, ...]:
        """The size of each part."""
        if not self.number:
            return (_NOTHING,) * len(self.parts)
        return tuple(
            PartSize(sum(one[2] for one in part), sum(one[3] for one in part)) if part else _NOTHING
            for part in self.parts
        )


_NOTHING = PartSize(0, 0)

#: The name of a set whose tag is the store's identity.
_IDENTITY = "craton-identity"
_identities: WeakKeyDictionary[Store, bytes] = WeakKeyDictionary()


def identify(store: Store) -> None:
    """Give a store an identity unless it has one."""
    with contextlib.suppress(FileExistsError):
        store.create_set(_IDENTITY, tag=secrets.token_bytes(8))
    _identities.pop(store, None)


def identity_of(store: Store) -> bytes:
    """Return the store's identity, which differs from that of a store restarted in its place; empty if it is never restarted."""
    found = _identities.get(store)
    if found is None:
        try:
            found = store.get_set(_IDENTITY).tag
        except KeyError:
            found = b""
        _identities[store] = found
    return found


class OutputLost(Exception):
    """Pages of an output are gone: the output was released, or the process that held them died.

    Attributes
    ----------
    key : int
        The key of the task that made the output.
    """

    def __init__(self, key: int) -> None:
        super().__init__(f"the output of task {key} is gone: it was released, or the process that held it died")
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key,)


class PageSink:
    """Writes one output; :meth:`finish` returns its location.

    Parameters
    ----------
    store
        The store to write to.
    parts
        The number of parts of the output.
    node
        The number of the store's machine.
    small
        Bytes and rows: batches that have fewer of either share pages.
    """

    def __init__(
        self, store: Store, parts: int, node: int = 0, small: tuple[int, int] = (SMALL_BYTES, SMALL_ROWS)
    ) -> None:
        self._store, self._node = store, node
        self._small_bytes, self._small_rows = small
        self._parts: list[list[PageSlice]] = [[] for _ in range(parts)]
        self._small: list[tuple[int, pa.Table]] = []
        self._held = 0
        self._schema: pa.Schema | None = None
        self._lock = threading.Lock()
        self._written: set[int] = set()
        self.pages: LocalitySet | None = None

    def schema(self, schema: pa.Schema) -> None:
        """Declare the schema, for an output without rows; the first schema that is declared or written counts."""
        if self._schema is None:
            self._schema = schema

    def write(self, part: int, data: Any) -> None:
        """Append rows to a part: a table, a record batch, or another object that exports Arrow data. Thread-safe.

        Raises
        ------
        IndexError
            If there is no such part.
        TypeError
            If the data is not tabular.
        MemoryError
            If the store has no room for it.
        """
        if not 0 <= part < len(self._parts):
            raise IndexError(f"cannot write to part {part}: the output has {len(self._parts)} parts, numbered from 0")
        for batch in as_batches(data):
            self.schema(batch.schema)
            if not batch.num_rows:
                continue
            with self._lock:
                if batch.nbytes >= self._small_bytes and batch.num_rows >= self._small_rows:
                    if part in self._waiting:
                        self._flush()  # rows of a part keep the order in which they were written
                    self._append(part, batch)
                    continue
                self._small.append((part, batch))
                self._held += batch.nbytes
                if self._held >= _HELD:
                    self._flush()

    @property
    def _waiting(self) -> set[int]:
        return {part for part, _ in self._small}

    def _append(self, part: int, batch: pa.RecordBatch) -> None:
        for info in self._to_pages(batch):
            self._parts[part].append((info.number, 0, info.rows, info.nbytes))

    def _to_pages(self, data: Any) -> Any:
        if self.pages is None:
            self.pages = self._store.create_set(writing="concurrent")
        return self._store._native.write(self.pages.number, data)

    def _flush(self) -> None:
        """Write the buffered small batches, sorted by part; neighbours with equal schemas share a page."""
        small, self._small, self._held = self._small, [], 0
        small.sort(key=lambda piece: piece[0])  # a stable sort: rows of a part keep their order
        together: list[tuple[int, pa.RecordBatch]] = []
        for piece in small:
            if together and not together[0][1].schema.equals(piece[1].schema):
                self._write_together(together)
                together = []
            together.append(piece)
        if together:
            self._write_together(together)

    def _write_together(self, pieces: list[tuple[int, pa.RecordBatch]]) -> None:
        if len(pieces) == 1:
            self._append(*pieces[0])
            return
        try:
            joined = one_batch(pa.Table.from_batches([batch for _, batch in pieces]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # Arrow cannot concatenate these types
            for piece in pieces:
                self._append(*piece)
            return
        self._append_joined([(part, batch.num_rows) for part, batch in pieces], joined)

    def _append_joined(self, pieces: Sequence[tuple[int, int]], joined: pa.RecordBatch) -> None:
        (info,) = self._to_pages(joined)
        first = 0
        for part, rows in pieces:
            nbytes = info.nbytes * rows // info.rows
            slices = self._parts[part]
            if slices and slices[-1][0] == info.number:
                page, begin, before, size = slices[-1]
                slices[-1] = page, begin, before + rows, size + nbytes
            else:
                slices.append((info.number, first, rows, nbytes))
            first += rows

    def write_joined(self, pieces: Sequence[tuple[int, int]], data: pa.Table) -> None:
        """Write a table that has the rows of several parts, one part after another, as one page.

        Parameters
        ----------
        pieces
            Pairs of a part and the number of its rows, at least 1, in the table's order.
        data
            The table.
        """
        with self._lock:
            self.schema(data.schema)
            self._append_joined(pieces, one_batch(data))

    def finish(self) -> StoredOutput:
        """Write what is buffered, and return the location of the output."""
        with self._lock:
            if self._small:
                self._flush()
        schema = None if self._schema is None else _serialized_schema(self._schema)
        number = 0 if self.pages is None else self.pages.number
        return StoredOutput(self._node, number, tuple(map(tuple, self._parts)), schema, identity_of(self._store))

    def abandon(self) -> None:
        """Drop everything that was written."""
        self._small = []
        if self.pages is not None:
            self.pages.drop()
            self.pages = None


_schemas: dict[pa.Schema, bytes] = {}


def _serialized_schema(schema: pa.Schema) -> bytes:
    """Return a schema as an IPC message. Equal schemas share one bytes object, so that pickling many locations stores it once."""
    key = schema.remove_metadata() if schema.metadata else schema
    found = _schemas.get(key)
    if found is None or not pa.ipc.read_schema(pa.py_buffer(found)).equals(schema, check_metadata=True):
        if len(_schemas) >= 1000:
            _schemas.clear()
        found = _schemas[key] = schema.serialize().to_pybytes()
    return found


@dataclass(frozen=True, slots=True)
class OutputPart:
    """One part of one output, to be read."""

    key: int
    stored: StoredOutput
    part: int

    def __post_init__(self) -> None:
        if not 0 <= self.part < len(self.stored.parts):
            count = len(self.stored.parts)
            raise IndexError(
                f"cannot read part {self.part} of the output of task {self.key}: it has {count} parts, numbered from 0"
            )


class PageInput:
    """An input of a task, in a store; see :class:`craton.schedule.tasks.Input`.

    Parameters
    ----------
    store
        The store that has the outputs.
    pieces
        Parts of outputs, in the order in which they are read.
    rows
        Restricts the concatenated rows to a range, as (first row, number of rows).
    """

    def __init__(self, store: Store, pieces: Sequence[OutputPart], rows: tuple[int, int] | None = None) -> None:
        self._store = store
        self._schemas = [piece.stored.schema for piece in pieces if piece.stored.schema is not None]
        chosen = [(piece.key, piece.stored, piece.stored.parts[piece.part]) for piece in pieces]
        self._chosen = [each for each in (chosen if rows is None else slice_rows(chosen, *rows)) if each[2]]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(one[2] for *_, slices in self._chosen for one in slices)

    @property
    def nbytes(self) -> int:
        """The size of the rows in bytes."""
        return sum(one[3] for *_, slices in self._chosen for one in slices)

    def by_task(self) -> Iterator[tuple[int, int]]:
        """Yield, for each part that is read, the key of the task that made it and its bytes."""
        for key, _, slices in self._chosen:
            yield key, sum([one[3] for one in slices])

    def table(self) -> pa.Table:
        """Return all rows.

        The table is a view of the store's memory, except that rows of pages of which less than half is read are copied, so that
        they do not pin these pages.

        Raises
        ------
        OutputLost
            If pages are gone.
        MemoryError
            If they do not fit into the store's memory together.
        """
        tables: list[pa.Table] = []
        at = 0
        while at < len(self._chosen):  # consecutive parts of one set are read in one request
            key, stored, slices = self._chosen[at]
            at += 1
            together = list(slices)
            while at < len(self._chosen) and self._chosen[at][1] is stored:
                together += self._chosen[at][2]
                at += 1
            merged = list(_merged(together))
            read = read_slices(self._store, key, stored.number, stored.store, merged)
            tables += _copy_sparse_pages(merged, read)
        return self._joined(tables)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each part that has any; one empty table if no part has.

        Raises
        ------
        OutputLost, MemoryError
            As :meth:`table`.
        """
        for key, stored, slices in self._chosen:
            yield self._joined(read_slices(self._store, key, stored.number, stored.store, slices))
        if not self._chosen:
            yield self._joined([])

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        if tables:
            return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if self._schemas:
            return pa.ipc.read_schema(pa.py_buffer(self._schemas[0])).empty_table()
        return pa.table({})


def _copy_sparse_pages(slices: Sequence[PageSlice], tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Copy the tables of pages of which less than half is read; yield the others unchanged."""
    # The bytes come from the slices, because `Table.nbytes` counts all the text of the page for string views.
    wanted: dict[int, int] = {}
    for page, _, _, nbytes in slices:
        wanted[page] = wanted.get(page, 0) + nbytes

    def little_used(each: tuple[PageSlice, pa.Table]) -> bool:
        (page, *_), table = each
        return bool(table.get_total_buffer_size() > 2 * wanted[page])

    for little, group in itertools.groupby(zip(slices, tables, strict=True), key=little_used):
        found = [table for _, table in group]
        yield from _concatenated_copy(found) if little else found


def _concatenated_copy(tables: list[pa.Table]) -> list[pa.Table]:
    """Concatenate tables into newly allocated memory; return them unchanged if Arrow cannot concatenate their types."""
    schema = tables[0].schema
    try:
        # Copied string views would still refer to all the text of their pages, and `combine_chunks` does not copy a single chunk.
        without = pa.schema([field.with_type(_offset_type(field.type)) for field in schema], schema.metadata)
        plain = pa.concat_tables(tables).cast(without)
        copied = pa.concat_tables([plain, plain.slice(0, 0)]).combine_chunks()
        if any(_has_dictionary(dtype) for dtype in schema.types):
            copied = copy_table(copied)  # `combine_chunks` may keep the first chunk's dictionary without copying it
        return [copied.cast(schema)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return tables


def copy_table(table: pa.Table) -> pa.Table:
    """Copy a table, including its dictionaries, into one newly allocated buffer."""
    counted = pa.MockOutputStream()
    _write_stream(table, counted)
    buffer = pa.allocate_buffer(counted.size())
    _write_stream(table, pa.FixedSizeBufferWriter(buffer))
    return pa.ipc.open_stream(buffer).read_all()


def _write_stream(table: pa.Table, target: pa.NativeFile) -> None:
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)


def _has_dictionary(dtype: pa.DataType) -> bool:
    return pa.types.is_dictionary(dtype) or any(_has_dictionary(dtype.field(i).type) for i in range(dtype.num_fields))


def _offset_type(dtype: pa.DataType) -> pa.DataType:
    """Replace view types by the corresponding offset types; a cast to these copies only the text of the rows that are cast."""
    if pa.types.is_string_view(dtype):
        return pa.large_string()
    if pa.types.is_binary_view(dtype):
        return pa.large_binary()
    if pa.types.is_large_list(dtype):
        return pa.large_list(dtype.value_field.with_type(_offset_type(dtype.value_type)))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(dtype.value_field.with_type(_offset_type(dtype.value_type)), dtype.list_size)
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_offset_type(field.type)) for field in dtype])
    return dtype


def _merged(slices: Sequence[PageSlice]) -> Iterator[PageSlice]:
    """Merge slices that are adjacent in a page."""
    at, first, rows, nbytes = slices[0]
    for page, begin, more, size in slices[1:]:
        if page == at and begin == first + rows:
            rows, nbytes = rows + more, nbytes + size
        else:
            yield at, first, rows, nbytes
            at, first, rows, nbytes = page, begin, more, size
    yield at, first, rows, nbytes


#: The rows that are read of one output: the task's key, the output's location, and the page slices.
OutputRows = tuple[int, StoredOutput, tuple[PageSlice, ...]]


def read_slices(store: Store, key: int, number: int, identity: bytes, slices: Sequence[PageSlice]) -> list[pa.Table]:
    """Read slices of an output; return a table for each, as a view of the store's memory.

    Parameters
    ----------
    store
        The store that has the output.
    key
        The key of the task that made it.
    number, identity
        The number of the locality set, and the identity of the store that it was written to.
    slices
        The slices.

    Raises
    ------
    OutputLost
        If pages are gone.
    MemoryError
        If they do not fit into the store's memory together.
    """
    pages = list(dict.fromkeys(page for page, *_ in slices))
    if identity != identity_of(store):
        raise OutputLost(key)
    try:
        read = store._native.read(number, [([page], None) for page in pages])
    except KeyError:
        raise OutputLost(key) from None
    tables = {page: one_table(parts) for page, parts in zip(pages, read, strict=True)}
    return [tables[page].slice(first, rows) for page, first, rows, _ in slices]


def slice_rows(chosen: Sequence[OutputRows], first: int, number: int) -> Iterator[OutputRows]:
    """Restrict the concatenated rows to `number` rows from `first` on. An output that has none of them is yielded without slices."""
    end, at = first + number, 0
    for key, stored, slices in chosen:
        kept = []
        for page, start, rows, nbytes in slices:
            low, high = max(first - at, 0), min(end - at, rows)
            if low < high:
                share = nbytes if high - low == rows else nbytes * (high - low) // rows
                kept.append((page, start + low, high - low, share))
            at += rows
        yield key, stored, tuple(kept)


def inputs_of(store: Store, reads: Sequence[Read], where: dict[int, StoredOutput]) -> list[PageInput]:
    """Return the inputs of a task, given the locations of the outputs that it reads.

    Raises
    ------
    IndexError
        If an output does not have a part that is read.
    """
    return [
        PageInput(store, [OutputPart(key, where[key], part) for key in read.tasks for part in read.parts], read.rows)
        for read in reads
    ]
