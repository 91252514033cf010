"""Objects in a store: ``put`` gives a reference, ``get`` a view of the one copy, in any process.

Tables of Arrow and Polars become pages of columns, so that reading some columns touches only these; everything else is
pickled, with its large buffers beside the pickle, and read without copying them.
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
from craton.store.process import default_store
from craton.store.sets import LocalitySet, as_batches, one_table
from craton.store.store import Store

#: Columns smaller than this share a page.
COLUMN_PAGE_BYTES = 1 << 20
#: What page 0 says of itself when the others are a table's columns.
_TABLE = b"table"


class Ref:
    """A reference to an object in a store.

    Small, hashable, and picklable: in another process it connects to the store when it is used. The object lives until no
    process has a reference to it; one that was pickled keeps it until the process that pickled it ends.
    """

    __slots__ = ("__weakref__", "_address", "_held", "_store", "number")

    def __init__(self, store: Store, held: _native.SetUse) -> None:
        self._store: Store | None = store
        self._held: _native.SetUse | None = held
        self._address: str | None = None
        self.number = held.number

    @property
    def pages(self) -> LocalitySet:
        """The set that holds the object.

        Raises
        ------
        KeyError
            If the object is gone.
        ConnectionError
            If the store is.
        """
        store = self._home()
        return LocalitySet(store, self.number, None, self._held)

    def _home(self) -> Store:
        """The store, connected to and told that the object is used."""
        if self._store is None:
            assert self._address is not None
            store = _store_at(self._address)
            store._native.retain_set(self.number)
            self._held = store._native.hold(self.number)
            self._store = store
        return self._store

    def drop(self) -> None:
        """Drop the object, whoever else refers to it. Views that were read stay valid."""
        with contextlib.suppress(KeyError):
            self.pages.drop()

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store
        if store is None:
            return _ref_from, (self._address, self.number)
        address = store.address or store.serve()
        store._native.retain_set(self.number)  # whoever unpickles it finds it
        return _ref_from, (address, self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and self.number == other.number and self._where() == other._where()

    def __hash__(self) -> int:
        return hash(self.number)

    def _where(self) -> str | int | None:
        return self._address if self._store is None else self._store.address

    def __repr__(self) -> str:
        return f"<Ref {self.number}>"


_connected: dict[str, Store] = {}


def _store_at(address: str) -> Store:
    default = default_store()
    if default.address == address:
        return default
    if address not in _connected:
        _connected[address] = Store.connect(address)
    return _connected[address]


def _ref_from(address: str, number: int) -> Ref:
    ref = Ref.__new__(Ref)
    ref._store, ref._held, ref._address, ref.number = None, None, address, number
    return ref


def put(obj: Any, *, store: Store | None = None) -> Ref:
    """Put an object into the store.

    Parameters
    ----------
    obj
        Anything that can be pickled, functions and local classes too.
    store
        By default the store of this process.

    Returns
    -------
    Ref
        For :func:`get`, here or in another process.

    Raises
    ------
    MemoryError
        If it does not fit beside what is pinned.

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
    held = native.hold(native.create_set())
    _write_table(native, held.number, *table)
    return Ref(home, held)


def get(ref: Ref, *, columns: Sequence[str] | None = None, copy: bool = False) -> Any:
    """The object that a reference refers to, as views of the store's memory.

    Parameters
    ----------
    ref
        What :func:`put` returned.
    columns
        Of a table of Arrow or Polars: only these, in this order; no other column is touched.
    copy
        Copy, so that arrays may be written to.

    Raises
    ------
    KeyError
        If the object is gone, or has no such column.
    TypeError
        If `columns` are asked of something that was stored as no table.
    """
    if not isinstance(ref, Ref):
        raise TypeError(f"expected what craton.put returned, got {type(ref).__name__}")
    gone = f"the object of {ref!r} is gone: somebody dropped it"
    return _read(ref._home()._native, ref.number, columns, copy, gone)


class _Nothing:
    """Says that no object was given, since None is one."""

    def __repr__(self) -> str:
        return "<nothing>"


_NOTHING = _Nothing()


def cache(name: str, obj: Any = _NOTHING) -> Any:
    """A named object: stored under `name` when `obj` is given, be it None, else what is stored there.

    Every program that uses the same store finds it, in the set ``object:`` and the name. It lives as long as the store, or
    until it is stored again or its set is dropped; what was read of it stays valid.

    Raises
    ------
    KeyError
        If there is nothing of that name, or it is still being written.

    Examples
    --------
    >>> import craton
    >>> _ = craton.cache("primes", [2, 3, 5])
    >>> craton.cache("primes")
    [2, 3, 5]
    """
    home = default_store()
    gone = f"nothing is stored under {name!r}; craton.cache({name!r}, obj) stores it"
    if obj is _NOTHING:
        if f"object:{name}" not in home:
            raise KeyError(gone)
        return _read(home._native, home.get_set(f"object:{name}").number, None, False, gone)
    pages = _replaced(home, f"object:{name}")
    native, number = home._native, pages.number
    table = _as_table(obj)
    if table is None:
        parts = encode(obj)
        native.write_object(number, parts.chunks, parts.buffers)
    else:
        _write_table(native, number, *table)
    return _read(native, number, None, False, gone)


def _replaced(home: Store, name: str) -> LocalitySet:
    """A fresh set of that name, whoever else makes one at the same time."""
    while True:
        with contextlib.suppress(KeyError):
            home.get_set(name).drop()
        with contextlib.suppress(FileExistsError):
            return home.create_set(name)


# ---- how objects lie in pages: page 0 says what the rest is ----


def _write_table(native: _native.Store, number: int, kind: str, table: pa.Table) -> None:
    groups = _column_groups(table)
    batches = [as_batches(table.select(columns)) for columns in groups]
    header = pickle.dumps((kind, table.schema, groups, [len(each) for each in batches]))
    native.write_object(number, [header], [], statistics=_TABLE)
    for each in batches:
        for batch in each:
            native.write(number, batch)


def _read(native: _native.Store, number: int, columns: Sequence[str] | None, copy: bool, gone: str) -> Any:
    """The object in a set; a KeyError that says `gone` if there is none."""
    try:
        page = native.pin(number, 0)
    except KeyError:
        raise KeyError(gone) from None
    if page.statistics != _TABLE:
        whole = decode_buffers(_native.Buffers.of_page(page, copy))
        return whole if columns is None else _selected(whole, columns)
    kind, schema, groups, counts = pickle.loads(page.meta())
    names = schema.names
    wanted = list(range(len(names))) if columns is None else [_position(names, name) for name in columns]
    found: dict[int, pa.ChunkedArray] = {}
    chosen: list[tuple[list[int], list[int]]] = []
    read: list[tuple[range, list[int]]] = []
    following = 1  # the pages of each group follow those of the one before
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
            f"the table is still being written, or whoever wrote it died, or it was dropped just now: set {number}"
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


def _selected(found: Any, columns: Sequence[str]) -> Any:
    """Some columns of a table that was small enough to be pickled."""
    if _table_kind(found) is None:
        kind = type(found).__name__
        raise TypeError(f"columns can be asked of tables of Arrow and Polars only; this object is of type {kind!r}")
    names = list(found.schema.names() if _table_kind(found) == "polars" else found.schema.names)
    return found.select([names[_position(names, name)] for name in columns])


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)


def _position(names: list[str], name: str) -> int:
    if names.count(name) != 1:
        raise KeyError(f"no column {name!r}; columns are {names}" if name not in names else f"several columns {name!r}")
    return names.index(name)


def _as_table(obj: Any) -> tuple[str, pa.Table] | None:
    """What is stored by columns: large tables of Arrow and Polars, and what they are to become again."""
    kind = _table_kind(obj)
    if kind is None or (kind == "polars" and "Object" in map(str, obj.dtypes)):
        return None
    found = kind, pa.Table.from_batches([obj]) if kind == "batch" else pa.table(obj) if kind == "polars" else obj
    return found if found[1].nbytes >= COLUMN_PAGE_BYTES and found[1].num_columns else None


def _table_kind(obj: Any) -> str | None:
    if isinstance(obj, pa.Table):
        return "table"
    if isinstance(obj, pa.RecordBatch):
        return "batch"
    if type(obj).__module__.partition(".")[0] == "polars" and type(obj).__name__ == "DataFrame":
        return "polars"
    return None


def _column_groups(table: pa.Table) -> list[list[int]]:
    """Positions of the columns of each page: large ones alone, small ones together."""
    small = [i for i, column in enumerate(table.columns) if column.nbytes < COLUMN_PAGE_BYTES]
    large = [[i] for i in range(table.num_columns) if i not in set(small)]
    return large + ([small] if small else [])
