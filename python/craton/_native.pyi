"""Types of the native module, built from ``crates/py``."""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from craton._native_interrupts import *  # noqa: F403
from craton._native_sums import *  # noqa: F403

_T = TypeVar("_T")

__version__: str
"""The version of the workspace that the module was built from; equal to the package's."""

def content_hash(data: bytes, /) -> bytes:
    """Return the 128-bit content hash of ``data``.

    The hash is XXH3-128 without a seed. It depends on the bytes alone, so every process on every machine
    gives the same bytes the same name. It is not cryptographic.

    Parameters
    ----------
    data : bytes
        What to hash. From 64 KiB on the interpreter is released meanwhile.

    Returns
    -------
    bytes
        16 bytes, the least significant one first.

    Raises
    ------
    TypeError
        If ``data`` is not ``bytes``. Other buffers are refused because they could change meanwhile.

    Examples
    --------
    >>> from craton._native import content_hash
    >>> content_hash(b"craton").hex()
    '3437de2148c34605fe9e6ac139f6c010'
    """

def argsort(
    keys: NDArray[np.int64], descending: bool, rows: NDArray[np.uint32], ordered: NDArray[np.int64] | None = None, /
) -> None:
    """Write the row numbers that sort 64-bit keys; equal keys keep their order.

    A radix sort of as many passes as the keys' range needs, on all threads; the interpreter is released. Neither buffer
    may be touched meanwhile.

    Parameters
    ----------
    keys : buffer of int64
        Contiguous.
    descending : bool
        Whether the greatest key comes first. Equal keys keep their order all the same.
    rows : writable buffer of uint32
        Where the row numbers go; as long as ``keys``.
    ordered : writable buffer of int64, optional
        Where the sorted keys go; as long as ``keys``, and another buffer.

    Raises
    ------
    ValueError
        If the buffers are not of one length, or not contiguous.
    OverflowError
        If there are 2**32 - 1 keys or more.
    """

def gather(values: NDArray[Any], rows: NDArray[np.uint32], out: NDArray[Any], /) -> None:
    """Write the values of some rows, in the order of the row numbers, on all threads.

    The interpreter is released; no buffer may be touched meanwhile.

    Parameters
    ----------
    values : buffer of uint8, uint16, uint32 or uint64
        A column's values.
    rows : buffer of uint32
        Row numbers, each below the number of values.
    out : writable buffer
        Of the type of ``values``, as long as ``rows``.

    Raises
    ------
    ValueError
        If ``out`` is not as long as ``rows``, or a buffer is not contiguous.
    BufferError
        If the types of the buffers are others.
    """

class JoinMap:
    """The rows of one side of a join by their key, each key's rows in their order.

    Parameters
    ----------
    keys : buffer of int64
        Contiguous; not to be written to until the constructor returns.

    Raises
    ------
    OverflowError
        If there are 2**32 - 1 keys or more.
    """

    def __new__(cls, keys: NDArray[np.int64], /) -> JoinMap: ...
    def probe(self, keys: NDArray[np.int64], keep: bool, /) -> Matches:
        """Find the matches of the other side's rows, in the order of these rows, each one's in their order.

        Parameters
        ----------
        keys : buffer of int64
            The keys of the side that probes; contiguous, not to be written to meanwhile.
        keep : bool
            Whether rows without a match are kept, with 2**32 - 1 for the row of the map's side.
        """

class Matches:
    """Pairs of matching rows, in order."""

    def __len__(self) -> int:
        """Return the number of pairs."""
    def write(self, ours: NDArray[np.uint32], theirs: NDArray[np.uint32], /) -> None:
        """Write the row numbers of the side that probed, and of the map's side.

        Parameters
        ----------
        ours, theirs : writable buffer of uint32
            Two buffers, each as long as there are pairs; not to be touched meanwhile.

        Raises
        ------
        ValueError
            If a buffer is of another length, or not contiguous, or both are one.
        """

class TaskGraph:
    """What `craton.schedule.Graph` describes, from contiguous buffers of int64 (costs: float64) that nobody writes to meanwhile.

    Its arrays come in the order of the parameters there. `ValueError` says what is wrong with a graph, bands or a policy, and where.
    """

    def __new__(cls, tasks: int, /, *arrays: NDArray[Any] | None) -> TaskGraph: ...
    def assign(self, capacities: Sequence[float], policy: str, seed: int, /, *out: NDArray[np.int32]) -> None:
        """Write what `craton.schedule.Assignment` has into four buffers: ``bands``, ``output``, ``order`` and ``starts``."""
    def moved_bytes(self, bands: NDArray[np.int32], /) -> int:
        """Return the bytes along edges whose ends are in different bands."""

class Buffers(Iterator[Any]):
    """The buffers of a serialized object, as pickle asks for them: arrays, finished, and other memory.

    Arrays look at the memory they were given, and keep it; they are read-only. The layouts are described in `craton.serialize`.

    Parameters
    ----------
    meta : bytes-like
        As `craton.serialize.encode` made it.
    buffers : sequence of bytes-like
        Contiguous, as many as ``meta`` describes.
    copy : bool
        Yield arrays and bytearrays with memory of their own instead.

    Raises
    ------
    ValueError
        ``meta`` is none, or of a later version, or truncated, or describes other buffers; while iterating: an array does
        not fit its buffer.
    BufferError
        Something given is not contiguous.
    """

    def __init__(self, meta: Any, buffers: Sequence[Any], copy: bool, /) -> None: ...
    @staticmethod
    def of_container(data: Any, copy: bool, /) -> Buffers:
        """Return the buffers of a container, which may be longer than it says.

        Raises
        ------
        ValueError
            The data is no container, or one of a later version, or truncated, or damaged.
        """

    @staticmethod
    def of_page(page: Page, copy: bool, /) -> Buffers:
        """Return the buffers of an object that is a page of a store.

        Raises
        ------
        ValueError
            The page is no object, or its meta is of a later version.
        """

    @property
    def stream(self) -> Any:
        """Pickle's stream: bytes-like."""

    def __iter__(self) -> Buffers: ...
    def __next__(self) -> Any: ...
    def __length_hint__(self) -> int: ...
    def rest(self) -> list[Any]:
        """Return all that were not yielded yet, which is faster than asking for one after another.

        Raises
        ------
        ValueError
            As while iterating.
        """

def array(array: _T, /) -> _T:
    """Return the argument: what pickle calls with an array that `Buffers` has made, so that the array can be referred to."""

def check_pickle(stream: Any, most: int, /) -> None:
    r"""Find that nothing in a pickle nests deeper than ``most``, and that it claims nothing that is not there.

    Reading one does not recurse; hashing or freeing what it makes does, in C. What is put into a list, dict or object after
    that was remembered does not count where it is remembered. What is too short for harm is left to its reader.

    Raises
    ------
    ValueError
        It nests deeper, or leaves out places of the memo; it is truncated or no pickle, and that was seen on the way.

    Examples
    --------
    >>> from craton._native import check_pickle
    >>> check_pickle(b")\x85.", 2)
    """

def copy_into(targets: Sequence[Any], sources: Sequence[Any], /) -> int:
    """Copy buffers into buffers and return the bytes that were copied.

    From 64 KiB on the interpreter is released; from 4 MiB on several threads copy. Nobody may write to any of the buffers meanwhile.

    Parameters
    ----------
    targets : sequence of bytes-like
        Writable, contiguous, apart from each other and from the sources.
    sources : sequence of bytes-like
        Contiguous; each as long as its target.

    Raises
    ------
    ValueError
        The lengths differ, of the sequences or of a target and its source.
    BufferError
        A buffer is not contiguous, or a target is read-only.

    Examples
    --------
    >>> from craton._native import copy_into
    >>> target = bytearray(4)
    >>> copy_into([memoryview(target)[1:3]], [b"ab"])
    2
    >>> list(target)
    [0, 97, 98, 0]
    """

class Memory:
    """Read-only memory with the buffer protocol, which keeps what it is a part of."""

    def __len__(self) -> int:
        """Return the number of bytes."""
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ArrowBatches:
    """Record batches of one schema, which pyarrow, Polars and pandas take by the PyCapsule interface without copying."""

    @property
    def num_rows(self) -> int:
        """Rows of all batches."""

    def __len__(self) -> int:
        """Return the number of batches."""
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

class CorruptPage(OSError):
    """A page on disk is not what was written."""

class PageInfo:
    """What is known of a page, as it was when it was asked for."""

    @property
    def set(self) -> int:
        """The number of its set."""
    @property
    def number(self) -> int:
        """Its number in the set."""
    @property
    def key(self) -> bytes | None:
        """What it is found by; None for a page without a key."""
    @property
    def rows(self) -> int:
        """Rows."""
    @property
    def nbytes(self) -> int:
        """Bytes of its buffers."""
    @property
    def location(self) -> Literal["memory", "disk", "both"]:
        """Where its bytes are."""
    @property
    def statistics(self) -> bytes:
        """What its maker says of its contents."""

class Page:
    """A page that stays in memory while this, or anything that was read from it, lives."""

    @property
    def info(self) -> PageInfo:
        """What is known of it."""
    @property
    def statistics(self) -> bytes:
        """What its maker says of its contents."""

    def batch(self, columns: Sequence[int] | None = None) -> ArrowBatches:
        """Return the page as one record batch over the store's memory.

        Parameters
        ----------
        columns : sequence of int, optional
            Only these, by position, in this order.

        Raises
        ------
        ValueError
            If a position is not that of a column.
        """

    def meta(self) -> Memory:
        """Return the first part of what `Store.write_object` was given, in one piece.

        Raises
        ------
        ValueError
            If the page is no object.
        """

    def addresses(self) -> list[tuple[int, int]]:
        """Return the address and the bytes of each of its buffers."""

class HeldPages:
    """All pages that were held when this was made. They stay in memory until they are released."""

    def __len__(self) -> int: ...
    def release(self) -> None: ...

def hold_pages() -> HeldPages:
    """Hold all pages that anybody in this process holds."""

def forget_held_pages() -> None:
    """Forget which pages are held: in a process that was forked, they are those of the other one."""

class Reader:
    """Pages of a set, each once, to whichever thread asks next."""

    def next(self) -> Page | None:
        """Return the next page, None at the end.

        Raises
        ------
        KeyError
            If the set was dropped meanwhile.
        CorruptPage
            If a page's image on disk is not what was written.
        """

    def close(self) -> None:
        """Stop reading ahead; afterwards there are no more pages."""

class Reservation:
    """Memory that is kept free of pages until it is released, or its ``with`` block ends."""

    @property
    def nbytes(self) -> int:
        """Bytes; 0 once they were released."""

    def release(self) -> None:
        """Give the memory back to pages. A second call does nothing."""
    def __enter__(self) -> Reservation: ...
    def __exit__(self, *_error: object) -> None: ...

class SetUse:
    """A use of a set, which ends when this is collected; a set without a name goes with its last use."""

    @property
    def number(self) -> int:
        """The set's number."""

class Store:
    """A store in this process, or in another one; every method may be called by any thread.

    Methods that take the number of a set raise `KeyError` if there is none of that number, all of them `ConnectionError` if the store's
    process is gone, and `ValueError` if the store was closed.
    """

    @staticmethod
    def open(
        limit: int, directory: str | None, policy: str, compression: str, direct_io: bool, io_threads: int
    ) -> Store:
        """Open a store in this process; the parameters are those of `craton.store.Store.open`."""
    @staticmethod
    def connect(address: str) -> Store:
        """Connect to the store that another process serves.

        Raises
        ------
        ConnectionError
            If nobody serves there, or a process of another user.
        """

    def serve(self, address: str | None = None, quota: int | None = None) -> str:
        """Let other processes of this user connect, and return where.

        Raises
        ------
        ValueError
            If the store is another process's, or served elsewhere already.
        """

    @property
    def address(self) -> str | None:
        """Where other processes reach the store; None while nobody serves it."""
    @property
    def connected(self) -> bool:
        """Whether the store is another process's."""

    def close(self) -> None:
        """Drop every set of a store in this process; of another one, nothing."""
    def create_set(
        self,
        name: str | None = None,
        *,
        tag: bytes = b"",
        durability: str = "write-back",
        writing: str = "sequential",
        reading: str = "sequential",
        pinned: bool = False,
    ) -> int:
        """Make a set that the caller uses, and return its number; the parameters are those of `craton.store.Store.create_set`.

        Raises
        ------
        FileExistsError
            If there is a set of that name.
        """

    def find_set(self, name: str) -> int | None:
        """Return the number of the set of that name, which the caller does not use by that."""
    def retain_set(self, set: int) -> None:
        """Use the set once more."""
    def release_set(self, set: int) -> None:
        """Use it once less; a set without a name goes with its last use. One that is gone is no error."""
    def hold(self, set: int, /) -> SetUse:
        """Return what ends a use of the set, which the caller has, when it is collected."""
    def drop_set(self, set: int) -> None:
        """Drop the set and its pages. What was read from them stays valid."""
    def set_attributes(
        self,
        set: int,
        *,
        writing: str | None = None,
        reading: str | None = None,
        operation: str | None = None,
        pinned: bool | None = None,
        ended: bool | None = None,
    ) -> None:
        """Change those attributes of the set that are given."""
    def write(
        self, set: int, data: Any, *, key: bytes | None = None, statistics: bytes = b"", rebuild: int = 0
    ) -> list[PageInfo]:
        """Write a page for each record batch of Arrow data. Buffers that lie in the store already are referred to, others copied.

        Parameters
        ----------
        set : int
            Its number.
        data : object
            Has ``__arrow_c_array__`` or ``__arrow_c_stream__``.
        key : bytes, optional
            What the page is to be found by. If the set has a page of that key, that page is returned and nothing written.
        statistics : bytes
            What to say of its contents.
        rebuild : int
            Nanoseconds that making it again would take; 0 if that is not known.

        Raises
        ------
        ValueError
            If there is a key for several batches.
        MemoryError
            If the page does not fit beside what is pinned.
        """

    def write_object(
        self, set: int, meta: Sequence[Any], buffers: Sequence[Any], *, statistics: bytes = b""
    ) -> PageInfo:
        """Write an encoded object as a page; the interpreter is released, and nobody may write to the memory meanwhile.

        Parameters
        ----------
        set : int
            Its number.
        meta : sequence of bytes-like
            `craton.serialize.Parts.chunks`.
        buffers : sequence of bytes-like
            `craton.serialize.Parts.buffers`.
        statistics : bytes
            What to say of its contents.

        Raises
        ------
        BufferError
            If something given is not contiguous.
        MemoryError
            If the page does not fit beside what is pinned.
        """

    def put(self, meta: Sequence[Any], buffers: Sequence[Any], /) -> SetUse:
        """Make a set with an encoded object as its only page; parameters and errors are those of `write_object`."""
    def pin(self, set: int, number: int) -> Page:
        """Return a page, read from disk if it must be.

        Raises
        ------
        KeyError
            If there is no such page.
        CorruptPage
            If its image on disk is not what was written.
        MemoryError
            If it does not fit beside what is pinned.
        """

    def read(
        self, set: int, groups: Sequence[tuple[Sequence[int], Sequence[int] | None]], /
    ) -> list[list[ArrowBatches]]:
        """Return pages over the store's memory, for which a store in another process is asked once.

        Parameters
        ----------
        set : int
            The set.
        groups : sequence of (pages, columns)
            Numbers of pages, and the positions of the columns that are wanted of them; None for all.

        Returns
        -------
        list of list of ArrowBatches
            For each group its pages as record batches, those of one schema that follow each other together.

        Raises
        ------
        KeyError
            If there is no such page; then none stays pinned.
        CorruptPage
            If the image of one on disk is not what was written.
        MemoryError
            If they do not fit together beside what is pinned.
        ValueError
            If a position is not that of a column.
        """

    def read_all(self, set: int, columns: Sequence[int] | None = None) -> list[ArrowBatches] | None:
        """Return all pages of a set as `read` would; None if some of them are not in memory."""
    def prefetch(self, pages: Sequence[tuple[int, int]]) -> None:
        """Read pages, given as (set, number), in the background, as far as there is room."""
    def pages(self, set: int) -> list[PageInfo]:
        """Return what is known of each page, by number."""
    def find_pages(self, set: int, keys: Sequence[bytes]) -> list[PageInfo | None]:
        """Return what is known of the pages with these keys, None for a key without a page."""
    def drop_page(self, set: int, number: int) -> None:
        """Drop a page. What was read from it stays valid."""
    def reader(self, set: int, workers: int) -> Reader:
        """Return a reader of all pages, for so many threads."""
    def reserve(self, least: int, most: int) -> Reservation:
        """Keep memory free of pages: ``most`` bytes, or as many as can be had, ``least`` or more.

        Raises
        ------
        MemoryError
            If ``least`` bytes cannot be had.
        """

    def describe(self) -> list[dict[str, Any]]:
        """Return a dict for each set."""
    def counters(self) -> dict[str, int]:
        """Return what was counted since the store was opened, in bytes or times."""
    def prometheus(self) -> str:
        """Return the counters in Prometheus' text format."""

def verify_page_file(path: str | PathLike[str]) -> str | None:
    """Return what is wrong with the file of a page; None if it is sound."""

def remove_dead_stores(directory: str | PathLike[str] | None = None) -> list[Path]:
    """Remove the folders that stores of dead processes left in a directory, by default the system's for temporary files.

    Returns
    -------
    list of Path
        What was removed.
    """

class ArrowStream(Protocol):
    """A table of any library that exports one: pyarrow, pandas, Polars, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class ArrowArray(Protocol):
    """A record batch of any library that exports one."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def hash_rows(data: ArrowStream | ArrowArray, keys: Iterable[int | str] | None = None, /, *, seed: int = 0) -> Hashes:
    """Return a 64-bit hash of every row.

    The hash is stable: it depends on the values alone, never on their width, encoding or library, nor on the process.
    Whole numbers are equal in every type (``1``, ``1.0``, ``True``), as are text in every form and moments in every
    unit; -0.0 equals 0.0, every NaN every NaN, and every null every null. The documentation of ``crates/shuffle``
    defines it.

    Parameters
    ----------
    data : table or record batch
        Exported through the Arrow PyCapsule interface; nothing is copied.
    keys : iterable of int or str, optional
        Positions or names of the columns that count, all if not given. Their order matters.
    seed : int
        Unsigned, 64 bits.

    Raises
    ------
    KeyError, IndexError
        If a key is not a column.
    TypeError
        If ``data`` exports no Arrow data.
    ValueError
        If there are no keys.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from craton._native import hash_rows
    >>> pa.array(hash_rows(pa.table({"a": [1, 2]}))).equals(pa.array(hash_rows(pa.table({"b": [1.0, 2.0]}))))
    True
    """

def partition(
    data: ArrowStream | ArrowArray, keys: Iterable[int | str], n: int, /, *, seed: int = 0, threads: int = 0
) -> list[Partition]:
    """Distribute rows over ``n`` partitions by the hash of their keys, on several threads.

    A row goes to partition ``hash * n >> 64``. Rows of a partition keep their order. The interpreter is released.

    Parameters
    ----------
    data : table or record batch
        Exported through the Arrow PyCapsule interface; nothing but the rows themselves is copied.
    keys : iterable of int or str
        Positions or names of the columns that count, as for `hash_rows`.
    n : int
        From 1 to 65,536.
    seed : int
        The seed of the hash.
    threads : int
        How many to use; 0 for as many as there are cores.

    Raises
    ------
    KeyError, IndexError
        If a key is not a column.
    TypeError
        If ``data`` exports no Arrow data.
    ValueError
        If ``n`` is not possible, or there are no keys.
    MemoryError
        If there is none for a partition.
    """

def partition_by_ranges(
    data: ArrowStream | ArrowArray,
    keys: Iterable[int | str],
    boundaries: ArrowStream | ArrowArray,
    /,
    *,
    descending: Sequence[bool] | None = None,
    nulls_first: Sequence[bool] | None = None,
    threads: int = 0,
) -> list[Partition]:
    """Distribute rows over the ranges between sorted boundaries.

    A row goes to the partition whose number is how many boundaries are not after it, so equal rows stay together.

    Parameters
    ----------
    data, keys, threads
        As for `partition`.
    boundaries : table of one batch, or record batch
        One column a key, of its type; one row a boundary, in the order that is asked for. There is one partition more.
    descending : sequence of bool, optional
        For each key, whether the greatest value comes first.
    nulls_first : sequence of bool, optional
        For each key, whether nulls come first. ``descending`` does not turn that round. NaN is the greatest number.

    Raises
    ------
    ValueError
        If boundaries are not sorted so, or of other types than the keys.
    TypeError
        If a type has no order.
    """

def partition_by_numbers(
    data: ArrowStream | ArrowArray, numbers: NDArray[np.uint32], n: int, /, *, threads: int = 0
) -> list[Partition]:
    """Distribute rows over ``n`` partitions by given numbers.

    Parameters
    ----------
    data, n, threads
        As for `partition`.
    numbers : buffer of uint32
        Each row's partition, below ``n``.

    Raises
    ------
    ValueError
        If there are not as many numbers as rows, or one is not below ``n``.
    """

class Hashes:
    """64-bit hashes of rows: an Arrow array of uint64, for ``pyarrow.array`` and ``polars.Series``."""

    def __len__(self) -> int:
        """Return the number of rows."""
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Export the array."""
    def __arrow_c_schema__(self) -> object:
        """Export its type."""

class Partition:
    """The rows of one partition: a table, for ``pyarrow.table``, ``polars.DataFrame`` and ``pandas.DataFrame.from_arrow``.

    Its columns lie in one block of memory, which lives as long as any of them.
    """

    def __len__(self) -> int:
        """Return the number of rows."""
    @property
    def nbytes(self) -> int:
        """Bytes that were allocated for the rows; what is shared with the input is not counted."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows."""
    def __arrow_c_schema__(self) -> object:
        """Export the schema."""

class ShuffleWriter:
    """Appends tables to the sets of their rows' partitions; any number of threads may.

    Parameters
    ----------
    store : Store
        Whose sets they are.
    sets : sequence of int
        One a partition.
    keys : sequence of int or str
        Columns, as for `hash_rows`.
    seed : int
        Of the hash, which decides unless there are ``boundaries``.
    boundaries, descending, nulls_first
        As for `partition_by_ranges`.
    page_bytes : int, optional
        Bytes of a page that are aimed at.
    whole : bool
        Hold what is written, up to 512 MiB, and make pages of exactly its size.
    """

    def __new__(
        cls,
        store: Any,
        sets: Sequence[int],
        keys: Sequence[int | str],
        /,
        *,
        seed: int = 0,
        boundaries: ArrowStream | ArrowArray | None = None,
        descending: Sequence[bool] | None = None,
        nulls_first: Sequence[bool] | None = None,
        page_bytes: int | None = None,
        whole: bool = False,
    ) -> ShuffleWriter: ...
    def write(self, data: ArrowStream | ArrowArray, /) -> None:
        """Append a table. The interpreter is released."""
    def finish(self) -> None:
        """Have all rows in sealed pages; nothing is taken afterwards."""
    def abandon(self) -> None:
        """Take nothing any more, and give up what is in no sealed page."""
