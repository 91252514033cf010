"""Join maps: a table in a store with an index of its keys, built once and probed by every process without a copy."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from craton import _native
from craton.store.join_pages import DESCRIPTION_KEY, NO_ROW, MapDescription, MapSource, taken
from craton.store.process import store_at
from craton.store.sets import PAGE_BYTES, STREAMS, LocalitySet, as_batches, empty_batch, one_table, table_of
from craton.store.store import Store

Rows = NDArray[np.uint32]
How = Literal["inner", "left", "semi", "anti"]

#: The first part of the names of maps' sets.
_PREFIX = "join:"
_DROPPED = "the join map was dropped from the store"
_NONE = np.empty(0, dtype=np.uint32)


class _Opened:
    """A map in this process: its set, its description, and the index."""

    def __init__(self, store: Store, pages: LocalitySet) -> None:
        (info,) = pages.find([DESCRIPTION_KEY])
        if info is None:
            raise ValueError(f"{pages!r} is not a join map")
        self.store, self.pages, self.process = store, pages, os.getpid()
        self.description = found = MapDescription.decoded(info.statistics)
        self.native = _native.JoinTable(
            store._native, pages.number, found.index, found.rows, found.index_bytes, found.kinds
        )

    @functools.cached_property
    def schema(self) -> pa.Schema:
        return self.table(pages=slice(1)).schema

    def table(self, columns: Sequence[int] | None = None, pages: slice = slice(None)) -> pa.Table:
        """Some pages of the table, together in memory."""
        numbers = [number for number, _ in self.description.pages[pages]]
        try:
            (parts,) = self.pages.read([(numbers, columns)])
        except KeyError:
            raise KeyError(_DROPPED) from None
        return one_table(parts)


class JoinMap:
    """A table in a store with an index of its keys, to be joined with other tables.

    The table and the index are pages of one locality set, which the store may write to disk. Every process that uses the store probes
    the same pages: by name (:meth:`open`), through a pickled map, or after a fork. Any number of threads may probe at once.

    Keys match if their values are equal, whatever their types: 1 matches 1.0, and a text a category. Numbers are compared exactly, so
    the integer 2**53 + 1 does not match the float 2**53. ``-0.0`` is 0.0. As in pandas' `merge`, null matches null, and NaN matches NaN;
    null does not match NaN.

    Made by :meth:`build`, :meth:`open` and :meth:`from_batches`. A map with a name lives until it is dropped, one without a name as long as
    a process refers to it; a process that pickled it refers to it until it ends.

    Examples
    --------
    >>> from craton.store import JoinMap, Store
    >>> with Store.open(memory_limit=1 << 26) as store:
    ...     names = JoinMap.build(store, {"id": [1, 2, 2], "name": ["a", "b", "c"]}, on="id")
    ...     ours, theirs = names.probe({"id": [2, 3, 1]})
    ...     ours.tolist(), theirs.tolist(), names.join({"id": [2, 3, 1]}, "left")["name"].to_pylist()
    ([0, 0, 2], [1, 2, 0], ['b', 'c', None, 'a'])
    """

    def __init__(self, store: Store, pages: LocalitySet) -> None:
        self._opened: _Opened | None = _Opened(store, pages)
        self._place: tuple[str, int] | None = None
        self._inherited: list[_Opened] = []

    @classmethod
    def build(
        cls,
        store: Store,
        data: Any,
        on: str | Iterable[str],
        *,
        name: str | None = None,
        page_bytes: int | None = None,
    ) -> Self:
        """Store a table, and build the index of its keys.

        Parameters
        ----------
        store
            The store, in this process or in another one.
        data
            A table or record batch of pyarrow, Polars or pandas, or a dict of columns; a locality set, such as a partition of a shuffle;
            or an iterator over tables, which need not fit into memory together. Memory that is in the store already is not copied,
            except that batches of less than 1 MiB are joined.
        on
            The names of the key columns: text, binary, integers, floats, booleans, dates, times, durations, or categories of these.
        name
            Unique among the store's maps. The map appears under it when it is complete.
        page_bytes
            Bytes of an index page; by default a sixteenth of the store's limit, from 64 KiB to 32 MiB. The rows of one key are in one page,
            however many there are.

        Raises
        ------
        KeyError
            If a key column is missing, or several columns have its name.
        TypeError
            If the values of a key column cannot be keys, or `data` is not a table.
        ValueError
            If there is no key or no table, the tables differ in their columns, there are 2**32 - 1 rows or more, or the index entries of
            one key do not fit in 1 GiB (60 million rows).
        FileExistsError
            If there is a map of that name.
        MemoryError
            If a page does not fit into the memory that pinned pages leave.
        """
        names = [on] if isinstance(on, str) else list(on)
        _check_names(names)
        if page_bytes is not None and page_bytes <= 0:
            raise ValueError(f"page_bytes must be greater than 0, got {page_bytes}")
        _check_free(store, name)
        pages = store.create_set(reading="random")
        source = MapSource(names, min(PAGE_BYTES, max(store.limit // 16, 1 << 16)))
        for batch in source.batches(data if isinstance(data, STREAMS) else [data]):
            source.appended(batch, pages.append(batch))
        if source.keys is None:
            raise ValueError("no table was given, so the columns are unknown; pass a table, which may have no rows")
        columns, kinds = [place for place, _ in source.keys], [kind for _, kind in source.keys]
        index = _native.build_join_index(store._native, pages.number, source.pages, columns, page_bytes)
        index_bytes = sum(nbytes for _, nbytes in index)
        description = MapDescription(
            identity=uuid.uuid4().hex,
            on=names,
            kinds=kinds,
            rows=sum(rows for _, rows, _ in source.pages),
            nbytes=source.nbytes + index_bytes,
            index_bytes=index_bytes,
            pages=[[number, rows] for number, rows, _ in source.pages],
            index=[number for number, _ in index],
        )
        return cls._complete(store, pages, description, name)

    @classmethod
    def _complete(cls, store: Store, pages: LocalitySet, description: MapDescription, name: str | None) -> Self:
        pages.append({"join map": [description.identity]}, key=DESCRIPTION_KEY, statistics=description.encoded())
        if name is not None:
            try:
                pages.publish(_PREFIX + name)
            except FileExistsError:
                raise _exists(name) from None
        return cls(store, pages)

    @classmethod
    def open(cls, store: Store, name: str) -> Self:
        """The map of that name.

        Raises
        ------
        KeyError
            If there is no map of that name, or it is still being built.
        """
        try:
            pages = store.get_set(_PREFIX + name)
        except KeyError:
            raise KeyError(f"no join map named {name!r}") from None
        return cls(store, pages)

    # ---- copies in other stores ----

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The map as record batches, of which :meth:`from_batches` makes a copy in another store without building it again.

        The first describes the map, then come the pages of the table and those of the index; the memory of each is the store's.
        """
        opened = self._here()
        yield pa.record_batch({"join map": [opened.description.encoded()]})
        for number in [*(number for number, _ in opened.description.pages), *opened.description.index]:
            table = table_of(opened.pages.pin(number).batch())
            yield from table.to_batches() or [empty_batch(table)]

    @classmethod
    def from_batches(cls, store: Store, batches: Iterable[pa.RecordBatch], *, name: str | None = None) -> Self:
        """Make a copy of a map from what :meth:`to_batches` returned, in this process or in another one.

        Raises
        ------
        ValueError
            If the batches are not those of a map, or some are missing. No map is made then.
        FileExistsError
            If there is a map of that name.
        MemoryError
            If a page does not fit into the memory that pinned pages leave.
        """
        _check_free(store, name)
        rest = iter(batches)
        return cls._copied(store, MapDescription.first(rest), rest, name)

    @classmethod
    def _copied(
        cls, store: Store, description: MapDescription, batches: Iterator[pa.RecordBatch], name: str | None
    ) -> Self:
        """Write the pages of the table and of the index."""
        pages = store.create_set(reading="random")
        numbers: list[int] = []
        for batch in batches:
            (info,) = pages._native.write(pages.number, batch)
            numbers.append(info.number)
            place = len(numbers) - 1
            if place < len(description.pages) and info.rows != description.pages[place][1]:
                raise ValueError(
                    f"batch {place + 1} of a join map has {info.rows} rows, not {description.pages[place][1]}"
                )
        count = len(description.pages)
        if len(numbers) != count + len(description.index):
            raise ValueError(f"a join map of {count + len(description.index)} pages has {len(numbers)} batches")
        table = [[number, rows] for number, (_, rows) in zip(numbers, description.pages, strict=False)]
        return cls._complete(store, pages, replace(description, pages=table, index=numbers[count:]), name)

    # ---- reading ----

    def probe(self, data: Any, on: str | Iterable[str] | None = None) -> tuple[Rows, Rows]:
        """Find the pairs of matching rows.

        Parameters
        ----------
        data
            A table or record batch of pyarrow, Polars or pandas, or a dict of columns.
        on
            Its key columns, in the order of the map's; by default columns of the same names.

        Returns
        -------
        (array of uint32, array of uint32)
            The rows of `data` and the matching rows of the map, ordered by the former, then by the latter.

        Raises
        ------
        KeyError
            If a key column is missing, or the map was dropped.
        TypeError
            If a key column has values of another kind than the map's, or `data` is not a table.
        ValueError
            If there are not as many key columns as the map has; if there are 2**32 - 1 rows or pairs of rows or more.
        CorruptPage
            If a page of the index is damaged.
        MemoryError
            If a page of the index does not fit into the memory that pinned pages leave.
        """
        return self._pairs(_table(data), on, False)

    def join(
        self,
        data: Any,
        how: How = "inner",
        *,
        on: str | Iterable[str] | None = None,
        suffix: str | None = None,
    ) -> pa.Table:
        """Join a table with the map's.

        Parameters
        ----------
        data, on
            As for :meth:`probe`.
        how
            ``"inner"`` and ``"left"``: the columns of `data`, then those of the map without its keys; ``"left"`` keeps rows without a
            match, with nulls. ``"semi"`` and ``"anti"``: the rows of `data` that have, or do not have, a match.
        suffix
            Is appended to the names of the map's columns that `data` has, too.

        Returns
        -------
        pyarrow.Table
            Rows in the order of `data`, and those of one of its rows in the order of the map's rows.

        Raises
        ------
        ValueError
            If `how` is not one of these, or names of columns would not be unique. For other errors see :meth:`probe`.
        """
        table = _table(data)
        if how in ("semi", "anti"):
            matched = np.zeros(table.num_rows, dtype=np.bool_)
            matched[self._pairs(table, on, False)[0]] = True
            return taken(table, np.flatnonzero(matched if how == "semi" else ~matched))
        if how not in ("inner", "left"):
            raise ValueError(f"how must be one of 'inner', 'left', 'semi' and 'anti', got {how!r}")
        schema = self.schema
        wanted = [place for place, name in enumerate(schema.names) if name not in self.on]
        names = [_renamed(schema.names[place], table.column_names, suffix) for place in wanted]
        twice = sorted({name for name in names if (table.column_names + names).count(name) > 1})
        if twice:
            raise ValueError(f"both sides have columns named {twice}; pass suffix= to rename those of the map")
        ours, theirs = self._pairs(table, on, how == "left")
        found = self._rows(theirs, wanted)
        joined = taken(table, ours)
        for name, field, column in zip(names, found.schema, found.columns, strict=True):
            joined = joined.append_column(field.with_name(name), column)
        return joined

    def table(self) -> pa.Table:
        """The map's table, as a view of the store's memory; it has to fit into it."""
        return self._here().table()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the map's table."""
        return self._here().schema

    @property
    def on(self) -> list[str]:
        """The names of the key columns."""
        return list(self._here().description.on)

    @property
    def name(self) -> str | None:
        """The name of the map; None if it has none."""
        found = self._here().pages.attributes()["name"]
        return None if found is None else str(found).removeprefix(_PREFIX)

    @property
    def nbytes(self) -> int:
        """Bytes of the table and of the index."""
        return self._here().description.nbytes

    @property
    def index_pages(self) -> int:
        """How many pages the index has."""
        return len(self._here().description.index)

    def __len__(self) -> int:
        """The number of rows."""
        return self._here().description.rows

    def _pairs(self, table: pa.Table, on: str | Iterable[str] | None, keep: bool) -> tuple[Rows, Rows]:
        opened = self._here()
        names = opened.description.on if on is None else [on] if isinstance(on, str) else list(on)
        if len(names) != len(opened.description.on):
            raise ValueError(
                f"the map has {len(opened.description.on)} key columns, {opened.description.on}, got {names}"
            )
        places = [place for place, _ in _native.key_columns(table.schema.empty_table(), names)]
        try:
            found = table_of(opened.native.probe(table.select(places), keep)).combine_chunks()
        except KeyError:
            raise KeyError(_DROPPED) from None
        ours, theirs = (column.chunk(0).to_numpy() if column.num_chunks else _NONE for column in found.columns)
        return ours, theirs

    def _rows(self, rows: Rows, columns: Sequence[int]) -> pa.Table:
        """Some columns of these rows, null for a row that does not exist."""
        opened = self._here()
        missing = rows == NO_ROW
        if opened.description.nbytes <= opened.store.limit // 2:
            with suppress(MemoryError):  # pages that others have pinned leave too little memory
                return taken(opened.table(columns), rows, missing)
        # One page after another, because the table need not fit into memory.
        starts = np.cumsum([0, *(rows for _, rows in opened.description.pages)])
        present = np.flatnonzero(~missing)
        pages = np.searchsorted(starts, rows[present], side="right") - 1
        order = np.argsort(pages, kind="stable")
        parts = [self.schema.empty_table().select(list(columns))]
        for page in np.unique(pages):
            mine = present[order[pages[order] == page]]
            parts.append(taken(opened.table(columns, slice(page, page + 1)), rows[mine] - starts[page]))
        places = np.zeros(len(rows), dtype=np.int64)
        places[present[order]] = np.arange(len(present))
        return taken(pa.concat_tables(parts), places, missing)

    # ---- lifetime ----

    def _here(self) -> _Opened:
        """The map in this process; the first use after unpickling or a fork opens it."""
        opened = self._opened
        if opened is not None and opened.process == os.getpid():
            return opened
        if opened is not None and opened.store.connected:  # the connection of a forked process is its own
            store, number = opened.store, opened.pages.number
        else:
            if self._place is None and opened is not None and opened.store.address is not None:
                self._place = (opened.store.address, opened.pages.number)
            if self._place is None:
                if opened is None:
                    raise ValueError("the join map is closed")
                raise ConnectionError(
                    "the join map is in the store of the process that forked this one, and that store is not served; "
                    "call store.serve() before the fork"
                )
            store, number = store_at(self._place[0]), self._place[1]
        try:
            store._native.retain_set(number)
        except KeyError:
            raise KeyError(_DROPPED) from None
        if opened is not None:
            self._inherited.append(opened)  # it must not be released here: it is the parent's
        self._opened = _Opened(store, LocalitySet(store, number, None))
        return self._opened

    def drop(self) -> None:
        """Drop the map, even if other processes refer to it. Views that were read stay valid; later calls raise `KeyError`."""
        with suppress(KeyError):
            self._here().pages.drop()

    def close(self) -> None:
        """Release the map; one without a name is dropped when no process refers to it any more. Later calls raise `ValueError`."""
        self._opened, self._place = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._place is not None and self._opened is None:
            return _map_from, (type(self), *self._place)
        opened = self._here()
        address = opened.store.address or opened.store.serve()
        opened.store._native.retain_set(opened.pages.number)  # keeps the map alive until it is unpickled
        return _map_from, (type(self), address, opened.pages.number)

    def __repr__(self) -> str:
        if self._opened is None:
            return f"<{type(self).__name__}>"
        found = self._opened.description
        return f"<{type(self).__name__} of {found.rows} rows on {', '.join(found.on)}>"


class BroadcastMap(JoinMap):
    """A join map of which each machine has one copy, so that a small table is joined where the rows of a large one are.

    One process builds it, and sends :meth:`~JoinMap.to_batches` to a process of each other machine, by whatever connects them; that
    process calls :meth:`receive`. All processes of a machine share its copy, and none builds an index again.

    Examples
    --------
    >>> from craton.store import BroadcastMap, Store
    >>> with Store.open(memory_limit=1 << 26) as here, Store.open(memory_limit=1 << 26) as there:
    ...     made = BroadcastMap.build(here, {"id": [1, 2], "name": ["a", "b"]}, on="id")
    ...     copy = BroadcastMap.receive(there, made.to_batches())
    ...     copy.join({"id": [2]})["name"].to_pylist(), len(BroadcastMap.receive(there, made.to_batches()))
    (['b'], 2)
    """

    @classmethod
    def receive(cls, store: Store, batches: Iterable[pa.RecordBatch]) -> Self:
        """The copy of a map in this machine's store, which is made if there is none.

        Only the first batch is taken from `batches` if the store has a copy, so an iterator that asks for one batch after another
        moves the map to each machine once. The copy lives until it is dropped.

        Parameters
        ----------
        store
            The store of this machine.
        batches
            What :meth:`~JoinMap.to_batches` of the map returned.

        Raises
        ------
        ValueError
            If the batches are not those of a map, or some are missing. No map is made then.
        MemoryError
            If a page does not fit into the memory that pinned pages leave.
        """
        rest = iter(batches)
        description = MapDescription.first(rest)
        name = f"copy of {description.identity}"
        with suppress(KeyError):
            return cls.open(store, name)
        try:
            return cls._copied(store, description, rest, name)
        except FileExistsError:  # another process was faster
            return cls.open(store, name)


def _table(data: Any) -> pa.Table:
    return data if isinstance(data, pa.Table) else pa.Table.from_batches(as_batches(data))


def _check_names(names: list[str]) -> None:
    if not names:
        raise ValueError("on must name at least one column, got none")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"on names {twice} more than once")


def _exists(name: str) -> FileExistsError:
    return FileExistsError(f"a join map named {name!r} exists; drop it first, or choose another name")


def _check_free(store: Store, name: str | None) -> None:
    if name is not None and _PREFIX + name in store:
        raise _exists(name)


def _renamed(name: str, others: Sequence[str], suffix: str | None) -> str:
    return name + suffix if suffix is not None and name in others else name


def _map_from(cls: type[JoinMap], address: str, number: int) -> JoinMap:
    made = cls.__new__(cls)
    made._opened, made._place, made._inherited = None, (address, number), []
    return made
