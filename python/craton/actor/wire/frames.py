"""Messages and the frames that they travel in.

A message is a tuple of a kind, a number and further fields; its last field may hold anything. A frame is

====================  ===============================================================================
u32                   bytes of the envelope
u32                   number of parts; 0 when the whole message is in the envelope; the highest bit: see below
u64 a part            bytes of it
the envelope          the message as pickle writes it, without its last field if there are parts
the parts             of the last field: `craton.serialize`'s meta, then the buffers
====================  ===============================================================================

all numbers little-endian. With the highest bit, the envelope is the whole message and the parts are plain bytes, which
are read to where the function that the message names (see `places`) wants them. Nothing is unpickled before the other
side has shown that it has the key.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

from craton.actor.errors import SendMessageFailed
from craton.serialize import Parts, decode, deserialize, encode, serialize

HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")

MOST_ENVELOPE = 1 << 30
"""Bytes that an envelope may have."""
MOST_PARTS = 1 << 14
"""Parts that a frame may have."""
MOST_BYTES = 1 << 40
"""Bytes that a frame may have."""
PLACED = 1 << 31
"""The bit of frames whose parts are read to where they shall stay."""
# Text and bytes up to this length travel in the envelope.
_SHORT = 4096
# How deep, and how long, containers are looked into before they are left to the general encoder.
_DEEP, _LONG = 3, 16

_SIMPLE: set[type] = {int, float, bool, type(None), complex}


def simple(kind: type) -> type:
    """Declare a small class whose values pickle writes well by itself."""
    _SIMPLE.add(kind)
    return kind


def is_plain_value(value: Any, deep: int = _DEEP) -> bool:
    """Whether pickle by itself writes a value well: it is small, and of plain types."""
    kind = type(value)
    if kind in _SIMPLE:
        return True
    if kind is str or kind is bytes:
        return len(value) <= _SHORT
    if deep and len(value) <= _LONG if kind is tuple or kind is list or kind is dict else False:
        if kind is dict:
            return all(is_plain_value(key, 0) and is_plain_value(item, deep - 1) for key, item in value.items())
        return all(is_plain_value(item, deep - 1) for item in value)
    return False


def pack(fields: tuple[Any, ...], value: Any, lend: Callable[[Parts], Any] | None = None) -> list[Any]:
    """Return the pieces of a frame: bytes and buffers that are not copied.

    Parameters
    ----------
    fields : tuple
        Kind, number and what else is plain.
    value : object
        The last field: anything.
    lend : callable, optional
        Given the parts of a value, returns what is sent in its place, or None if its parts are.

    Raises
    ------
    SendMessageFailed
        The value cannot be encoded.
    """
    if is_plain_value(value):
        envelope = pickle.dumps((*fields, value), 5)
        return [HEADER.pack(len(envelope), 0) + envelope]
    try:
        parts = encode(value)
    except Exception as error:
        raise SendMessageFailed(f"cannot be sent: {type(error).__name__}: {error}") from error
    if lend is not None and (note := lend(parts)) is not None:
        envelope = pickle.dumps((*fields, note), 5)
        return [HEADER.pack(len(envelope), 0) + envelope]
    envelope = pickle.dumps(fields, 5)
    if len(parts.buffers) >= MOST_PARTS:
        parts = encode(_Contained(value))
    meta = parts.meta
    lengths = [len(meta), *[buffer.nbytes for buffer in parts.buffers]]
    head = HEADER.pack(len(envelope), len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)
    return [head + envelope + meta, *[buffer for buffer in parts.buffers if buffer.nbytes]]


def unpack(envelope: Any, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the message of a frame; an exception in its last field's place is the caller's to meet.

    Raises
    ------
    ValueError
        The envelope is damaged. What is wrong with the parts only, stands in their place as `Undecodable`.
    """
    try:
        message = pickle.loads(envelope)
    except Exception as error:
        raise ValueError(f"an envelope cannot be read: {type(error).__name__}: {error}") from error
    if type(message) is not tuple or len(message) < 2:
        raise ValueError(f"an envelope holds no message, but a value of type {type(message).__name__}")
    if not parts:
        return message
    try:
        return (*message, decode(parts[0], parts[1:]))
    except Exception as error:
        return (*message, Undecodable(error))


def pack_placed(fields: tuple[Any, ...], where: Any, views: Sequence[memoryview]) -> list[Any]:
    """Return the pieces of a frame whose parts are read to where they shall stay.

    Parameters
    ----------
    fields : tuple
        Kind, number and the name that `places` was given.
    where : object
        For that function.
    views : sequence of memoryview
        Bytes.
    """
    envelope = pickle.dumps((*fields, where), 5)
    lengths = [view.nbytes for view in views]
    head = HEADER.pack(len(envelope), len(lengths) | PLACED) + struct.pack(f"<{len(lengths)}Q", *lengths)
    return [head + envelope, *views]


_PLACES: dict[str, Callable[[Any, Sequence[int]], list[memoryview]]] = {}


def places(name: str) -> Callable[[Any], Any]:
    """Declare who says where parts are read to: a function of a message's last field and the parts' lengths."""

    def declare(function: Any) -> Any:
        _PLACES[name] = function
        return function

    return declare


def unpack_placed(envelope: Any, lengths: Sequence[int]) -> tuple[tuple[Any, ...], list[memoryview]]:
    """Return a message, and where its parts are read to; if that cannot be said, the last field is `Undecodable`."""
    message = pickle.loads(envelope)
    try:
        return message, _PLACES[message[2]](message[3], lengths)
    except Exception as error:
        # Without its frames, which keep the places.
        return (*message[:3], Undecodable(error.with_traceback(None))), [
            memoryview(bytearray(length)) for length in lengths
        ]


class _Contained:
    """A value of very many buffers, as one."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return deserialize, (pickle.PickleBuffer(serialize(self._value)),)


class Undecodable:
    """Stands for a value that this process cannot make."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def lengths_of(head: Any, count: int) -> tuple[int, ...]:
    """Return the lengths of the parts."""
    return struct.unpack_from(f"<{count}Q", head)


LENGTH_BYTES = _LENGTH.size
