"""The pages of a join map: how a table is cut into them, what describes them, and gathering rows of tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from craton import _native, forks
from craton.store.sets import as_batches, empty_batch, one_batch

#: The key of the page that describes a map. It is written last.
DESCRIPTION_KEY = b"join map"
#: The row of the map for a row without a match.
NO_ROW = 2**32 - 1

#: The version of the layout.
_VERSION = 1
#: Batches of fewer bytes are concatenated, until they have as many as the second number.
_SMALL, _ENOUGH = 1 << 20, 4 << 20


@dataclass(frozen=True, slots=True)
class MapDescription:
    """What the last page of a map says about it.

    Attributes
    ----------
    identity : str
        The same for all copies of a map, and for no other map.
    on, kinds : list of str
        The key columns, and the kind of each one's values.
    rows, nbytes, index_bytes : int
        Rows of the table; bytes of all pages, and of the index pages.
    pages : list of [int, int]
        The number and the rows of each page of the table.
    index : list of int
        The numbers of the index pages.
    """

    identity: str
    on: list[str]
    kinds: list[str]
    rows: int
    nbytes: int
    index_bytes: int
    pages: list[list[int]]
    index: list[int]

    def encoded(self) -> bytes:
        """The description as bytes."""
        return json.dumps({"version": _VERSION, **asdict(self)}).encode()

    @classmethod
    def decoded(cls, data: bytes | str) -> MapDescription:
        """What :meth:`encoded` returned; raises a ValueError for another layout."""
        values = json.loads(data)
        version = values.pop("version", None)
        if version != _VERSION:
            raise ValueError(f"expected a join map with layout {_VERSION}, found {version!r}")
        return cls(**values)

    @classmethod
    def first(cls, batches: Iterator[pa.RecordBatch]) -> MapDescription:
        """The description in the first batch of a map; raises a ValueError if it is not one."""
        batch = next(batches, None)
        if not isinstance(batch, pa.RecordBatch) or batch.schema.names != ["join map"] or batch.num_rows != 1:
            raise ValueError("expected the batches of a join map, as to_batches() returns them")
        return cls.decoded(batch["join map"][0].as_py())


class MapSource:
    """Cuts tables into pages, and remembers the pages.

    Attributes
    ----------
    keys : list of (int, str) or None
        The position and the kind of each key column; None before the first table.
    pages : list of (int, int, int)
        The number of each page, its rows, and the most categories of a key column.
    nbytes : int
        Bytes of all pages.
    """

    def __init__(self, on: list[str], page_bytes: int) -> None:
        self._on, self._page_bytes = on, page_bytes
        self._empty: pa.RecordBatch | None = None
        self.keys: list[tuple[int, str]] | None = None
        self.pages: list[tuple[int, int, int]] = []
        self.nbytes = 0

    def batches(self, tables: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Batches of a good size; the only one without rows is that of tables without rows."""
        small: list[pa.RecordBatch] = []
        pending = 0
        for table in tables:
            for batch in self._cut(table):
                if batch.nbytes < _SMALL:
                    small.append(batch)
                    pending += batch.nbytes
                if small and (batch.nbytes >= _SMALL or pending >= min(_ENOUGH, self._page_bytes)):
                    yield _together(small)
                    small, pending = [], 0
                if batch.nbytes >= _SMALL:
                    yield batch
        if small:
            yield _together(small)
        elif not self.pages and self._empty is not None:
            yield self._empty

    def _cut(self, table: Any) -> Iterator[pa.RecordBatch]:
        for batch in as_batches(table, 1 << 62):
            self._check(batch)
            parts = -(-batch.nbytes // self._page_bytes)
            rows = max(-(-batch.num_rows // max(parts, 1)), 1)
            yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    def _check(self, batch: pa.RecordBatch) -> None:
        if self._empty is None:
            self.keys = _native.key_columns(batch.schema.empty_table(), self._on)
            self._empty = empty_batch(pa.Table.from_batches([batch]))
        elif not batch.schema.equals(self._empty.schema):
            raise ValueError(
                f"expected the columns of the table before, {_columns(self._empty.schema)}, got {_columns(batch.schema)}"
            )

    def appended(self, batch: pa.RecordBatch, infos: Sequence[_native.PageInfo]) -> None:
        """Remember the pages that a batch became."""
        columns = [batch.column(place) for place, _ in self.keys or []]
        categories = [len(column.dictionary) for column in columns if pa.types.is_dictionary(column.type)]
        self.pages += [(info.number, info.rows, max(categories, default=0)) for info in infos]
        self.nbytes += sum(info.nbytes for info in infos)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else one_batch(pa.Table.from_batches(batches).unify_dictionaries())


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name}: {field.type}" for field in schema]


def taken(table: pa.Table, rows: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Table:
    """Copies of some rows of a table; nulls for those that are missing."""
    wanted = pa.array(rows, mask=missing)
    table = table.unify_dictionaries()
    columns = [_taken(column, wanted) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=_nullable(table.schema) if missing is not None else table.schema)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema], metadata=schema.metadata)


def _taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    # pyarrow selects rows of all types except views.
    plain = _without_views(column.type)
    if plain == column.type or pa.types.is_dictionary(column.type):
        return column.take(rows)
    if pa.types.is_nested(column.type) or forks.kernel_lost():
        return column.cast(plain).take(rows).cast(column.type)
    import polars as pl

    found = pl.Series(pl.from_arrow(column)).gather(pl.Series(pl.from_arrow(rows)))
    return pa.chunked_array([found.to_arrow(compat_level=pl.CompatLevel.newest())], column.type)


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """The type with large text and large binary in place of views."""
    types = pa.types
    if types.is_string_view(data_type):
        return pa.large_string()
    if types.is_binary_view(data_type):
        return pa.large_binary()
    if types.is_dictionary(data_type):
        return pa.dictionary(data_type.index_type, _without_views(data_type.value_type), data_type.ordered)
    if types.is_struct(data_type):
        return pa.struct([field.with_type(_without_views(field.type)) for field in data_type])
    if types.is_list(data_type) or types.is_large_list(data_type):
        made = pa.list_ if types.is_list(data_type) else pa.large_list
        return made(data_type.value_field.with_type(_without_views(data_type.value_type)))
    return data_type
