"""Containers: an encoded object in one contiguous piece of memory, with a table of its buffers, which are aligned."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any

from craton._native import Buffers, copy_into
from craton.serialize.decoding import decode_buffers
from craton.serialize.encoding import Parts, encode

__all__ = ["ALIGNMENT", "container_pieces", "container_size", "deserialize", "serialize", "write_container"]

ALIGNMENT = 64
"""The alignment of buffers in bytes: a cache line, and Arrow's recommendation."""

_HEAD = struct.Struct("<8sIIQQQQ")
_MAGIC = b"CRATONOB"
_VERSION = 1
_ENTRY = 16
_PADDING = bytes(ALIGNMENT)


def serialize(obj: Any) -> memoryview:
    """Return a container of an object; ``craton.serialize(obj)`` is the same.

    Parameters
    ----------
    obj : object
        As for `craton.serialize.encode`.

    Returns
    -------
    memoryview
        Read-only bytes at an aligned address, to be written to a file, sent, or copied with ``bytes``.

    Raises
    ------
    pickle.PicklingError, TypeError, …
        As for `craton.serialize.encode`.

    Examples
    --------
    >>> import craton
    >>> data = craton.serialize([1, "two", {3.0}])
    >>> craton.deserialize(data)
    [1, 'two', {3.0}]
    """
    parts = encode(obj)
    memory = _aligned(container_size(parts))
    write_container(parts, memory)
    return memory.toreadonly()


def deserialize(data: Any, *, copy: bool = False) -> Any:
    """Make the object of a container.

    Parameters
    ----------
    data : bytes-like
        The bytes of a container, contiguous; further bytes after it are ignored. They must not change afterwards: the
        object refers to them and keeps them alive. At an aligned address, such as a mapped file's, Arrow and Polars
        need not copy.
    copy : bool
        Copy the data, so that the object owns its memory and arrays are writable.

    Raises
    ------
    ValueError
        The data is not a container, has a later version, is truncated, or is recognisably damaged; the message says
        which.
    pickle.UnpicklingError, …
        Errors of unpickling.
    """
    return decode_buffers(Buffers.of_container(data, copy))


def container_size(parts: Parts) -> int:
    """Return the size of the container of these parts, in bytes."""
    return _places(parts)[-1]


def write_container(parts: Parts, target: memoryview) -> None:
    """Write the container of these parts; large ones are copied with several threads.

    Parameters
    ----------
    parts : Parts
        The encoded object.
    target : memoryview
        Writable bytes, exactly `container_size` of them.
    """
    places = _places(parts)
    head = _head(parts, places)
    sources = [head, *parts.chunks, *parts.buffers]
    places.pop()
    copy_into([target[at : at + len(source)] for at, source in zip((0, *places), sources, strict=True)], sources)


def container_pieces(parts: Parts) -> list[Any]:
    """Return the container of these parts in pieces, which follow each other without a gap; buffers are not copied."""
    if not parts.buffers:
        return [_head(parts, _places(parts)), *parts.chunks]
    places = _places(parts)
    pieces = [_head(parts, places), *parts.chunks]
    at = places[len(parts.chunks) - 1] + len(parts.chunks[-1])
    for place, buffer in zip(places[len(parts.chunks) :], parts.buffers, strict=False):
        if place > at:
            pieces.append(_PADDING[: place - at])
        pieces.append(buffer)
        at = place + len(buffer)
    return pieces


def _head(parts: Parts, places: list[int]) -> bytes:
    """Return the first bytes of a container, and the table of its buffers."""
    chunks, buffers = parts.chunks, parts.buffers
    table = [number for at, buffer in zip(places[len(chunks) :], buffers, strict=False) for number in (at, len(buffer))]
    meta = sum(map(len, chunks))
    head = _HEAD.pack(_MAGIC, _VERSION, 0, places[-1], places[0], meta, len(buffers))
    return head + struct.pack(f"<{len(table)}Q", *table)


def _places(parts: Parts) -> list[int]:
    """Return the offset of each chunk of meta and of each buffer, and the total size."""
    start = _HEAD.size + _ENTRY * len(parts.buffers)
    *places, at = accumulate(map(len, parts.chunks), initial=start)
    for buffer in parts.buffers:
        at = -(-at // ALIGNMENT) * ALIGNMENT
        places.append(at)
        at += len(buffer)
    return [*places, at]


def _aligned(size: int) -> memoryview:
    """Return new uninitialised memory at an aligned address."""
    import numpy as np

    memory: Any = np.empty(size + ALIGNMENT, np.uint8)
    skipped = -memory.ctypes.data % ALIGNMENT
    return memoryview(memory)[skipped : skipped + size]
