"""Locality sets: the pages of one dataset, written, read and evicted in one way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from craton import _native
from craton.imported import imported_pandas

if TYPE_CHECKING:
    from craton.store.store import Store

#: Bytes that a page of a large table has at most, where its rows allow.
PAGE_BYTES = 64 << 20


def as_batches(data: Any, page_bytes: int = PAGE_BYTES) -> list[pa.RecordBatch]:
    """Tables of any kind as record batches of at most about `page_bytes`, without copying where they are Arrow already.

    Raises
    ------
    TypeError
        If the data is no table.
    """
    if isinstance(data, pa.RecordBatch):
        batches = [data]
    elif isinstance(data, pa.Table):
        batches = data.to_batches() or [_no_rows(data.schema)]
    elif isinstance(data, dict):
        batches = table_of(data).to_batches()
    elif hasattr(data, "__arrow_c_stream__"):
        table = table_of(data)
        batches = table.to_batches() or [_no_rows(table.schema)]
    else:
        raise TypeError(
            f"expected a table of pyarrow, Polars or pandas, or a dict of columns, got {type(data).__name__}"
        )
    cut: list[pa.RecordBatch] = []
    for batch in batches:
        parts = min(max(-(-batch.get_total_buffer_size() // page_bytes), 1), max(batch.num_rows, 1))
        rows = max(-(-batch.num_rows // parts), 1)
        cut += [batch.slice(start, rows) for start in range(0, max(batch.num_rows, 1), rows)]
    return cut


def table_of(data: Any) -> pa.Table:
    """A stream of Arrow data, or a dict of columns, as a table. Unlike `pyarrow.table`, it imports pandas for nobody else's data."""
    pandas = imported_pandas()
    if isinstance(data, pa.Table | dict) or (pandas is not None and isinstance(data, pandas.DataFrame)):
        return pa.table(data)
    return pa.RecordBatchReader.from_stream(data).read_all()


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in schema.empty_table().columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class LocalitySet:
    """The pages of one dataset.

    Made by :meth:`Store.create_set`. A set without a name is dropped when no process has a reference to it any more.

    Attributes
    ----------
    name : str or None
        Its name.
    number : int
        Its number in the store.
    """

    def __init__(self, store: Store, number: int, name: str | None, held: _native.SetUse | None = None) -> None:
        self._store, self._native = store, store._native
        self.number, self.name = number, name
        self._held = self._native.hold(number) if held is None else held  # lets go of the set

    # ---- writing ----

    def append(
        self, data: Any, *, key: bytes | None = None, statistics: bytes = b"", rebuild: float = 0.0
    ) -> list[_native.PageInfo]:
        """Append a table; memory that lies in the store already is referred to and not copied.

        Parameters
        ----------
        data
            A table or record batch of pyarrow, Polars or pandas, or a dict of columns.
        key
            Names the page within the set; the table must be one page then. A second page with that key is not made: the
            first one is returned.
        statistics
            What is known of the contents; kept, and not interpreted.
        rebuild
            Seconds that it would take to make the page again.

        Returns
        -------
        list of PageInfo
            One a page; large tables are cut into several.

        Raises
        ------
        MemoryError
            If the table does not fit beside what is pinned.
        """
        if key is not None:
            table = data if isinstance(data, pa.RecordBatch) else table_of(data)
            batches = [table if isinstance(table, pa.RecordBatch) else one_batch(table)]
        else:
            batches = as_batches(data)
        self._native.set_attributes(self.number, operation="write")
        try:
            return [
                info
                for batch in batches
                for info in self._native.write(
                    self.number, batch, key=key, statistics=statistics, rebuild=round(rebuild * 1e9)
                )
            ]
        finally:
            self._native.set_attributes(self.number, operation="none")

    # ---- reading ----

    def pages(self) -> list[_native.PageInfo]:
        """What is known of each page, in the order of their numbers."""
        return self._native.pages(self.number)

    def find(self, keys: Sequence[bytes]) -> list[_native.PageInfo | None]:
        """The pages with these keys, None where there is none."""
        return self._native.find_pages(self.number, list(keys))

    def drop_key(self, key: bytes) -> None:
        """Drop the page with that key, if there is one."""
        (info,) = self.find([key])
        if info is not None:
            with contextlib.suppress(KeyError):
                self._native.drop_page(self.number, info.number)

    def pin(self, page: int | _native.PageInfo) -> _native.Page:
        """The page, in memory as long as the result or anything read from it lives.

        Raises
        ------
        KeyError
            If there is no such page, or it was dropped.
        CorruptPage
            If its image on disk is not what was written.
        """
        return self._native.pin(self.number, page if isinstance(page, int) else page.number)

    def read(self, groups: Sequence[tuple[Sequence[int], Sequence[int] | None]]) -> list[list[_native.ArrowBatches]]:
        """Pages, pinned together, as Arrow data over the store's memory.

        Parameters
        ----------
        groups
            Numbers of pages, and the positions of the columns that are wanted of them, None for all.

        Returns
        -------
        list of list of ArrowBatches
            For each group, its pages; those of one schema that follow each other together.

        Raises
        ------
        KeyError
            If there is no such page, or it was dropped; then none stays pinned.
        MemoryError
            If they do not fit together beside what is pinned.
        """
        return self._native.read(self.number, groups)

    def prefetch(self, pages: Iterable[int]) -> None:
        """Read these pages in the background, as far as there is room."""
        self._native.prefetch([(self.number, page) for page in pages])

    def reader(self, workers: int = 1) -> PageReader:
        """Pages one after another, read ahead; several threads may take from one reader.

        Parameters
        ----------
        workers
            How many threads will; decides how far ahead is read.
        """
        return PageReader(self, workers)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self.reader() as reader:
            for page in reader:
                yield from table_of(page.batch()).to_batches()

    def to_arrow(self, columns: Sequence[int] | None = None) -> pa.Table:
        """All pages as one table over the store's memory, or only some of the columns, by position.

        Raises
        ------
        ValueError
            If the set has no pages.
        """
        wanted = None if columns is None else list(columns)
        parts = self._native.read_all(self.number, wanted)
        if parts is None:  # page after page, read ahead
            with self.reader() as reader:
                parts = [page.batch(wanted) for page in reader]
        if not parts:
            raise ValueError("the set has no pages, hence no columns")
        return one_table(parts)

    # ---- life ----

    def attributes(self) -> dict[str, Any]:
        """The set's row of :meth:`Store.describe`."""
        found = [row for row in self._native.describe() if row["set"] == self.number]
        if not found:
            raise KeyError(f"no set {self.number}: it was dropped")
        return found[0]

    @property
    def tag(self) -> bytes:
        """What the set is a copy of."""
        return bytes(self.attributes()["tag"])

    def keep_in_memory(self, pinned: bool = True) -> None:
        """Keep every page in memory, or no longer."""
        self._native.set_attributes(self.number, pinned=pinned)

    def end_lifetime(self) -> None:
        """Nobody will read it again: its pages are evicted before all others, and not written."""
        self._native.set_attributes(self.number, ended=True)

    def drop(self) -> None:
        """Drop the set and its pages. What was read from them stays valid."""
        self._native.drop_set(self.number)

    def __len__(self) -> int:
        return len(self.pages())

    def __repr__(self) -> str:
        return f"<LocalitySet {self.number}{f' {self.name!r}' if self.name else ''}>"


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one record batch, of no rows if it has none."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else _no_rows(table.schema)


def one_table(parts: Sequence[_native.ArrowBatches]) -> pa.Table:
    """The pages that were read as one table."""
    tables = [table_of(part) for part in parts]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


class PageReader:
    """Pages of a set, each once, to whichever thread asks next."""

    def __init__(self, pages: LocalitySet, workers: int) -> None:
        self._native = pages._native.reader(pages.number, workers)
        self._set = pages  # keeps it alive

    def __iter__(self) -> PageReader:
        return self

    def __next__(self) -> _native.Page:
        page = self._native.next()
        if page is None:
            raise StopIteration
        return page

    def close(self) -> None:
        """Stop reading ahead."""
        self._native.close()

    def __enter__(self) -> PageReader:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
