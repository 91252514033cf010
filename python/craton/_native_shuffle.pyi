"""Types of hashing and partitioning rows in ``craton._native``."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craton._native_store import ArrowArray, ArrowStream

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

def distinct_sketches(data: ArrowStream | ArrowArray, /) -> list[bytes]:
    """Return a HyperLogLog sketch of the distinct values of each column: 1,024 registers of one byte.

    The sketch depends on the values alone, as `hash_rows` does; nulls are not counted. The sketch of several tables has the greatest of
    their registers. ``crates/shuffle`` defines the registers; :mod:`craton.plan.sketches` estimates the number. The interpreter lock is
    released.

    Raises
    ------
    TypeError
        If ``data`` exports no Arrow data.
    """

def text_statistics(data: ArrowStream | ArrowArray, most: int, /) -> list[tuple[str, str, list[str] | None] | None]:
    """Return, for each column of texts, the least text, the greatest one, and all different ones if there are at most ``most``.

    None if all texts of a column are missing. Texts are compared by their bytes. The interpreter lock is released.

    Raises
    ------
    TypeError
        If ``data`` exports no Arrow data, or a column has no texts with offsets.
    ValueError
        If ``data`` is a table of no or of several batches.
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
