"""Types of the native module, built from ``crates/py``."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from craton._native_comm import *  # noqa: F403
from craton._native_durable import *  # noqa: F403
from craton._native_hash import *  # noqa: F403
from craton._native_interrupts import *  # noqa: F403
from craton._native_kmeans import *  # noqa: F403
from craton._native_shuffle import *  # noqa: F403
from craton._native_store import *  # noqa: F403
from craton._native_store import Page
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
        The bytes to hash. For 64 KiB or more, the interpreter lock is released.

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

def offsets_of_texts(views: NDArray[np.uint8], present: NDArray[np.uint8] | None, offsets: NDArray[np.int64], /) -> int:
    """Write where each text begins when all are copied one after another, on all threads; return where the last one ends.

    The interpreter lock is released, and the buffers must not be accessed until the call returns.

    Parameters
    ----------
    views : buffer of uint8
        The views of Arrow's layout of texts, 16 bytes each.
    present : buffer of uint8, optional
        A bit for each text, least significant first: 0 if it is missing. Missing texts have no bytes.
    offsets : writable buffer of int64
        Receives the offsets, one more than there are texts.

    Raises
    ------
    ValueError
        If the lengths do not agree.
    """

def copy_texts(
    views: NDArray[np.uint8], buffers: list[NDArray[np.uint8]], offsets: NDArray[np.int64], out: NDArray[np.uint8], /
) -> None:
    """Copy texts one after another, on all threads; the views are as for :func:`offsets_of_texts`, the offsets those that it has written.

    Parameters
    ----------
    buffers : list of buffers of uint8
        The bytes of texts of more than 12 bytes.
    out : writable buffer of uint8
        Receives the texts.

    Raises
    ------
    ValueError
        If a view names bytes that are in no buffer, or the offsets are not those of the views.
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
