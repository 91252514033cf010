"""Objects in a store: ``put`` stores an object once and returns a reference; ``get`` reads a view of it in any process.

Large Arrow and Polars tables are stored as pages of columns, so that reading some columns reads only their pages. Every other object is
pickled with out-of-band buffers, which are read without copying.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from craton import _native
from craton.serialize import encode
from craton.serialize.decoding import decode_buffers
from craton.store.process import default_store, store_at
from craton.store.sets import LocalitySet, as_batches, one_table
from craton.store.store import Store

#: Columns of at least this size have pages of their own; the smaller ones share theirs.
COLUMN_PAGE_BYTES = 1 << 20
#: The statistics of page 0 of a table that is stored by columns. That page is the table's header.
_TABLE = b"table"


class Ref:
    """A reference to an object in a store.

    Small, hashable, and picklable: an unpickled reference connects to the store when it is first used. The object lives until no
    process has a reference to it. A process that pickles a reference keeps the object alive until that process ends.
    """

    __slots__ = ("__weakref__", "_address", "_store", "_use", "number")

    def __init__(self, store: Store, use: _native.SetUse) -> None:
        self._store: Store | None = store
        self._use: _native.SetUse | None = use
        self._address: str | None = None
        self.number = use.number

    @property
    def pages(self) -> LocalitySet:
        """The set that holds the object.

        Raises
        ------
        KeyError
            If the object was dropped.
        ConnectionError
            If the store is no longer served.
        """
        store = self._connected_store()
        return LocalitySet(store, self.number, None, self._use)

    def _connected_store(self) -> Store:
        """The store; the first call after unpickling connects to it and registers this reference's use of the object."""
        if self._store is None:
            assert self._address is not None
            store = store_at(self._address)
            store._native.retain_set(self.number)
            self._use = store._native.hold(self.number)
            self._store = store
        return self._store

    def drop(self) -> None:
        """Drop the object even if other references to it exist. Views that were read stay valid."""
        with contextlib.suppress(KeyError):
            self.pages.drop()

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store
        if store is None:
            return _ref_from, (self._address, self.number)
        address = store.address or store.serve()
        store._native.retain_set(self.number)  # keeps the object alive until it is unpickled, however late that is
        return _ref_from, (address, self.number)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ref) and self.number == other.number and self._store_address() == other._store_address()
        )

    def __hash__(self) -> int:
        return hash(self.number)

    def _store_address(self) -> str | None:
        return self._address if self._store is None else self._store.address

    def __repr__(self) -> str:
        return f"<Ref {self.number}>"


def _ref_from(address: str, number: int) -> Ref:
    ref = Ref.__new__(Ref)
    ref._store, ref._use, ref._address, ref.number = None, None, address, number
    return ref


def put(obj: Any, *, store: Store | None = None) -> Ref:
    """Put an object into the store.

    Parameters
    ----------
    obj
        Any object that can be pickled, including functions and local classes.
    store
        Where to put it; by default the store of this process.

    Returns
    -------
    Ref
        A reference for :func:`get`, in this process or another.

    Raises
    ------
    MemoryError
        If the object does not fit into the memory that pinned pages leave.

    Examples
    --------
    >>> import craton, numpy as np
    >>> ref = craton.put({"weights": np.arange(3.0)})
    >>> craton.get(ref)["weights"]
    array([0., 1., 2.])
    """
    home = default_store() if store is None else store
    native = home._native
    table = _as_table(obj)
    if table is None:
        parts = encode(obj)
        return Ref(home, native.put(parts.chunks, parts.buffers))
    use = native.hold(native.create_set())
    _write_table(native, use.number, *table)
    return Ref(home, use)


def get(ref: Ref, *, columns: Sequence[str] | None = None, copy: bool = False) -> Any:
    """The object that a reference refers to, as views of the store's memory.

    Parameters
    ----------
    ref
        A reference that :func:`put` returned.
    columns
        Names of the columns to read from an Arrow or Polars table, in this order; the others are not read.
    copy
        Copy the object out of the store, so that its arrays are writable.

    Raises
    ------
    KeyError
        If the object was dropped, or has no such column.
    TypeError
        If `columns` are given and the object is not a table.
    """
    if not isinstance(ref, Ref):
        raise TypeError(f"expected a Ref as craton.put returns, got {type(ref).__name__}")
    missing = f"the object of {ref!r} was dropped from the store"
    return _read(ref._connected_store()._native, ref.number, columns, copy, missing)


class _NotGiven:
    """The default of `cache`'s parameter `obj`, since None is a valid object."""

    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN = _NotGiven()


def cache(name: str, obj: Any = _NOT_GIVEN) -> Any:
    """Store an object under a name if `obj` is given, and return the object stored under that name.

    Every program that uses the same store can read it. The object lives as long as the store, until another object is stored under the
    name, or until its set (``object:`` and the name) is dropped. Views that were read stay valid.

    Raises
    ------
    KeyError
        If no object is stored under that name, or it is still being written.

    Examples
    --------
    >>> import craton
    >>> _ = craton.cache("primes", [2, 3, 5])
    >>> craton.cache("primes")
    [2, 3, 5]
    """
    home = default_store()
    missing = f"no object is stored under {name!r}; craton.cache({name!r}, obj) stores one"
    if obj is _NOT_GIVEN:
        if f"object:{name}" not in home:
            raise KeyError(missing)
        return _read(home._native, home.get_set(f"object:{name}").number, None, False, missing)
    pages = _replace_set(home, f"object:{name}")
    native, number = home._native, pages.number
    table = _as_table(obj)
    if table is None:
        parts = encode(obj)
        native.write_object(number, parts.chunks, parts.buffers)
    else:
        _write_table(native, number, *table)
    return _read(native, number, None, False, missing)


def _replace_set(home: Store, name: str) -> LocalitySet:
    """Drop the set of that name and create a new one; try again if another process creates one in between."""
    while True:
        with contextlib.suppress(KeyError):
            home.get_set(name).drop()
        with contextlib.suppress(FileExistsError):
            return home.create_set(name)


# ---- the page layout of objects: page 0 is a pickled object, or the header of a table whose columns are in the other pages ----


def _write_table(native: _native.Store, number: int, kind: str, table: pa.Table) -> None:
    groups = _column_groups(table)
    batches = [as_batches(table.select(columns)) for columns in groups]
    header = pickle.dumps((kind, table.schema, groups, [len(each) for each in batches]))
    native.write_object(number, [header], [], statistics=_TABLE)
    for each in batches:
        for batch in each:
            native.write(number, batch)


def _read(native: _native.Store, number: int, columns: Sequence[str] | None, copy: bool, missing: str) -> Any:
    """The object in a set; raises a KeyError with the message `missing` if there is none."""
    try:
        page = native.pin(number, 0)
    except KeyError:
        raise KeyError(missing) from None
    if page.statistics != _TABLE:
        obj = decode_buffers(_native.Buffers.of_page(page, copy))
        return obj if columns is None else _select_columns(obj, columns)
    kind, schema, groups, counts = pickle.loads(page.meta())
    names = schema.names
    wanted = list(range(len(names))) if columns is None else [_position(names, name) for name in columns]
    found: dict[int, pa.ChunkedArray] = {}
    chosen: list[tuple[list[int], list[int]]] = []
    read: list[tuple[range, list[int]]] = []
    following = 1  # number of the next group's first page
    for group, count in zip(groups, counts, strict=True):
        places = [place for place, column in enumerate(group) if column in wanted]
        if places:
            chosen.append((group, places))
            read.append((range(following, following + count), places))
        following += count
    try:
        parts = native.read(number, read)
    except KeyError:
        raise KeyError(
            f"the table in set {number} is incomplete: it is still being written, its writer died, or it was dropped meanwhile"
        ) from None
    for (group, places), part in zip(chosen, parts, strict=True):
        found.update(zip((group[place] for place in places), one_table(part).columns, strict=True))
    fields = pa.schema([schema.field(column) for column in wanted], metadata=schema.metadata)
    table = pa.Table.from_arrays([found[column] for column in wanted], schema=fields)
    if copy:
        table = pa.ipc.open_stream(_stream(table)).read_all()
    if kind == "polars":
        import polars as pl

        return pl.from_arrow(table)
    return table if kind == "table" else _one_batch(table)


def _select_columns(obj: Any, columns: Sequence[str]) -> Any:
    """Some columns of a table that was small enough to be pickled."""
    if _table_kind(obj) is None:
        kind = type(obj).__name__
        raise TypeError(f"columns can be selected from Arrow and Polars tables only; this object is of type {kind!r}")
    names = list(obj.schema.names() if _table_kind(obj) == "polars" else obj.schema.names)
    return obj.select([names[_position(names, name)] for name in columns])


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)


def _position(names: list[str], name: str) -> int:
    if names.count(name) != 1:
        raise KeyError(
            f"no column {name!r}; columns are {names}" if name not in names else f"more than one column {name!r}"
        )
    return names.index(name)


def _as_table(obj: Any) -> tuple[str, pa.Table] | None:
    """The kind and the Arrow form of an object that is stored by columns: a large Arrow or Polars table. None for others."""
    kind = _table_kind(obj)
    if kind is None or (kind == "polars" and "Object" in map(str, obj.dtypes)):
        return None
    table = pa.Table.from_batches([obj]) if kind == "batch" else pa.table(obj) if kind == "polars" else obj
    return (kind, table) if table.nbytes >= COLUMN_PAGE_BYTES and table.num_columns else None


def _table_kind(obj: Any) -> str | None:
    if isinstance(obj, pa.Table):
        return "table"
    if isinstance(obj, pa.RecordBatch):
        return "batch"
    if type(obj).__module__.partition(".")[0] == "polars" and type(obj).__name__ == "DataFrame":
        return "polars"
    return None


def _column_groups(table: pa.Table) -> list[list[int]]:
    """The columns, by position, that share pages: each large column alone, all small ones together."""
    small = [i for i, column in enumerate(table.columns) if column.nbytes < COLUMN_PAGE_BYTES]
    large = [[i] for i in range(table.num_columns) if i not in set(small)]
    return large + ([small] if small else [])
