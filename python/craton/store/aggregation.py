"""Hash aggregation in a store: groups of rows by key, which may need more memory than the store has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa

from craton import _native
from craton.store.sets import STREAMS, as_batches, one_batch, table_of
from craton.store.store import Store

How = Literal["count", "sum", "min", "max", "last"]

#: Batches of groups with fewer rows are concatenated.
_SMALL_ROWS = 4096


class HashAggregate:
    """Groups the rows of tables by key, and aggregates the values of each group.

    The groups are in pages of the store, each of which is an independent hash table for a range of hashes. A page that is full is split in
    two. When the pages have used up `memory`, full pages are sealed with partial results instead; the store may write them to disk. At the
    end, partial results are aggregated again. The memory of the process does not grow with the number of groups.

    Null values are skipped. A null key is a key of its own, and so is NaN; ``-0.0`` is the key ``0.0``. Any number of threads may add
    tables at once. If one thread adds all tables, each sum of floats depends only on the order of the rows, as long as nothing else takes
    the store's memory.

    Parameters
    ----------
    store
        The store, in this process or in another one.
    keys
        Names of the key columns: text, binary, numbers of at most 64 bits, booleans, dates, times or categories.
    aggregates
        For each result its name, and the name of its column and how it is aggregated:

        - ``"count"``: the number of values; of rows, if the column is None
        - ``"sum"``: of integers and booleans as int64, of floats as float64, of durations
        - ``"min"``, ``"max"``: of numbers, booleans, dates and times; null without values. NaN is used only if there are no other values.
        - ``"last"``: the value added last; null without values

    memory
        Most bytes of pages that are not sealed; by default half of the store's limit.
    page_bytes
        Bytes of a page, at most a quarter of `memory`; by default 1 MiB, or less if the memory is small. A key has at most half as many.

    Examples
    --------
    >>> from craton.store import HashAggregate, Store
    >>> with Store.open(memory_limit=1 << 26) as store:
    ...     sums = HashAggregate(store, ["word"], {"n": ("count", "sum"), "rows": (None, "count")})
    ...     sums.add({"word": ["a", "b", "a"], "count": [1, 2, 3]})
    ...     sums.add({"word": ["b", None], "count": [4, 5]})
    ...     sums.finish().read_all().sort_by("word").to_pylist()
    [{'word': 'a', 'n': 4, 'rows': 2}, {'word': 'b', 'n': 6, 'rows': 2}, {'word': None, 'n': 5, 'rows': 1}]
    """

    def __init__(
        self,
        store: Store,
        keys: str | Iterable[str],
        aggregates: Mapping[str, tuple[str | None, How]],
        *,
        memory: int | None = None,
        page_bytes: int | None = None,
    ) -> None:
        names = [keys] if isinstance(keys, str) else list(keys)
        if not names:
            raise ValueError("keys must name at least one column, got none")
        results = [*names, *aggregates]
        twice = sorted({name for name in results if results.count(name) > 1})
        if twice:
            raise ValueError(f"each column of the result needs a name of its own, and {twice} are used twice")
        wanted = [_wanted(name, given) for name, given in aggregates.items()]
        self._store = store  # the store stays open as long as its tables are used
        self._native = _native.HashTable(store._native, names, wanted, memory=memory, page_bytes=page_bytes)

    def add(self, data: Any) -> None:
        """Add the rows of a table; several threads may do so at once.

        Parameters
        ----------
        data
            A table or record batch of pyarrow, Polars or pandas, or a dict of columns; a locality set; or an iterator over tables, which
            need not fit into memory together.

        Raises
        ------
        KeyError
            If a column is missing.
        TypeError
            If a column's type cannot be a key, or does not have the aggregate.
        ValueError
            If a key is too long, or a column's type differs from that in the table added before. As with the errors above, no row of the
            table is added, and others can be.
        OverflowError
            If a sum of integers overflows 64 bits, even if it would get smaller again later. After this and other errors, the aggregation
            has failed and takes no more rows.
        MemoryError
            If pinned pages and reservations leave too little memory.
        OSError
            If the disk is full.
        """
        for table in data if isinstance(data, STREAMS) else [data]:
            self._native.add(pa.Table.from_batches(as_batches(table)))

    def finish(self) -> pa.RecordBatchReader:
        """End the aggregation, and return its groups in any order: the key columns, then a column for each aggregate.

        Groups are computed as they are read, and their memory is freed when the batch that has them is collected.

        Raises
        ------
        ValueError
            If no table was added, so that the types of the columns are unknown; or if the aggregation was finished before or has failed.
        """
        groups, schema = self._native.groups(True), self._native.schema()
        if groups is None or schema is None:
            raise ValueError(
                "no table was added, so the columns are unknown; add a table first, which may have no rows"
            )
        return _reader(groups, schema)

    def __len__(self) -> int:
        """The number of groups so far; combines partial results, so it takes long if there are any."""
        return self._native.count()

    @property
    def spilled_pages(self) -> int:
        """How many pages with partial results were sealed because `memory` was used up."""
        return self._native.sealed_pages

    def drop(self) -> None:
        """Drop all groups."""
        self._native.clear()

    def __enter__(self) -> HashAggregate:
        return self

    def __exit__(self, *_error: object) -> None:
        self.drop()


def _wanted(name: str, given: Any) -> tuple[str, str | None, str]:
    if not (isinstance(given, tuple) and len(given) == 2):
        raise TypeError(f"{name}: expected the name of a column and how it is aggregated, got {given!r}")
    column, how = given
    if how not in ("count", "sum", "min", "max", "last"):
        raise ValueError(f"{name}: expected one of 'count', 'sum', 'min', 'max' and 'last', got {how!r}")
    if column is None and how != "count":
        raise ValueError(f"{name}: a {how} needs a column; only a count of rows does not")
    return name, column, how


def _reader(groups: _native.TableGroups, schema: _native.ArrowBatches) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        small: list[pa.RecordBatch] = []
        while (some := groups.next()) is not None:
            for batch in table_of(some).to_batches():
                if batch.num_rows >= _SMALL_ROWS:
                    yield batch
                    continue
                small.append(batch)
                if sum(one.num_rows for one in small) >= _SMALL_ROWS:
                    yield one_batch(pa.Table.from_batches(small))
                    small = []
        if small:
            yield one_batch(pa.Table.from_batches(small))

    return pa.RecordBatchReader.from_batches(pa.RecordBatchReader.from_stream(schema).schema, batches())


class HashMap:
    """A map from keys to numbers in the memory of a store, for streams of updates: one number for each key.

    The pages of the map are like those of :class:`HashAggregate`, so the map may be larger than the memory. Reading keys whose pages were
    written to disk reads these pages. Any number of threads may use a map at once. Null keys and values are as there; an update with a
    null value adds the key, but no value.

    Parameters
    ----------
    store
        The store, in this process or in another one.
    how
        How a new value of a key is combined with the one it has: ``"sum"``, ``"min"``, ``"max"``, or ``"last"``, which replaces it.
    memory, page_bytes
        As for :class:`HashAggregate`.

    Examples
    --------
    >>> from craton.store import HashMap, Store
    >>> with Store.open(memory_limit=1 << 26) as store:
    ...     counts = HashMap(store, how="sum")
    ...     counts.update(["a", "b", "a"], 1)
    ...     counts.update(["b", "c"], [10, 20])
    ...     counts["b"], "d" in counts, len(counts), counts.get(["a", "d"]).to_pylist()
    (11, False, 3, [2, None])
    """

    def __init__(
        self,
        store: Store,
        how: Literal["sum", "min", "max", "last"] = "last",
        *,
        memory: int | None = None,
        page_bytes: int | None = None,
    ) -> None:
        if how not in ("sum", "min", "max", "last"):
            raise ValueError(f"how must be one of 'sum', 'min', 'max' and 'last', got {how!r}")
        self._store = store  # the store stays open as long as its maps are used
        self._native = _native.HashTable(
            store._native, ["key"], [("value", "value", how)], memory=memory, page_bytes=page_bytes
        )
        self._types: tuple[pa.DataType, pa.DataType] | None = None

    def update(self, keys: Any, values: Any) -> None:
        """Combine values with those of keys; the keys and the values of the first update determine the types of all.

        Parameters
        ----------
        keys
            An array of pyarrow, NumPy, Polars or pandas, or a list.
        values
            As many numbers as there are keys, or one for all.

        Raises
        ------
        ValueError
            If there are not as many values as keys, or a key is too long. Nothing is updated.
        TypeError
            If keys or values have a type that a map cannot have, or cannot be converted to that of the map. Nothing is updated.
        OverflowError
            If a sum of integers overflows 64 bits. After this and other errors, the map has failed and cannot be used any more.
        MemoryError
            If pinned pages and reservations leave too little memory.
        """
        known = self._types or (None, None)
        key_array = _array(keys, known[0], "keys")
        if isinstance(values, int | float):
            value_array = _array(pa.repeat(values, len(key_array)), known[1], "values")
        else:
            value_array = _array(values, known[1], "values")
        if len(key_array) != len(value_array):
            raise ValueError(
                f"expected as many values as keys, got {len(value_array)} values for {len(key_array)} keys"
            )
        if self._types is None and any(pa.types.is_null(array.type) for array in (key_array, value_array)):
            if len(key_array) == 0:
                return
            raise ValueError("the first keys or values are all null, so their type is unknown")
        self._native.add(pa.record_batch([key_array, value_array], ["key", "value"]))
        self._types = self._types or (key_array.type, value_array.type)

    def get(self, keys: Any) -> pa.Array:
        """The values of keys, null for those that the map does not have.

        Raises
        ------
        TypeError
            If the keys cannot be converted to the type of the map's keys.
        """
        return self._find(_array(keys, None if self._types is None else self._types[0], "keys"))[0]

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Whether the map has each of these keys."""
        return self._find(_array(keys, None if self._types is None else self._types[0], "keys"))[1]

    def discard(self, keys: Any) -> int:
        """Remove keys, and return how many of them the map had."""
        if self._types is None:
            return 0
        return self._native.remove(pa.record_batch([_array(keys, self._types[0], "keys")], ["key"]))

    def __getitem__(self, key: Any) -> Any:
        array = self._one(key)
        if array is not None:
            values, known = self._find(array)
            if known[0].as_py():
                return values[0].as_py()
        raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        array = self._one(key)
        return array is not None and bool(self._find(array)[1][0].as_py())

    def __delitem__(self, key: Any) -> None:
        array = self._one(key)
        if array is None or self.discard(array) == 0:
            raise KeyError(key)

    def __len__(self) -> int:
        return self._native.count()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over copies of the map's contents: batches with the columns ``key`` and ``value``.

        A key that is added or removed meanwhile may or may not be in them.
        """
        groups, schema = self._native.groups(False), self._native.schema()
        if groups is not None and schema is not None:
            yield from _reader(groups, schema)

    def drop(self) -> None:
        """Drop all keys; the next update determines the types."""
        self._native.clear()
        self._types = None

    def __enter__(self) -> HashMap:
        return self

    def __exit__(self, *_error: object) -> None:
        self.drop()

    def _find(self, keys: pa.Array) -> tuple[pa.Array, pa.BooleanArray]:
        found = self._native.find(pa.record_batch([keys], ["key"]))
        if found is None:
            return pa.nulls(len(keys)), pa.repeat(False, len(keys))
        batch = table_of(found).combine_chunks()
        return _whole(batch.column(0)), _whole(batch.column(1))

    def _one(self, key: Any) -> pa.Array | None:
        """A key as an array; None if it cannot be a key of this map."""
        if self._types is None:
            return None
        try:
            return _array([key], self._types[0], "a key")
        except (TypeError, ValueError, OverflowError):
            return None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _array(data: Any, data_type: pa.DataType | None, what: str) -> pa.Array:
    """An array of that type, or of its own type if None."""
    try:
        if isinstance(data, pa.Array):
            array = data
        elif hasattr(data, "__arrow_c_stream__"):
            array = _whole(pa.chunked_array(data))
        else:
            array = pa.array(data)
        if isinstance(array, pa.ChunkedArray):
            array = _whole(array)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if data_type is None or array.type == data_type:
            return array
        if _kind(array.type) not in ("null", _kind(data_type)):
            raise pa.ArrowTypeError(f"got {array.type}")
        return array.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        wanted = "" if data_type is None else f" of type {data_type}"
        raise TypeError(f"expected {what}{wanted}: {error}") from error


def _kind(data_type: pa.DataType) -> str:
    """What values are; those of one kind are converted to each other if that is exact."""
    types = pa.types
    if types.is_integer(data_type) or types.is_floating(data_type):
        return "number"
    if types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
        return "text"
    if types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_binary_view(data_type):
        return "binary"
    if types.is_timestamp(data_type) or types.is_date(data_type):
        return "instant"
    return str(data_type).partition("[")[0]
