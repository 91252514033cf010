"""Types of the native module, built from ``crates/py``."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

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
