"""Types of the native module, built from ``crates/py``."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

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

    @property
    def stream(self) -> Any:
        """Pickle's stream: bytes-like."""

    def __iter__(self) -> Buffers: ...
    def __next__(self) -> Any: ...
    def __length_hint__(self) -> int: ...

def array(array: _T, /) -> _T:
    """Return the argument: what pickle calls with an array that `Buffers` has made, so that the array can be referred to.

    Examples
    --------
    >>> from craton._native import array
    >>> array(7)
    7
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

    Examples
    --------
    >>> import pyarrow as pa
    >>> from craton._native import partition
    >>> parts = partition(pa.table({"a": [1, 2, 1]}), ["a"], 4)
    >>> sum(len(part) for part in parts)
    3
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
        For each key, whether missing values (null and NaN) come first. ``descending`` does not turn that round.

    Raises
    ------
    ValueError
        If boundaries are not sorted so, or of other types than the keys.
    TypeError
        If a type has no order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from craton._native import partition_by_ranges
    >>> parts = partition_by_ranges(pa.table({"a": [5, 1, 9]}), ["a"], pa.table({"a": [3, 7]}))
    >>> [pa.table(part)["a"].to_pylist() for part in parts]
    [[1], [5], [9]]
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
    collect : int, optional
        Bytes that are held before they are put into pages.
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
        collect: int | None = None,
    ) -> ShuffleWriter: ...
    def write(self, data: ArrowStream | ArrowArray, /) -> None:
        """Append a table. The interpreter is released."""
    def finish(self) -> None:
        """Seal what was collected; nothing is taken afterwards."""
    def abandon(self) -> None:
        """Take nothing any more, and give up what is in no page."""
