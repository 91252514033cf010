"""The shuffle: rows of many writers, distributed over one locality set a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from craton import _native
from craton.store.sets import LocalitySet, table_of
from craton.store.store import Durability, Store

Key = int | str

# What brings one table after another.
_STREAMS = (LocalitySet, Iterator, pa.RecordBatchReader)


class ShuffleWriter:
    """Appends tables to the sets of their rows' partitions.

    Each partition has an open page, to which all threads that share a writer append at the same time, each to a part of its
    own; a page without room is sealed, and paging may take it. Another process makes a writer of its own to the same sets,
    with pages of its own. A partition has the rows of every writer, those of each thread in the order in which it wrote them.

    Rows are in a set for good when their page is sealed; all are once :meth:`finish` has returned, or the ``with`` block has
    ended. A writer that ends otherwise, by an error in the block or with its process, loses its rows in pages that are not
    sealed yet, and no others; pages that were sealed stay, so drop the sets where rows must be all there or not at all.

    What a writer holds at the most does not depend on how much is written: the open pages, `page_bytes` a partition and never
    more than a quarter of the store's limit; the tables that were written last, by reference, up to 64 MiB for all threads
    and 16 for one; and a few bytes for each of their rows while these are appended. Lists, maps, unions, dictionaries,
    run-end encoded columns and list views cannot be appended row by row: tables with such columns are held, as much of them
    as all open pages would have, and become pages at once.

    Parameters
    ----------
    sets
        One a partition, all of one store.
    keys
        The columns that decide on the partition: names, or positions.
    kind
        ``"hash"``: by the stable hash of the keys, the same in every process and for every width of a number.
        ``"range"``: by ranges between `boundaries`.
    boundaries
        A table of one column a key, sorted; there are as many ranges as it has rows, and one.
    descending, nulls_first
        For each key, how `boundaries` are sorted.
    seed
        Of the hash.
    page_bytes
        How large a page becomes, in bytes: by default 4 MiB; more for few partitions, up to 16 MiB, and less for more
        than 128, so that all open pages together have 512 MiB. The first two pages of a partition are smaller.

    Raises
    ------
    KeyError
        When writing: if a key is no column.
    ValueError
        If there are no keys, or fewer sets than ranges, or a table has other columns than the one before.
    MemoryError
        When writing: if pages do not fit beside what is pinned.

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
        _whole: bool = False,
    ) -> None:
        if not sets:
            raise ValueError("expected one set a partition, got none")
        stores = {id(one._native): one._native for one in sets}
        if len(stores) != 1:
            raise ValueError(f"the sets are of {len(stores)} stores; one shuffle writes to one")
        if kind not in ("hash", "range"):
            raise ValueError(f"kind is 'hash' or 'range', not {kind!r}")
        if (kind == "range") != (boundaries is not None):
            raise ValueError("boundaries are given for kind='range', and only then")
        if page_bytes is not None and page_bytes <= 0:
            raise ValueError(f"page_bytes is more than 0, not {page_bytes}")
        self.sets = list(sets)
        named = [keys] if isinstance(keys, int | str) else list(keys)
        if not named:
            raise ValueError("no keys were given; a row's partition needs one at least")
        self._native = _native.ShuffleWriter(
            sets[0]._native,
            [one.number for one in sets],
            named,
            seed=seed,
            boundaries=None if boundaries is None else _one_batch(boundaries),
            descending=descending,
            nulls_first=nulls_first,
            page_bytes=page_bytes,
            whole=_whole,
        )

    def write(self, data: Any) -> None:
        """Append a table or record batch of pyarrow, Polars or pandas, or a dict of columns."""
        self._native.write(_arrow(data))

    def finish(self) -> None:
        """Have all rows in the sets. Nothing can be written afterwards; finishing twice is no error."""
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
    """Distribute the rows of a table over sets, one a partition; they keep their order.

    Parameters
    ----------
    store
        Where the sets are made.
    data
        A table or record batch of pyarrow, Polars or pandas, or a dict of columns; a locality set; or an iterator over
        such, which need not fit into memory.
    keys, kind, boundaries, descending, nulls_first, seed
        As for :class:`ShuffleWriter`.
    partitions
        How many, from 1 to 65,536.
    durability
        When the pages are written to disk: see :meth:`Store.create_set`.

    Returns
    -------
    list of LocalitySet
        Without names, so each lives as long as somebody uses it. A partition without rows has no pages.

    Raises
    ------
    KeyError
        If a key is no column.
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
        raise ValueError(f"{partitions} partitions; 1 to 65536 are possible")
    sets = [store.create_set(durability=durability, writing="concurrent") for _ in range(partitions)]
    writer = ShuffleWriter(
        sets,
        keys,
        kind=kind,
        boundaries=boundaries,
        descending=descending,
        nulls_first=nulls_first,
        seed=seed,
        # What is there as a whole becomes pages of exactly its size, in one pass.
        _whole=not isinstance(data, _STREAMS),
    )
    with writer:
        for table in data if isinstance(data, _STREAMS) else [data]:
            writer.write(table)
    return sets


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
