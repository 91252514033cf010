"""The shuffle: several writers distribute rows over partitions, each of which is one locality set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

from craton import _native
from craton.store.sets import STREAMS, LocalitySet, table_of
from craton.store.store import Durability, Store

Key = int | str


class ShuffleWriter:
    """Distributes the rows of tables over partitions, and appends each row to the set of its partition.

    The writer keeps one open page for each partition. All threads that share a writer append to the open pages at the same time, each
    to its own region of a page. The writer seals a page that is full; a sealed page may be evicted. Another process writes to the same
    sets with its own writer, which has its own open pages. A partition receives the rows of all writers; the rows that one thread wrote
    keep their order.

    A row is stored permanently once its page is sealed. :meth:`finish`, or the end of the ``with`` block, seals all pages. A writer that
    fails, by an error in the block or because its process dies, loses exactly the rows in pages that were not yet sealed. Pages that were
    sealed remain, so drop the sets if the shuffle must be all or nothing.

    The memory that a writer uses is bounded, however much is written: the open pages, of `page_bytes` for each partition and at most a
    quarter of the store's limit together; references to the last tables written, up to 16 MiB for one thread and 64 MiB for all; and a
    few bytes for each row of these tables while they are appended. Lists, maps, unions, dictionaries, run-end encoded columns and list
    views cannot be appended row by row. The writer buffers tables with such columns, as many bytes as all open pages together would
    have, and then writes them as complete pages.

    Parameters
    ----------
    sets
        One set for each partition, all of the same store.
    keys
        Names or positions of the columns that determine the partition.
    kind
        ``"hash"``: by the stable hash of the keys, which is the same in every process and for every numeric type of equal value.
        ``"range"``: by the ranges between `boundaries`.
    boundaries
        A sorted table with one column for each key; n rows divide the keys into n + 1 ranges.
    descending, nulls_first
        For each key, how `boundaries` are sorted.
    seed
        The seed of the hash.
    page_bytes
        Target size of a page in bytes. The default is 4 MiB; it grows to up to 16 MiB for few partitions, and shrinks for more than 128,
        so that all open pages together have 512 MiB. The first two pages of a partition are smaller.

    Raises
    ------
    KeyError
        When writing: if a key is not a column.
    ValueError
        If there are no keys, if there are fewer sets than ranges, or if a table's columns differ from those of the one before.
    MemoryError
        When writing: if a page does not fit into the memory that pinned pages leave.

    Examples
    --------
    >>> from craton.store import ShuffleWriter, Store
    >>> with Store.open(memory_limit=1 << 26) as store:
    ...     sets = [store.create_set() for _ in range(2)]
    ...     with ShuffleWriter(sets, ["n"]) as writer:
    ...         writer.write({"n": [1, 2, 3]})
    ...         writer.write({"n": [3, 4, 5]})
    ...     sum(info.rows for one in sets for info in one.pages())
    6
    """

    def __init__(
        self,
        sets: Sequence[LocalitySet],
        keys: Key | Iterable[Key],
        *,
        kind: Literal["hash", "range"] = "hash",
        boundaries: Any = None,
        descending: Sequence[bool] | None = None,
        nulls_first: Sequence[bool] | None = None,
        seed: int = 0,
        page_bytes: int | None = None,
        _exact_pages: bool = False,
    ) -> None:
        if not sets:
            raise ValueError("sets must have one set for each partition, got none")
        stores = {id(one._native): one._native for one in sets}
        if len(stores) != 1:
            raise ValueError(f"all sets must be of the same store, got sets of {len(stores)} stores")
        if kind not in ("hash", "range"):
            raise ValueError(f"kind must be 'hash' or 'range', got {kind!r}")
        if (kind == "range") != (boundaries is not None):
            raise ValueError("boundaries are required for kind='range', and not accepted for kind='hash'")
        if page_bytes is not None and page_bytes <= 0:
            raise ValueError(f"page_bytes must be greater than 0, got {page_bytes}")
        self.sets = list(sets)
        named = [keys] if isinstance(keys, int | str) else list(keys)
        if not named:
            raise ValueError("keys must name at least one column, got none")
        self._native = _native.ShuffleWriter(
            sets[0]._native,
            [one.number for one in sets],
            named,
            seed=seed,
            boundaries=None if boundaries is None else _one_batch(boundaries),
            descending=descending,
            nulls_first=nulls_first,
            page_bytes=page_bytes,
            whole=_exact_pages,
        )

    def write(self, data: Any) -> None:
        """Append a table or record batch of pyarrow, Polars or pandas, or a dict of columns.

        Small tables are kept until there are enough rows. Arrays and pandas frames are copied, so they may be changed afterwards.
        """
        self._native.write(_arrow(_unchanging(data)))

    def finish(self) -> None:
        """Seal all pages, so that all rows are in the sets. Later writes fail; a second call does nothing."""
        self._native.finish()

    def __enter__(self) -> ShuffleWriter:
        return self

    def __exit__(self, error: object, *_more: object) -> None:
        if error is None:
            self.finish()
        else:
            self._native.abandon()


def shuffle(
    store: Store,
    data: Any,
    keys: Key | Iterable[Key],
    partitions: int,
    *,
    kind: Literal["hash", "range"] = "hash",
    boundaries: Any = None,
    descending: Sequence[bool] | None = None,
    nulls_first: Sequence[bool] | None = None,
    seed: int = 0,
    durability: Durability = "write-back",
) -> list[LocalitySet]:
    """Distribute the rows of a table over partitions, each of which is a new set; the rows of a partition keep their order.

    Parameters
    ----------
    store
        The store that the sets are created in.
    data
        A table or record batch of pyarrow, Polars or pandas, or a dict of columns; a locality set; or an iterator over
        tables, which need not fit into memory together.
    keys, kind, boundaries, descending, nulls_first, seed
        As for :class:`ShuffleWriter`.
    partitions
        Number of partitions, from 1 to 65,536.
    durability
        When pages are written to disk: see :meth:`Store.create_set`.

    Returns
    -------
    list of LocalitySet
        One unnamed set for each partition; the store drops each when its last reference goes. A partition without rows has no pages.

    Raises
    ------
    KeyError
        If a key is not a column.
    ValueError, MemoryError
        As for :class:`ShuffleWriter`.

    Examples
    --------
    >>> from craton.store import Store, shuffle
    >>> with Store.open(memory_limit=1 << 26) as store:
    ...     parts = shuffle(store, {"n": [1, 2, 1, 3], "x": [0.5, 1.5, 2.5, 3.5]}, "n", 2)
    ...     sorted(x for part in parts if len(part) for x in part.to_arrow()["x"].to_pylist())
    [0.5, 1.5, 2.5, 3.5]
    """
    if not 1 <= partitions <= 65_536:
        raise ValueError(f"partitions must be from 1 to 65536, got {partitions}")
    sets = [store.create_set(durability=durability, writing="concurrent") for _ in range(partitions)]
    writer = ShuffleWriter(
        sets,
        keys,
        kind=kind,
        boundaries=boundaries,
        descending=descending,
        nulls_first=nulls_first,
        seed=seed,
        # A table that is complete in memory is partitioned in one pass, into pages of exactly the size of their rows.
        _exact_pages=not isinstance(data, STREAMS),
    )
    with writer:
        if isinstance(data, STREAMS):
            for table in data:
                writer.write(table)
        else:
            writer._native.write(_arrow(data))  # it is written before this returns
    return sets


def _unchanging(data: Any) -> Any:
    """Return a table whose memory nobody changes: NumPy's and pandas' is copied, Arrow's and Polars' never changes."""
    if isinstance(data, dict):
        return {name: _unchanging(column) for name, column in data.items()}
    package = type(data).__module__.partition(".")[0]
    return data.copy() if package in ("numpy", "pandas", "craton") and hasattr(data, "copy") else data


def _arrow(data: Any) -> Any:
    if isinstance(data, dict):
        return pa.table(data)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return data
    raise TypeError(f"expected a table of pyarrow, Polars or pandas, or a dict of columns, got {type(data).__name__}")


def _one_batch(boundaries: Any) -> Any:
    data = _arrow(boundaries)
    if isinstance(data, pa.RecordBatch):
        return data
    return table_of(data).combine_chunks()
