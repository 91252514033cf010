"""Encodes messages as frames, and decodes them.

A message is a tuple of a kind, a number and further fields; its last field is an arbitrary value. A frame consists of

====================  ===============================================================================
u32                   size of the envelope in bytes
u32                   number of parts; the two highest bits mark kinds of frames, see below
u64 for each part     its size in bytes
the envelope          a pickle
the parts             bytes
====================  ===============================================================================

All numbers are little-endian. There are these kinds of frames:

- Without parts, the envelope is the whole message.
- If the first part is empty, the envelope is the whole message, and the other parts are its out-of-band buffers.
- If the first part is not empty, the envelope is the message without its last field, and the parts are that field as
  `craton.serialize` encodes it: its meta, then its buffers.
- With the second highest bit set, the parts of `BULK` bytes or more are not in the frame: they come by another way; see `split_bulk`.
- With the highest bit set (direct placement), the envelope is the whole message, and the parts are plain bytes. They are
  received directly into the memory that the function named by the message returns; see `places`.

Nothing is unpickled before the peer has authenticated.
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
from craton.serialize.decoding import unpickle

HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")

MAX_ENVELOPE = 1 << 30
"""The largest envelope in bytes."""
MAX_PARTS = 1 << 14
"""The most parts of a frame."""
MAX_BYTES = 1 << 40
"""The most bytes in the parts of a frame."""
LEND_THRESHOLD = 1 << 20
"""The least size in bytes at which `pack` offers a value to ``lend``."""
PLACED = 1 << 31
"""The bit that marks frames with direct placement."""
WITHOUT_BULK = 1 << 30
"""The bit that marks frames without their large parts."""
BULK = 1 << 16
"""The least size in bytes of a large part."""
# Text and bytes up to this length are copied into the envelope.
_SHORT = 4096
# The deepest nesting and the longest container that are inspected; others are left to the general encoder.
_DEEP, _LONG = 4, 32

# Categories of types: plain pickle is good for all values; it depends on the length; containers; arrays; all others, which
# need the general encoder.
_SIMPLE, _TEXT, _LIST, _DICT, _ARRAY, _OTHER = range(6)
_KINDS: dict[type, int] = {
    int: _SIMPLE, float: _SIMPLE, bool: _SIMPLE, type(None): _SIMPLE, complex: _SIMPLE,
    str: _TEXT, bytes: _TEXT, tuple: _LIST, list: _LIST, dict: _DICT,
}  # fmt: skip

# How a value is encoded: with plain pickle; with pickle and out-of-band buffers; with the general encoder.
_PLAIN, _OUT_OF_BAND, _GENERAL = range(3)


def simple(kind: type) -> type:
    """Declare that instances of a class are small and that plain pickle is good for them; a class decorator."""
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
        return _PLAIN if len(value) <= _SHORT else _OUT_OF_BAND
    if known == _ARRAY:
        return _OUT_OF_BAND if _arrays.is_plain_array(value) else _GENERAL
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
                worst = _OUT_OF_BAND
    return worst


def is_plain_value(value: Any) -> bool:
    """Whether plain pickle is good for a value: it is small and consists of plain types."""
    return _needs(value) == _PLAIN


sending_link: contextvars.ContextVar[Any] = contextvars.ContextVar("sending_link", default=None)
"""The connection that the value being encoded will be sent over, for objects such as streams whose life is bound to it."""


def pack(
    fields: tuple[Any, ...], value: Any, lend: Callable[[Parts], Any] | None = None, link: Any = None
) -> list[Any]:
    """Encode a message; return the pieces of its frame: bytes, and buffers that are not copied.

    Parameters
    ----------
    fields : tuple
        The kind, the number and the further fields, which plain pickle encodes.
    value : object
        The last field.
    lend : callable, optional
        Given the encoded parts of a large value, returns a message to send in its place, or None to send the parts.
    link : Link, optional
        The connection, for `sending_link`.

    Raises
    ------
    SendMessageFailed
        The value cannot be encoded.
    """
    needs = _needs(value)
    if needs == _PLAIN:
        envelope = pickle.dumps((*fields, value), 5)
        if len(envelope) <= MAX_ENVELOPE:
            return [HEADER.pack(len(envelope), 0) + envelope]
    out_of_band = _pack_out_of_band((*fields, value)) if needs == _OUT_OF_BAND else []
    if out_of_band and (lend is None or sum(map(len, out_of_band)) < LEND_THRESHOLD):
        return out_of_band
    token = sending_link.set(link)
    try:
        parts = encode(value)
    except Exception as error:
        raise SendMessageFailed(f"cannot be sent: {type(error).__name__}: {error}") from _without_values(error)
    finally:
        sending_link.reset(token)
    if lend is not None and (note := lend(parts)) is not None:
        envelope = pickle.dumps((*fields, note), 5)
        return [HEADER.pack(len(envelope), 0) + envelope]
    if out_of_band:
        return out_of_band
    envelope = pickle.dumps(fields, 5)
    if len(parts.buffers) >= MAX_PARTS:
        parts = encode(_AsContainer(value))
    meta = parts.meta
    lengths = [len(meta), *[buffer.nbytes for buffer in parts.buffers]]
    head = HEADER.pack(len(envelope), len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)
    return [head + envelope + meta, *[buffer for buffer in parts.buffers if buffer.nbytes]]


class _Pieces(list[Any]):
    """A file that keeps what is written as a list; pickle writes long text and bytes separately, without copying."""

    __slots__ = ()
    write = list.append


def _pack_out_of_band(message: tuple[Any, ...]) -> list[Any]:
    pieces = _Pieces()
    buffers: list[pickle.PickleBuffer] = []
    kind = pickle.Pickler if _arrays is None else _arrays.ArrayPickler
    kind(pieces, 5, buffer_callback=buffers.append).dump(message)
    size = sum(map(len, pieces))
    if size > MAX_ENVELOPE or len(buffers) >= MAX_PARTS:
        return []
    if not buffers:
        return [HEADER.pack(size, 0), *pieces]
    memories = [buffer.raw() for buffer in buffers]
    lengths = [0, *[memory.nbytes for memory in memories]]
    return [HEADER.pack(size, len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths), *pieces, *memories]


def unpack(envelope: Any, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Decode the message of a frame.

    If only the parts cannot be decoded, the last field is an `Undecodable`.

    Raises
    ------
    ValueError
        The envelope cannot be decoded.
    """
    out_of_band = bool(parts) and not len(parts[0])
    try:
        message = unpickle(envelope, parts[1:] if out_of_band else None)
    except Exception as error:
        raise ValueError(f"an envelope cannot be read: {type(error).__name__}: {error}") from error
    if type(message) is not tuple or len(message) < 2:
        raise ValueError(f"an envelope must hold a message tuple, not a value of type {type(message).__name__}")
    if out_of_band or not parts:
        return message
    try:
        return (*message, decode(parts[0], parts[1:]))
    except Exception as error:
        return (*message, Undecodable(error))


def _without_values(error: Exception) -> Exception:
    # Keeps the traceback but clears the local variables of its frames, which would keep large values alive, and reference
    # cycles of memoryviews, which Python before 3.11.8 and 3.12.2 crashes on when it collects them.
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    if trace is not None:
        traceback.clear_frames(trace)
    return error.with_traceback(trace)


def pack_placed(fields: tuple[Any, ...], where: Any, views: Sequence[memoryview]) -> list[Any]:
    """Encode a frame with direct placement; return its pieces.

    Parameters
    ----------
    fields : tuple
        The kind, the number and the name that `places` was given.
    where : object
        The argument of the receiver's `places` function.
    views : sequence of memoryview
        The bytes to send.
    """
    envelope = pickle.dumps((*fields, where), 5)
    lengths = [view.nbytes for view in views]
    head = HEADER.pack(len(envelope), len(lengths) | PLACED) + struct.pack(f"<{len(lengths)}Q", *lengths)
    return [head + envelope, *views]


def split_bulk(pieces: list[Any]) -> tuple[list[Any], list[Any]]:
    """Take the large parts out of the pieces of a frame.

    Returns
    -------
    list
        The pieces of the frame without them, marked so.
    list
        The large parts, in order.
    """
    head = pieces[0]
    envelope, count = HEADER.unpack_from(head)
    if len(pieces) == 1 or not count:
        return pieces, []
    lengths = lengths_of(memoryview(head)[HEADER.size :], count & ~PLACED)
    if not any(large := are_bulk(lengths, bool(count & PLACED))):
        return pieces, []
    follow = [piece for piece in pieces[1:] if memoryview(piece).nbytes]  # the last of them are the parts
    parts = [number for number, length in enumerate(lengths) if length and (number or count & PLACED)]
    first = len(follow) - len(parts)
    rest = [HEADER.pack(envelope, count | WITHOUT_BULK) + head[HEADER.size :], *follow[:first]]
    taken: list[Any] = []
    for number, piece in zip(parts, follow[first:], strict=True):
        (taken if large[number] else rest).append(piece)
    return rest, taken


def are_bulk(lengths: Sequence[int], placed: bool) -> list[bool]:
    """Whether each part of a frame is a large part; the first never is if it is the value's meta."""
    return [length >= BULK and (placed or number > 0) for number, length in enumerate(lengths)]


_PLACES: dict[str, Callable[[Any, Sequence[int]], list[memoryview]]] = {}


def places(name: str) -> Callable[[Any], Any]:
    """Declare the function that returns the memory to receive parts into, for frames with direct placement.

    It gets the message's last field and the sizes of the parts, and returns a writable memoryview for each part.
    """

    def declare(function: Any) -> Any:
        _PLACES[name] = function
        return function

    return declare


def unpack_placed(envelope: Any, lengths: Sequence[int]) -> tuple[tuple[Any, ...], list[memoryview]]:
    """Decode the envelope of a frame with direct placement; return the message, and the memory to receive its parts into.

    If the `places` function fails, the last field is an `Undecodable`, and the parts go to temporary memory.
    """
    message = unpickle(envelope)
    try:
        found = _PLACES[message[2]](message[3], lengths)
        if [place.nbytes for place in found] != list(lengths) or any(place.readonly for place in found):
            raise ValueError(f"parts of {list(lengths)} bytes need writable memory of exactly these sizes")
        return message, found
    except Exception as error:
        return (*message[:3], Undecodable(error)), [memoryview(bytearray(length)) for length in lengths]


class _AsContainer:
    """Encodes a value with more than `MAX_PARTS` buffers as a single buffer."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        import numpy as np

        # A buffer of an array, because Python before 3.11.8 and 3.12.2 crashes when it collects a PickleBuffer of a memoryview.
        memory: Any = np.frombuffer(serialize(self._value), np.uint8)
        return deserialize, (pickle.PickleBuffer(memory),)


class Undecodable:
    """Replaces a value that could not be decoded; has the exception."""

    def __init__(self, error: Exception) -> None:
        self.error = _without_values(error)


def lengths_of(head: Any, count: int) -> tuple[int, ...]:
    """Return the sizes of a frame's parts, in bytes."""
    return struct.unpack_from(f"<{count}Q", head)


LENGTH_BYTES = _LENGTH.size
