"""Arrays, long bytes and nested values in messages: the received value equals the sent one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from craton.actor.wire import frames
from craton.actor.wire.reader import Reader


def through(value: Any, apart: bool = False) -> Any:
    """Return the value that a peer receives; with ``apart``, its large parts come by another way."""
    found: list[tuple[Any, ...]] = []
    rooms: list[memoryview] = []
    reader = Reader(found.append, lambda record: 0, 0, rooms.extend)
    pieces, parts = frames.pack((4, 7, "text"), value), []
    if apart:
        pieces, parts = frames.split_bulk(pieces)
        assert all(memoryview(part).nbytes >= frames.BULK for part in parts)
    stream = memoryview(b"".join(bytes(piece) for piece in pieces))
    while stream:
        room = reader.buffer()
        count = min(len(room), len(stream), 100_003)
        room[:count] = stream[:count]
        reader.filled(count)
        stream = stream[count:]
    assert reader.waits == bool(parts)
    if parts:
        assert not found
        for room, part in zip(rooms, parts, strict=True):
            room[:] = memoryview(part).cast("B")
        reader.resume()
    assert reader.between
    ((kind, number, text, received),) = found
    assert (kind, number, text) == (4, 7, "text")
    return received


BASE = np.arange(24).reshape(2, 3, 4)
ARRAYS = {
    "numbers": np.arange(5), "none": np.zeros((0, 3), np.float32), "scalar": np.array(2.5), "2d": np.ones((3, 4)),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)), "strided": BASE[:, ::2, ::-1], "transposed": BASE.T,
    "swapped": np.arange(4, dtype=">i4"), "half": np.ones(3, np.float16), "long": np.ones(3, np.longdouble),
    "complex": np.ones(2, np.complex64), "truth": np.array([True, False]), "text": np.array(["a", "bcd"]),
    "raw": np.array([b"x", b"yz"]), "times": np.array(["2020-01-01", "NaT"], "M8[ns]"), "spans": np.array([1, 2], "m8[s]"),
    "objects": np.array([1, "two", None], object), "records": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "void": np.array([b"abc"], "V3"), "large": np.arange(300_000), "large fortran": np.asfortranarray(np.ones((300, 500))),
    "large times": np.zeros(50_000, "M8[us]"), "view": np.arange(200_000)[1000:150_000],
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_arrays_arrive_as_they_are(name: str, wrapped: bool) -> None:
    array = ARRAYS[name]
    received = through(((1, {"key": [array]}), {})) if wrapped else through(array)
    if wrapped:
        received = received[0][1]["key"][0]
    assert type(received) is np.ndarray
    assert (received.dtype, received.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(received, array)
    assert received.flags.c_contiguous or not array.flags.c_contiguous
    if array.dtype != object:
        assert not received.flags.writeable


def test_kinds_of_arrays_are_kept() -> None:
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    received = through((masked,))[0]
    assert type(received) is np.ma.MaskedArray
    assert received.tolist() == [1, None, 3]
    assert type(through(np.arange(3).view(np.recarray))) is np.recarray
    dtype = np.dtype("i4", metadata={"unit": "m"})
    assert dict(through(np.ones(2, dtype)).dtype.metadata or {}) == {"unit": "m"}


def test_one_array_twice_is_one_array() -> None:
    for size in (3, 100_000):
        array = np.arange(size)
        first, second = through([array, array])
        assert first is second


@pytest.mark.parametrize("size", [0, 4096, 4097, 70_000, 1 << 20])
def test_bytes_and_text_of_every_length(size: int) -> None:
    assert through((b"x" * size, "ü" * size)) == (b"x" * size, "ü" * size)


def test_large_memory_is_not_copied_before_it_is_sent() -> None:
    array = np.arange(100_000)
    data = bytes(1 << 20)
    pieces = frames.pack((0, 1), ((array, data), {}))
    assert any(piece is data for piece in pieces)
    assert any(type(piece) is memoryview and np.shares_memory(np.asarray(piece), array) for piece in pieces)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        (),
        set(),
        [[[[[[1]]]]]],
        {"a": {"b": (1, [2.5, None])}},
        list(range(1000)),
        {(1, "x"): 2},
        np.float64(2.5),
        np.bool_(True),
        np.datetime64(1, "s"),
        np.str_("x"),
        np.timedelta64(3),
        {1: {2}},
    ],
)
def test_values_arrive_as_they_are(value: Any) -> None:
    received = through(((value,), {}))[0][0]
    assert received == value
    assert type(received) is type(value)
