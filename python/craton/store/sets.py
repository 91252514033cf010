"""Locality sets: the pages of one dataset, with the attributes that paging uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from craton import _native
from craton.imported import imported_pandas

if TYPE_CHECKING:
    from craton.store.store import Store

#: Target size of the pages that a large table is cut into; a page has at least one row, however large.
PAGE_BYTES = 64 << 20


def as_batches(data: Any, page_bytes: int = PAGE_BYTES) -> list[pa.RecordBatch]:
    """Convert a table of any kind to record batches of about `page_bytes` at most; Arrow data is not copied.

    Raises
    ------
    TypeError
        If the data is not a table.
    """
    if isinstance(data, pa.RecordBatch):
        batches = [data]
    elif isinstance(data, pa.Table):
        batches = data.to_batches() or [empty_batch(data)]
    elif isinstance(data, dict) or hasattr(data, "__arrow_c_stream__"):
        table = table_of(data)
        batches = table.to_batches() or [empty_batch(table)]
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
    """An Arrow stream or a dict of columns as a table. `pyarrow.table` would import pandas; this does not."""
    pandas = imported_pandas()
    if isinstance(data, pa.Table | dict) or (pandas is not None and isinstance(data, pandas.DataFrame)):
        return pa.table(data)
    return pa.RecordBatchReader.from_stream(data).read_all()


def empty_batch(table: pa.Table) -> pa.RecordBatch:
    """A batch without rows. Columns of categories keep those that the table has, even if no row uses them."""
    columns = [
        column.chunk(0).slice(0, 0) if column.num_chunks else pa.array([], column.type) for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


class LocalitySet:
    """The pages of one dataset.

    Made by :meth:`Store.create_set`. The store drops a set without a name when the last reference to it in any process goes.

    Attributes
    ----------
    name : str or None
        Its name.
    number : int
        Its number in the store.
    """

    def __init__(self, store: Store, number: int, name: str | None, use: _native.SetUse | None = None) -> None:
        self._store, self._native = store, store._native
        self.number, self.name = number, name
        self._use = self._native.hold(number) if use is None else use  # releases the set when it is collected

    # ---- writing ----

    def append(
        self, data: Any, *, key: bytes | None = None, statistics: bytes = b"", rebuild: float = 0.0
    ) -> list[_native.PageInfo]:
        """Append a table. Buffers that are already in the store's memory are referenced, not copied.

        Parameters
        ----------
        data
            A table or record batch of pyarrow, Polars or pandas, or a dict of columns.
        key
            Identifies the page within the set; the table becomes a single page. If the set already has a page with this key, nothing is
            written and that page is returned.
        statistics
            Any bytes that describe the contents; stored and not interpreted.
        rebuild
            Seconds that making the page again would take; paging weighs them.

        Returns
        -------
        list of PageInfo
            One for each page; a large table is cut into several.

        Raises
        ------
        MemoryError
            If the table does not fit into the memory that pinned pages leave.
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
        """The `PageInfo` of each page, in the order of page numbers."""
        return self._native.pages(self.number)

    def find(self, keys: Sequence[bytes]) -> list[_native.PageInfo | None]:
        """The page with each of these keys, None for a key without one."""
        return self._native.find_pages(self.number, list(keys))

    def drop_key(self, key: bytes) -> None:
        """Drop the page with that key, if there is one."""
        (info,) = self.find([key])
        if info is not None:
            with contextlib.suppress(KeyError):
                self._native.drop_page(self.number, info.number)

    def pin(self, page: int | _native.PageInfo) -> _native.Page:
        """Pin a page: it stays in memory as long as the result or anything read from it lives.

        Raises
        ------
        KeyError
            If there is no such page, or it was dropped.
        CorruptPage
            If its image on disk is damaged.
        """
        return self._native.pin(self.number, page if isinstance(page, int) else page.number)

    def read(self, groups: Sequence[tuple[Sequence[int], Sequence[int] | None]]) -> list[list[_native.ArrowBatches]]:
        """Pin several pages together, and return them as Arrow data over the store's memory.

        Parameters
        ----------
        groups
            For each group, page numbers and the positions of the columns to read from these pages, None for all columns.

        Returns
        -------
        list of list of ArrowBatches
            For each group, its pages; consecutive pages of equal schema are in one `ArrowBatches`.

        Raises
        ------
        KeyError
            If a page does not exist or was dropped; then no page stays pinned.
        MemoryError
            If the pages do not fit together into the memory that other pinned pages leave.
        """
        return self._native.read(self.number, groups)

    def prefetch(self, pages: Iterable[int]) -> None:
        """Load these pages in the background, as far as memory is free."""
        self._native.prefetch([(self.number, page) for page in pages])

    def reader(self, workers: int = 1) -> PageReader:
        """An iterator over the pages with read-ahead, which several threads may share.

        Parameters
        ----------
        workers
            Number of threads that share the reader; determines how many pages it reads ahead.
        """
        return PageReader(self, workers)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self.reader() as reader:
            for page in reader:
                yield from table_of(page.batch()).to_batches()

    def to_arrow(self, columns: Sequence[int] | None = None) -> pa.Table:
        """All pages as one table over the store's memory; `columns` selects columns by position.

        Raises
        ------
        ValueError
            If the set has no pages.
        """
        wanted = None if columns is None else list(columns)
        parts = self._native.read_all(self.number, wanted)
        if parts is None:  # some pages are on disk: read page after page, with read-ahead
            with self.reader() as reader:
                parts = [page.batch(wanted) for page in reader]
        if not parts:
            raise ValueError(f"{self!r} has no pages, so its columns are unknown; append a table first")
        return one_table(parts)

    # ---- attributes and lifetime ----

    def attributes(self) -> dict[str, Any]:
        """The set's row of :meth:`Store.describe`."""
        found = [row for row in self._native.describe() if row["set"] == self.number]
        if not found:
            raise KeyError(f"set {self.number} does not exist: it was dropped")
        return found[0]

    @property
    def tag(self) -> bytes:
        """The tag given to :meth:`Store.create_set`: identifies what the set is a copy of."""
        return bytes(self.attributes()["tag"])

    def keep_in_memory(self, pinned: bool = True) -> None:
        """Pin every page of the set in memory; with ``pinned=False``, undo that."""
        self._native.set_attributes(self.number, pinned=pinned)

    def end_lifetime(self) -> None:
        """Declare that the set will not be read again: its pages are evicted before all others, and not written."""
        self._native.set_attributes(self.number, ended=True)

    def publish(self, name: str) -> None:
        """Give a set without a name this name, in one step: other processes find it with all of its pages, or not at all.

        The set then lives until it is dropped or the store is closed.

        Raises
        ------
        FileExistsError
            If there is a set of that name.
        ValueError
            If the set has a name.
        """
        self._native.name_set(self.number, name)
        self.name = name

    def drop(self) -> None:
        """Drop the set and its pages. Views that were read stay valid."""
        self._native.drop_set(self.number)

    def __len__(self) -> int:
        return len(self.pages())

    def __repr__(self) -> str:
        return f"<LocalitySet {self.number}{f' {self.name!r}' if self.name else ''}>"


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one record batch, which may have no rows."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else empty_batch(table)


def one_table(parts: Sequence[_native.ArrowBatches]) -> pa.Table:
    """Concatenate pages into one table."""
    tables = [table_of(part) for part in parts]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


class PageReader:
    """An iterator over the pages of a set that threads may share: each page goes to one of them."""

    def __init__(self, pages: LocalitySet, workers: int) -> None:
        self._native = pages._native.reader(pages.number, workers)
        self._set = pages  # a set without a name lives as long as a reference to it

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


#: Inputs that yield one table after another.
STREAMS = (LocalitySet, Iterator, pa.RecordBatchReader)
