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

    The hash is XXH3-128 without a seed. It depends on the bytes alone, so it is the same in every process on
    every machine. It is not cryptographic.

    Parameters
    ----------
    data : bytes
        What to hash. For 64 KiB or more, the interpreter lock is released.

    Returns
    -------
    bytes
        16 bytes, the least significant one first.

    Raises
    ------
    TypeError
        If ``data`` is not ``bytes``. Mutable buffers are refused because they could change while they are hashed.

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

    A radix sort on all threads, with as many passes as the range of the keys needs. The interpreter lock is released, and the
    buffers must not be accessed until the call returns.

    Parameters
    ----------
    keys : buffer of int64
        Contiguous.
    descending : bool
        Whether the greatest key comes first. Equal keys keep their order in either case.
    rows : writable buffer of uint32
        Receives the row numbers; as long as ``keys``.
    ordered : writable buffer of int64, optional
        Receives the sorted keys; as long as ``keys``, and a different buffer.

    Raises
    ------
    ValueError
        If the buffers differ in length, or one is not contiguous.
    OverflowError
        If there are 2**32 - 1 keys or more.
    """

def gather(values: NDArray[Any], rows: NDArray[np.uint32], out: NDArray[Any], /) -> None:
    """Write the values of some rows, in the order of the row numbers, on all threads.

    The interpreter lock is released, and the buffers must not be accessed until the call returns.

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
        If a buffer has another type.
    """

class JoinMap:
    """A map from each key of one side of a join to the rows that have it, in row order.

    Parameters
    ----------
    keys : buffer of int64
        Contiguous; must not be written to until the constructor returns.

    Raises
    ------
    OverflowError
        If there are 2**32 - 1 keys or more.
    """

    def __new__(cls, keys: NDArray[np.int64], /) -> JoinMap: ...
    def probe(self, keys: NDArray[np.int64], keep: bool, /) -> Matches:
        """Find the matches of the other side's rows, ordered by the row that probes and then by the row of the map's side.

        Parameters
        ----------
        keys : buffer of int64
            The keys of the probing side; contiguous, must not be written to until the call returns.
        keep : bool
            Whether rows without a match are kept (a left join), with 2**32 - 1 as the row of the map's side.
        """

class Matches:
    """Pairs of matching rows, in order."""

    def __len__(self) -> int:
        """Return the number of pairs."""
    def write(self, ours: NDArray[np.uint32], theirs: NDArray[np.uint32], /) -> None:
        """Write the row numbers of the probing side and those of the map's side.

        Parameters
        ----------
        ours, theirs : writable buffer of uint32
            Two buffers, each as long as the number of pairs; must not be accessed until the call returns.

        Raises
        ------
        ValueError
            If a buffer has another length or is not contiguous, or if both are the same buffer.
        """

class TaskGraph:
    """The native form of `craton.schedule.Graph`, made from contiguous buffers of int64 (the costs: float64).

    The arrays are passed in the order of that class's parameters, and must not be written to until the constructor returns. A `ValueError`
    names what is wrong with the graph, the bands or the policy, and where.
    """

    def __new__(cls, tasks: int, /, *arrays: NDArray[Any] | None) -> TaskGraph: ...
    def assign(self, capacities: Sequence[float], policy: str, seed: int, /, *out: NDArray[np.int32]) -> None:
        """Assign the tasks; write ``bands``, ``output``, ``order`` and ``starts`` of `craton.schedule.Assignment` into four buffers."""
    def moved_bytes(self, bands: NDArray[np.int32], /) -> int:
        """Return the total bytes of the edges whose producer and consumer are in different bands."""

class Buffers(Iterator[Any]):
    """The out-of-band buffers of a serialized object, in the order in which `pickle.loads` takes them.

    An item is a finished array or plain memory. Arrays are read-only views of the memory they were given, and keep it alive.
    `craton.serialize` describes the layouts.

    Parameters
    ----------
    meta : bytes-like
        Metadata from `craton.serialize.encode`.
    buffers : sequence of bytes-like
        Contiguous; as many as ``meta`` describes.
    copy : bool
        Yield writable copies instead: arrays and bytearrays that own their memory.

    Raises
    ------
    ValueError
        ``meta`` is not valid metadata, is of a later version, is truncated, or describes other buffers. While iterating: an
        array does not fit its buffer.
    BufferError
        ``meta`` or a buffer is not contiguous.
    """

    def __init__(self, meta: Any, buffers: Sequence[Any], copy: bool, /) -> None: ...
    @staticmethod
    def of_container(data: Any, copy: bool, /) -> Buffers:
        """Return the buffers of a container; bytes after its end are ignored.

        Raises
        ------
        ValueError
            The data is not a container, or is one of a later version, or is truncated or damaged.
        """

    @staticmethod
    def of_page(page: Page, copy: bool, /) -> Buffers:
        """Return the buffers of an object that is stored as a page.

        Raises
        ------
        ValueError
            The page does not hold an object, or its metadata is of a later version.
        """

    @property
    def stream(self) -> Any:
        """The pickle stream: bytes-like."""

    def __iter__(self) -> Buffers: ...
    def __next__(self) -> Any: ...
    def __length_hint__(self) -> int: ...
    def rest(self) -> list[Any]:
        """Return all remaining buffers in a list, which is faster than iterating.

        Raises
        ------
        ValueError
            As while iterating.
        """

def array(array: _T, /) -> _T:
    """Return the argument. A pickle calls this with an array that `Buffers` made, so that its memo can refer to the array."""

def check_pickle(stream: Any, most: int, /) -> None:
    r"""Check that no value of a pickle nests deeper than ``most``, and that it cannot make the unpickler allocate for missing data.

    Unpickling does not recurse, but hashing or freeing a deeply nested result does, in C, and overflows the stack. Items added to a list,
    dict or object after it was memoized do not add to the depth of later references to it. Very short pickles are not checked.

    Raises
    ------
    ValueError
        A value nests deeper than ``most``, memo indices are skipped, or the bytes are truncated or not a pickle.

    Examples
    --------
    >>> from craton._native import check_pickle
    >>> check_pickle(b")\x85.", 2)
    """

def copy_into(targets: Sequence[Any], sources: Sequence[Any], /) -> int:
    """Copy each source buffer into its target and return the number of bytes copied.

    For 64 KiB or more, the interpreter lock is released; for 4 MiB or more, several threads copy. No buffer may be written to by others
    until the call returns.

    Parameters
    ----------
    targets : sequence of bytes-like
        Writable and contiguous; must not overlap each other or the sources.
    sources : sequence of bytes-like
        Contiguous; each as long as its target.

    Raises
    ------
    ValueError
        The sequences differ in length, or a target and its source do.
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
    """Read-only memory with the buffer protocol; keeps the memory that it is a part of alive."""

    def __len__(self) -> int:
        """Return the number of bytes."""
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ArrowBatches:
    """Record batches of one schema; pyarrow, Polars and pandas import them through the PyCapsule interface without copying."""

    @property
    def num_rows(self) -> int:
        """Total rows of all batches."""

    def __len__(self) -> int:
        """Return the number of batches."""
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

class CorruptPage(OSError):
    """The image of a page on disk is damaged: it is not what was written."""

class PageInfo:
    """A snapshot of a page's metadata."""

    @property
    def set(self) -> int:
        """The number of its set."""
    @property
    def number(self) -> int:
        """Its number in the set."""
    @property
    def key(self) -> bytes | None:
        """Its key in the set, by which `Store.find_pages` finds it; None for a page without a key."""
    @property
    def rows(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Total bytes of its buffers."""
    @property
    def location(self) -> Literal["memory", "disk", "both"]:
        """Where its bytes are."""
    @property
    def statistics(self) -> bytes:
        """Bytes that its writer stored to describe its contents; not interpreted."""

class Page:
    """A pinned page: it stays in memory as long as this object, or anything that was read from it, lives."""

    @property
    def info(self) -> PageInfo: ...
    @property
    def statistics(self) -> bytes:
        """Bytes that its writer stored to describe its contents; not interpreted."""

    def batch(self, columns: Sequence[int] | None = None) -> ArrowBatches:
        """Return the page as one record batch over the store's memory.

        Parameters
        ----------
        columns : sequence of int, optional
            Positions of the columns to return, in this order; by default all.

        Raises
        ------
        ValueError
            If there is no column at a position.
        """

    def meta(self) -> Memory:
        """Return the metadata that `Store.write_object` was given, joined.

        Raises
        ------
        ValueError
            If the page does not hold an object.
        """

    def addresses(self) -> list[tuple[int, int]]:
        """Return the address and the length in bytes of each of its buffers."""

class HeldPages:
    """Keeps in memory all pages that this process had pinned when `hold_pages` was called, until `release`."""

    def __len__(self) -> int: ...
    def release(self) -> None: ...

def hold_pages() -> HeldPages:
    """Hold all pages that are pinned in this process."""

def forget_held_pages() -> None:
    """Clear the record of held pages without releasing them: for a forked child, since the pages are held by its parent."""

class Reader:
    """An iterator over the pages of a set that threads may share: each page is returned once, to one thread."""

    def next(self) -> Page | None:
        """Return the next page, None at the end.

        Raises
        ------
        KeyError
            If the set was dropped meanwhile.
        CorruptPage
            If the image of a page on disk is damaged.
        """

    def close(self) -> None:
        """Stop reading ahead; later calls of `next` return None."""

class Reservation:
    """Reserved memory, which pages do not use until it is released or its ``with`` block ends."""

    @property
    def nbytes(self) -> int:
        """Reserved bytes; 0 after `release`."""

    def release(self) -> None:
        """Make the memory available to pages again. A second call does nothing."""
    def __enter__(self) -> Reservation: ...
    def __exit__(self, *_error: object) -> None: ...

class SetUse:
    """One use of a set, which ends when this object is collected. The store drops a set without a name when its last use ends."""

    @property
    def number(self) -> int:
        """The set's number."""

class Store:
    """A store in this process or a connection to one in another process. All methods are thread-safe.

    Methods that take the number of a set raise `KeyError` if there is no such set. All methods raise `ConnectionError` if the store's
    process has ended, and `ValueError` if the store was closed.
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
            If no store is served there, or the server is a process of another user.
        """

    def serve(self, address: str | None = None, quota: int | None = None) -> str:
        """Let other processes of this user connect, and return the address.

        Raises
        ------
        ValueError
            If the store is in another process, or is already served at another address.
        """

    @property
    def address(self) -> str | None:
        """The address at which other processes can connect; None while the store is not served."""
    @property
    def connected(self) -> bool:
        """Whether the store is in another process."""

    def close(self) -> None:
        """Close the store: drop every set of a store in this process, or close the connection to another process's store."""
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
        """Create a set with one use, which the caller owns; return its number. Parameters: as for `craton.store.Store.create_set`.

        Raises
        ------
        FileExistsError
            If there is a set of that name.
        """

    def find_set(self, name: str) -> int | None:
        """Return the number of the set of that name, without adding a use of it."""
    def retain_set(self, set: int) -> None:
        """Add a use of the set."""
    def release_set(self, set: int) -> None:
        """End a use of the set; a set without a name is dropped with its last use. No error if the set was dropped."""
    def hold(self, set: int, /) -> SetUse:
        """Wrap a use of the set that the caller owns in an object that ends the use when it is collected."""
    def drop_set(self, set: int) -> None:
        """Drop the set and its pages. Views that were read stay valid."""
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
        """Write a page for each record batch of Arrow data. Buffers that are in the store's memory are referenced, others are copied.

        Parameters
        ----------
        set : int
            The set's number.
        data : object
            Has ``__arrow_c_array__`` or ``__arrow_c_stream__``.
        key : bytes, optional
            Identifies the page in the set. If the set has a page with this key, that page is returned and nothing is written.
        statistics : bytes
            Any bytes that describe the contents; stored and not interpreted.
        rebuild : int
            Nanoseconds that making the page again would take; 0 if unknown.

        Raises
        ------
        ValueError
            If a key is given for several batches.
        MemoryError
            If the page does not fit into the memory that pinned pages leave.
        """

    def write_object(
        self, set: int, meta: Sequence[Any], buffers: Sequence[Any], *, statistics: bytes = b""
    ) -> PageInfo:
        """Write an encoded object as a page. The interpreter lock is released; the memory must not be written to until the call returns.

        Parameters
        ----------
        set : int
            The set's number.
        meta, buffers : sequence of bytes-like
            `craton.serialize.Parts.chunks` and `craton.serialize.Parts.buffers`.
        statistics : bytes
            Any bytes that describe the contents; stored and not interpreted.

        Raises
        ------
        BufferError
            If a part or a buffer is not contiguous.
        MemoryError
            If the page does not fit into the memory that pinned pages leave.
        """

    def put(self, meta: Sequence[Any], buffers: Sequence[Any], /) -> SetUse:
        """Create a set with an encoded object as its only page; parameters and errors are those of `write_object`."""
    def pin(self, set: int, number: int) -> Page:
        """Pin a page and return it, after loading it from disk if necessary.

        Raises
        ------
        KeyError
            If there is no such page.
        CorruptPage
            If its image on disk is damaged.
        MemoryError
            If it does not fit into the memory that pinned pages leave.
        """

    def read(
        self, set: int, groups: Sequence[tuple[Sequence[int], Sequence[int] | None]], /
    ) -> list[list[ArrowBatches]]:
        """Pin several pages and return them as Arrow data over the store's memory, with a single request to a store in another process.

        Parameters
        ----------
        set : int
            The set's number.
        groups : sequence of (pages, columns)
            Page numbers, and the positions of the columns to read from these pages; None for all.

        Returns
        -------
        list of list of ArrowBatches
            For each group its pages as record batches; consecutive pages of equal schema are in one `ArrowBatches`.

        Raises
        ------
        KeyError
            If there is no such page; then no page stays pinned.
        CorruptPage
            If the image of a page on disk is damaged.
        MemoryError
            If the pages do not fit together into the memory that other pinned pages leave.
        ValueError
            If there is no column at a position.
        """

    def read_all(self, set: int, columns: Sequence[int] | None = None) -> list[ArrowBatches] | None:
        """Return all pages of a set as `read` does; None, without reading any, if some of them are not in memory."""
    def prefetch(self, pages: Sequence[tuple[int, int]]) -> None:
        """Load pages, given as (set, number), in the background, as far as memory is free."""
    def pages(self, set: int) -> list[PageInfo]:
        """Return the `PageInfo` of each page, by page number."""
    def find_pages(self, set: int, keys: Sequence[bytes]) -> list[PageInfo | None]:
        """Return the `PageInfo` of the page with each key, None for a key without a page."""
    def drop_page(self, set: int, number: int) -> None:
        """Drop a page. Views that were read from it stay valid."""
    def reader(self, set: int, workers: int) -> Reader:
        """Return a reader of all pages; ``workers`` is the number of threads that will share it."""
    def reserve(self, least: int, most: int) -> Reservation:
        """Reserve up to ``most`` bytes, as many as are available but at least ``least``.

        Raises
        ------
        MemoryError
            If fewer than ``least`` bytes are available.
        """

    def describe(self) -> list[dict[str, Any]]:
        """Return the attributes and statistics of each set."""
    def counters(self) -> dict[str, int]:
        """Return the store's counters and gauges, in bytes or as counts."""
    def prometheus(self) -> str:
        """Return the counters in Prometheus' text format."""

def verify_page_file(path: str | PathLike[str]) -> str | None:
    """Check a page's file; return what is wrong with it, or None if it is sound."""

def remove_dead_stores(directory: str | PathLike[str] | None = None) -> list[Path]:
    """Remove the folders that stores of dead processes left in a directory, by default the system's folder for temporary files.

    Returns
    -------
    list of Path
        The removed folders.
    """

class ArrowStream(Protocol):
    """A table of any library that exports one: pyarrow, pandas, Polars, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class ArrowArray(Protocol):
    """A record batch of any library that exports one."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def hash_rows(data: ArrowStream | ArrowArray, keys: Iterable[int | str] | None = None, /, *, seed: int = 0) -> Hashes:
    """Return a 64-bit hash of every row.

    The hash is stable: it depends on the values alone, not on their width, encoding, library or process. Values that are equal have equal
    hashes in every type: integers (``1``, ``1.0``, ``True``), text in every Arrow layout, timestamps in every unit. -0.0 hashes like 0.0,
    all NaN hash alike, and so do all nulls. The documentation of ``crates/shuffle`` defines the hash.

    Parameters
    ----------
    data : table or record batch
        Exported through the Arrow PyCapsule interface; nothing is copied.
    keys : iterable of int or str, optional
        Positions or names of the columns to hash, by default all. Their order affects the hash.
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

    A row goes to partition ``hash * n >> 64``. Rows of a partition keep their order. The interpreter lock is released.

    Parameters
    ----------
    data : table or record batch
        Exported through the Arrow PyCapsule interface; only the rows are copied, into their partitions.
    keys : iterable of int or str
        Positions or names of the key columns, as for `hash_rows`.
    n : int
        Number of partitions, from 1 to 65,536.
    seed : int
        The seed of the hash.
    threads : int
        Number of threads; 0 for one per core.

    Raises
    ------
    KeyError, IndexError
        If a key is not a column.
    TypeError
        If ``data`` exports no Arrow data.
    ValueError
        If ``n`` is out of range, or there are no keys.
    MemoryError
        If memory for a partition cannot be allocated.
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

    A row goes to the partition whose number is the count of boundaries that are not greater than the row, in the order of the keys. Equal
    rows go to the same partition.

    Parameters
    ----------
    data, keys, threads
        As for `partition`.
    boundaries : table of one batch, or record batch
        A column for each key, of its type; a row for each boundary, sorted in the order of the keys. n boundaries make n + 1 partitions.
    descending : sequence of bool, optional
        For each key, whether the greatest value comes first.
    nulls_first : sequence of bool, optional
        For each key, whether nulls come first, independently of ``descending``. NaN is greater than all numbers.

    Raises
    ------
    ValueError
        If the boundaries are not sorted in that order, or their types differ from those of the keys.
    TypeError
        If a type has no order.
    """

def partition_by_numbers(
    data: ArrowStream | ArrowArray, numbers: NDArray[np.uint32], n: int, /, *, threads: int = 0
) -> list[Partition]:
    """Distribute rows over ``n`` partitions by given partition numbers.

    Parameters
    ----------
    data, n, threads
        As for `partition`.
    numbers : buffer of uint32
        Each row's partition, below ``n``.

    Raises
    ------
    ValueError
        If the number of partition numbers is not that of the rows, or one is not below ``n``.
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

    Its columns share one block of memory, which lives as long as any of them.
    """

    def __len__(self) -> int:
        """Return the number of rows."""
    @property
    def nbytes(self) -> int:
        """Bytes that were allocated for the rows; buffers shared with the input are not counted."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows."""
    def __arrow_c_schema__(self) -> object:
        """Export the schema."""

class ShuffleWriter:
    """Distributes the rows of tables over the sets of their partitions. All methods are thread-safe.

    Parameters
    ----------
    store : Store
        The store of the sets.
    sets : sequence of int
        The number of each partition's set.
    keys : sequence of int or str
        Columns, as for `hash_rows`.
    seed : int
        The seed of the hash; unused if there are ``boundaries``.
    boundaries, descending, nulls_first
        As for `partition_by_ranges`.
    page_bytes : int, optional
        Target size of a page in bytes.
    whole : bool
        Buffer the tables, up to 512 MiB, and write pages of exactly the size of their rows.
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
        """Append a table. The interpreter lock is released."""
    def finish(self) -> None:
        """Seal all pages. Later writes fail."""
    def abandon(self) -> None:
        """Discard the rows that are not in sealed pages. Later writes fail."""
