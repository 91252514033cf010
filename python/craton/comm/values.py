"""Values on their way: any object as pieces of memory that are sent one after another, and back without a copy.

A plain array is a head of 64 bytes and its items; everything else is a container of `craton.serialize`.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np

from craton.serialize.container import container_pieces, deserialize
from craton.serialize.encoding import encode

__all__ = ["decoded", "pieces"]

_HEAD = struct.Struct("<8s4s4B6Q")
_MAGIC = b"CRATONAR"
_MOST_DIMENSIONS = 6


def pieces(value: Any) -> list[Any]:
    """Return the memory of a value in pieces; its arrays and tables are not copied."""
    if (
        type(value) is np.ndarray
        and value.dtype.kind in "biufc"
        and value.ndim <= _MOST_DIMENSIONS
        and value.itemsize <= 16
        and value.flags.c_contiguous
    ):
        return [_head(value.dtype.str, value.shape), value if value.ndim else value.reshape(1)]
    return container_pieces(encode(value))


@lru_cache(256)
def _head(dtype: str, shape: tuple[int, ...]) -> bytes:
    lengths = shape + (0,) * (_MOST_DIMENSIONS - len(shape))
    return _HEAD.pack(_MAGIC, dtype.encode(), len(shape), 0, 0, 0, *lengths)


@lru_cache(256)
def _described(head: bytes) -> tuple[str, tuple[int, ...]]:
    _, dtype, dimensions, *_, first, second, third, fourth, fifth, sixth = _HEAD.unpack(head)
    return dtype.rstrip(b"\0").decode(), (first, second, third, fourth, fifth, sixth)[:dimensions]


def decoded(memory: Any) -> Any:
    """Make the value of pieces that were received; its arrays and tables are views of the memory."""
    head = bytes(memoryview(memory)[: _HEAD.size])
    if head[:8] == _MAGIC:
        dtype, shape = _described(head)
        return np.ndarray(shape, dtype, memory, _HEAD.size)
    return deserialize(memory)
