"""Files that pipelines read, decoded once for all pipelines of a store, also while several run at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import pyarrow as pa

from craton.locks import KeyedLocks
from craton.store.decoded import DecodeCache, DecodedFile
from craton.store.store import Store

__all__ = ["MOST_OF_LIMIT", "decoded", "decoded_whole"]

#: The share of the store's memory limit that the columns of one file may fill.
MOST_OF_LIMIT = 0.5

#: Locks of files that are being decoded, by name.
_decoding = KeyedLocks()


def decoded(
    store: Store,
    file: DecodedFile,
    columns: Sequence[tuple[str, str]],
    decode: Callable[[list[str], int, int | None], pa.Table],
) -> tuple[list[pa.RecordBatch], int] | None:
    """Columns of a file from the store; those that are not there are decoded first, by one thread of one process.

    Parameters
    ----------
    store
        The store.
    file
        The file.
    columns
        (name, type) of each.
    decode
        Called with names, a first row and a number of rows; returns these columns of these rows.

    Returns
    -------
    tuple or None
        Record batches over the store's memory, and the bytes that were decoded. None if the columns have no room.
    """
    cache = DecodeCache(store)
    made = 0

    def counting(names: list[str]) -> Callable[[int, int | None], pa.Table]:
        def count(start: int, rows: int | None) -> pa.Table:
            nonlocal made
            table = decode(names, start, rows)
            made += table.nbytes
            return table

        return count

    with _decoding.hold(file.name), _locked_for_others(store, file.name), contextlib.suppress(MemoryError):
        for _ in range(2):  # a page may be evicted between decoding and reading
            pages = cache.find(file)
            missing = set([name for name, _ in columns] if pages is None else pages.missing(columns))
            if missing:
                chosen = [(name, dtype) for name, dtype in columns if name in missing]
                cache.fill(file, chosen, counting([name for name, _ in chosen]))
                pages = cache.find(file)
            batches = None if pages is None else pages.batches(columns)
            if batches is not None:
                return batches, made
    return None


def decoded_whole(store: Store, file: DecodedFile, decode: Callable[[], pa.Table]) -> tuple[pa.Table, bool]:
    """The same for a file whose columns cannot be decoded one by one: the table, and whether it is over the store's memory.

    If it has no room in the store, it is in this process's memory.
    """
    table: pa.Table | None = None

    def once() -> pa.Table:
        nonlocal table
        table = decode() if table is None else table
        return table

    with _decoding.hold(file.name), _locked_for_others(store, file.name):
        for _ in range(2):
            with contextlib.suppress(MemoryError, KeyError):
                return DecodeCache(store).whole(file, once)[0], True
    return once(), False


@contextlib.contextmanager
def _locked_for_others(store: Store, name: str) -> Iterator[None]:
    """Keep other processes of the store from decoding the same file. The lock ends with the process, however that ends."""
    address = store.address
    command = getattr(fcntl, "F_OFD_SETLKW", None)
    if address is None or command is None:
        yield
        return
    path = os.path.join(tempfile.gettempdir(), f"craton-decoding-{os.getuid()}.lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # One byte of the file is the lock of one file of one store.
        place = crc32(f"{address} {name}".encode())
        fcntl.fcntl(fd, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        yield
    finally:
        os.close(fd)
