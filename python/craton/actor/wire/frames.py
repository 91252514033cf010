"""Messages and the frames that they travel in.

A message is a tuple of a kind, a number and further fields; its last field may hold anything. A frame is

====================  ===============================================================================
u32                   bytes of the envelope
u32                   number of parts; 0 when the whole message is in the envelope; the highest bit: see below
u64 a part            bytes of it
the envelope          the message as pickle writes it, without its last field if that has a meta
the parts             of the last field: `craton.serialize`'s meta, then the buffers; an empty part, then the buffers,
                      if the whole message is in the envelope but for them
====================  ===============================================================================

all numbers little-endian. With the highest bit, the envelope is the whole message and the parts are plain bytes, which
are read to where the function that the message names (see `places`) wants them. Nothing is unpickled before the other
side has shown that it has the key.
"""

from __future__ import annotations

import contextvars
import importlib
import pickle
import struct
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from craton.actor.errors import SendMessageFailed
from craton.serialize import Parts, decode, deserialize, encode, serialize
from craton.serialize.decoding import unpickled

HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")

MOST_ENVELOPE = 1 << 30
"""Bytes that an envelope may have."""
MOST_PARTS = 1 << 14
"""Parts that a frame may have."""
MOST_BYTES = 1 << 40
"""Bytes that a frame may have."""
LENT = 1 << 20
"""Bytes from which on a value may be lent instead of sent, where that is possible."""
PLACED = 1 << 31
"""The bit of frames whose parts are read to where they shall stay."""
# Text and bytes up to this length travel in the envelope.
_SHORT = 4096
# How deep, and how long, containers are looked into before they are left to the general encoder.
_DEEP, _LONG = 4, 32

# What is known of a type: pickle writes its values well by themselves; it depends on their length; arrays; containers;
# all others are the general encoder's.
_SIMPLE, _TEXT, _LIST, _DICT, _ARRAY, _OTHER = range(6)
_KINDS: dict[type, int] = {
    int: _SIMPLE, float: _SIMPLE, bool: _SIMPLE, type(None): _SIMPLE, complex: _SIMPLE,
    str: _TEXT, bytes: _TEXT, tuple: _LIST, list: _LIST, dict: _DICT,
}  # fmt: skip

# What a value needs: pickle alone; the pickler that leaves memory out; the general encoder.
_PLAIN, _APART, _GENERAL = range(3)


def simple(kind: type) -> type:
    """Declare a small class whose values pickle writes well by itself."""
    _KINDS[kind] = _SIMPLE
    return kind


def _kind_of(kind: type) -> int:
    if kind.__module__ == "numpy":
        global _arrays
        _arrays = importlib.import_module("craton.actor.wire.arrays")
        known = _ARRAY if kind.__name__ == "ndarray" else _SIMPLE if _arrays.is_scalar(kind) else _OTHER
        _KINDS[kind] = known
        return known
    return _OTHER


_arrays: Any = None


def _needs(value: Any, deep: int = _DEEP) -> int:
    kind = type(value)
    known = _KINDS.get(kind)
    if known is None:
        known = _kind_of(kind)
    if known == _SIMPLE:
        return _PLAIN
    if known == _TEXT:
        return _PLAIN if len(value) <= _SHORT else _APART
    if known == _ARRAY:
        return _APART if _arrays.is_plain_array(value) else _GENERAL
    if known == _OTHER or not deep or len(value) > _LONG:
        return _PLAIN if known != _OTHER and not value else _GENERAL
    if known == _DICT:
        for key in value:
            if _KINDS.get(type(key), _OTHER) > _TEXT or _needs(key, 0):
                return _GENERAL
        value = value.values()
    worst = _PLAIN
    for item in value:
        if _KINDS.get(type(item)) != _SIMPLE:
            found = _needs(item, deep - 1)
            if found:
                if found == _GENERAL:
                    return _GENERAL
                worst = _APART
    return worst


def is_plain_value(value: Any) -> bool:
    """Whether pickle by itself writes a value well: it is small, and of plain types."""
    return _needs(value) == _PLAIN


carrier: contextvars.ContextVar[Any] = contextvars.ContextVar("carrier", default=None)
"""The connection for which a value is being written, for what lives no longer than there is somebody to read it."""


def pack(
    fields: tuple[Any, ...], value: Any, lend: Callable[[Parts], Any] | None = None, link: Any = None
) -> list[Any]:
    """Return the pieces of a frame: bytes and buffers that are not copied.

    Parameters
    ----------
    fields : tuple
        Kind, number and what else is plain.
    value : object
        The last field: anything.
    lend : callable, optional
        Given the parts of a value, returns what is sent in its place, or None if its parts are.
    link : Link, optional
        The `carrier`.

    Raises
    ------
    SendMessageFailed
        The value cannot be encoded.
    """
    needs = _needs(value)
    if needs == _PLAIN:
        envelope = pickle.dumps((*fields, value), 5)
        if len(envelope) <= MOST_ENVELOPE:
            return [HEADER.pack(len(envelope), 0) + envelope]
    apart = _pack_apart((*fields, value)) if needs == _APART else []
    if apart and (lend is None or sum(map(len, apart)) < LENT):
        return apart
    token = carrier.set(link)
    try:
        parts = encode(value)
    except Exception as error:
        raise SendMessageFailed(f"cannot be sent: {type(error).__name__}: {error}") from _without_values(error)
    finally:
        carrier.reset(token)
    if lend is not None and (note := lend(parts)) is not None:
        envelope = pickle.dumps((*fields, note), 5)
        return [HEADER.pack(len(envelope), 0) + envelope]
    if apart:
        return apart
    envelope = pickle.dumps(fields, 5)
    if len(parts.buffers) >= MOST_PARTS:
        parts = encode(_Contained(value))
    meta = parts.meta
    lengths = [len(meta), *[buffer.nbytes for buffer in parts.buffers]]
    head = HEADER.pack(len(envelope), len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)
    return [head + envelope + meta, *[buffer for buffer in parts.buffers if buffer.nbytes]]


class _Pieces(list[Any]):
    """A file that keeps what is written to it: pickle writes long text and bytes by themselves, and uncopied."""

    __slots__ = ()
    write = list.append


def _pack_apart(message: tuple[Any, ...]) -> list[Any]:
    pieces = _Pieces()
    buffers: list[pickle.PickleBuffer] = []
    kind = pickle.Pickler if _arrays is None else _arrays.ArrayPickler
    kind(pieces, 5, buffer_callback=buffers.append).dump(message)
    size = sum(map(len, pieces))
    if size > MOST_ENVELOPE or len(buffers) >= MOST_PARTS:
        return []
    if not buffers:
        return [HEADER.pack(size, 0), *pieces]
    memories = [buffer.raw() for buffer in buffers]
    lengths = [0, *[memory.nbytes for memory in memories]]
    return [HEADER.pack(size, len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths), *pieces, *memories]


def unpack(envelope: Any, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the message of a frame; an exception in its last field's place is the caller's to meet.

    Raises
    ------
    ValueError
        The envelope is damaged. What is wrong with the parts only, stands in their place as `Undecodable`.
    """
    apart = bool(parts) and not len(parts[0])
    try:
        message = unpickled(envelope, parts[1:] if apart else None)
    except Exception as error:
        raise ValueError(f"an envelope cannot be read: {type(error).__name__}: {error}") from error
    if type(message) is not tuple or len(message) < 2:
        raise ValueError(f"an envelope holds no message, but a value of type {type(message).__name__}")
    if apart or not parts:
        return message
    try:
        return (*message, decode(parts[0], parts[1:]))
    except Exception as error:
        return (*message, Undecodable(error))


def _without_values(error: Exception) -> Exception:
    # Where it was raised stays known; but whoever keeps it does not keep the values and the memory that were there,
    # nor the circles of views on views that Python before 3.11.8 and 3.12.2 cannot collect without a crash.
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    if trace is not None:
        traceback.clear_frames(trace)
    return error.with_traceback(trace)


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
    message = unpickled(envelope)
    try:
        found = _PLACES[message[2]](message[3], lengths)
        if [place.nbytes for place in found] != list(lengths) or any(place.readonly for place in found):
            raise ValueError(f"parts of {list(lengths)} bytes have no places of their lengths that can be written to")
        return message, found
    except Exception as error:
        return (*message[:3], Undecodable(error)), [memoryview(bytearray(length)) for length in lengths]


class _Contained:
    """A value of very many buffers, as one."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        import numpy as np

        # Of an array: Python before 3.11.8 and 3.12.2 crashes when it collects a buffer of a memoryview.
        memory: Any = np.frombuffer(serialize(self._value), np.uint8)
        return deserialize, (pickle.PickleBuffer(memory),)


class Undecodable:
    """Stands for a value that this process cannot make."""

    def __init__(self, error: Exception) -> None:
        self.error = _without_values(error)


def lengths_of(head: Any, count: int) -> tuple[int, ...]:
    """Return the lengths of the parts."""
    return struct.unpack_from(f"<{count}Q", head)


LENGTH_BYTES = _LENGTH.size
