"""One piece of memory that holds an object: meta, a table, and the buffers at aligned places."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any

from craton._native import Buffers, copy_into
from craton.serialize.decoding import loaded
from craton.serialize.encoding import Parts, encode

__all__ = ["ALIGNMENT", "container_size", "deserialize", "serialize", "write_container"]

ALIGNMENT = 64
"""Every buffer starts at a multiple of this, in bytes: a cache line, and what Arrow recommends."""

_HEAD = struct.Struct("<8sIIQQQQ")
_MAGIC = b"CRATONOB"
_VERSION = 1
_ENTRY = 16


def serialize(obj: Any) -> memoryview:
    """Return a container of an object; ``craton.serialize(obj)`` is the same.

    Parameters
    ----------
    obj : object
        As for `craton.serialize.encode`.

    Returns
    -------
    memoryview
        Bytes, read-only, that start at an aligned address: write them to a file, send them, or wrap them in ``bytes``.

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
        What `serialize` returned, or those bytes from anywhere; contiguous. It may be longer. It must not change any
        more: the object looks into it, and keeps it. Reading is fastest, and Arrow and Polars do not copy, where it
        starts at an aligned address, as mapped files do.
    copy : bool
        Give the object memory of its own, which may be written.

    Raises
    ------
    ValueError
        The data is no container, or one of a later version, or truncated, or damaged where that can be told; the
        message says which.
    pickle.UnpicklingError, …
        What unpickling meets.
    """
    return loaded(Buffers.of_container(data, copy))


def container_size(parts: Parts) -> int:
    """Return the bytes that the container of these parts has."""
    return _places(parts)[-1]


def write_container(parts: Parts, target: memoryview) -> None:
    """Write the container of these parts; large ones on several threads.

    Parameters
    ----------
    parts : Parts
        What `craton.serialize.encode` returned.
    target : memoryview
        Writable bytes, as many as `container_size` says.
    """
    *places, total = _places(parts)
    chunks, buffers = parts.chunks, parts.buffers
    starts = places[: len(chunks)]
    table = [number for at, buffer in zip(places[len(chunks) :], buffers, strict=True) for number in (at, len(buffer))]
    meta = sum(map(len, chunks))
    head = _HEAD.pack(_MAGIC, _VERSION, 0, total, starts[0], meta, len(buffers)) + struct.pack(
        f"<{len(table)}Q", *table
    )
    sources = [head, *chunks, *buffers]
    copy_into([target[at : at + len(source)] for at, source in zip((0, *places), sources, strict=True)], sources)


def _places(parts: Parts) -> list[int]:
    """Where each chunk of meta and each buffer starts, and where all ends."""
    start = _HEAD.size + _ENTRY * len(parts.buffers)
    *places, at = accumulate(map(len, parts.chunks), initial=start)
    for buffer in parts.buffers:
        at = -(-at // ALIGNMENT) * ALIGNMENT
        places.append(at)
        at += len(buffer)
    return [*places, at]


def _aligned(size: int) -> memoryview:
    """Return new memory, not cleared."""
    import numpy as np

    memory: Any = np.empty(size + ALIGNMENT, np.uint8)
    skipped = -memory.ctypes.data % ALIGNMENT
    return memoryview(memory)[skipped : skipped + size]
