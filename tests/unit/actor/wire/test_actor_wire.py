"""Frames and their reader: messages are decoded however the stream is split, and damage causes at worst a ValueError."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craton.actor.errors import NotAuthenticated
from craton.actor.wire import auth, frames
from craton.actor.wire import link as links
from craton.actor.wire.link import Link
from craton.actor.wire.reader import _LARGE, BUFFER_SIZE, Reader

_SIZES = st.sampled_from(
    [0, 1, 7, 4095, 4097, BUFFER_SIZE // 4 - 60, BUFFER_SIZE // 4 + 1, BUFFER_SIZE, 3 * BUFFER_SIZE]
)
_VALUES = st.one_of(
    st.integers(), st.none(), st.text(max_size=20), st.lists(st.integers(), max_size=40),
    st.builds(lambda size, fill: bytes([fill]) * size, _SIZES, st.integers(0, 255)),
    st.builds(lambda size, fill: [bytearray([fill]) * size, "x"], _SIZES, st.integers(0, 255)),
)  # fmt: skip


def _no_handshake(_record: bytes) -> int:
    return 0


def _no_parts(_rooms: list[memoryview]) -> None:
    raise ValueError("no other way")


def _fed(stream: bytes, cuts: list[int], found: list[Any], parts: Iterator[Any] | None = None) -> Reader:
    """Read a stream in pieces; what comes by another way is given when the reader waits for it."""
    rooms: list[memoryview] = []
    reader = Reader(found.append, _no_handshake, 0, _no_parts if parts is None else rooms.extend)
    at = number = 0
    while at < len(stream) or reader.waits:
        if reader.waits:
            for room in rooms:
                room[:] = memoryview(next(parts or iter(()))).cast("B")
            rooms.clear()
            reader.resume()
            continue
        room = reader.buffer()
        assert len(room)
        step = min(len(room), len(stream) - at, cuts[number % len(cuts)] if cuts else len(stream))
        room[:step] = stream[at : at + step]
        reader.filled(step)
        at, number = at + step, number + 1
    return reader


def _stream(values: list[Any]) -> bytes:
    return b"".join(bytes(piece) for number, value in enumerate(values) for piece in frames.pack((0, number), value))


@settings(deadline=None, max_examples=60)
@given(st.lists(_VALUES, max_size=8), st.lists(st.integers(1, 100_000), min_size=1, max_size=6))
def test_any_split_gives_the_same_messages(values: list[Any], cuts: list[int]) -> None:
    stream = _stream(values)
    if len(stream) > 50_000:
        cuts = [max(cut, 500) for cut in cuts]
    found: list[Any] = []
    assert _fed(stream, cuts, found).between
    assert found == [(0, number, value) for number, value in enumerate(values)]


@settings(deadline=None, max_examples=60)
@given(st.lists(_VALUES, max_size=8), st.lists(st.integers(1, 100_000), min_size=1, max_size=6), st.booleans())
def test_large_parts_come_by_another_way(values: list[Any], cuts: list[int], placed: bool) -> None:
    stream, parts, expected = b"", [], list[Any]()
    for number, value in enumerate(values):
        pieces = frames.pack((0, number), value)
        if placed and type(value) is bytes:
            views = [memoryview(value), memoryview(value[: len(value) // 2])]
            pieces = frames.pack_placed((0, number, "test of apart parts"), [view.nbytes for view in views], views)
            value = [view.nbytes for view in views]
            expected.append((0, number, "test of apart parts", value))
        else:
            expected.append((0, number, value))
        rest, large = frames.split_bulk(pieces)
        assert sum(map(_size, rest)) + sum(map(_size, large)) == sum(map(_size, pieces))
        stream += b"".join(map(bytes, rest))
        parts += large
    if len(stream) > 50_000:
        cuts = [max(cut, 500) for cut in cuts]
    found: list[Any] = []
    left = iter(parts)
    assert _fed(stream, cuts, found, left).between
    assert found == expected
    assert next(left, None) is None


@frames.places("test of apart parts")
def _places(sizes: list[int], _lengths: Any) -> list[memoryview]:
    return [memoryview(bytearray(size)) for size in sizes]


def _size(piece: Any) -> int:
    return memoryview(piece).nbytes


@settings(deadline=None, max_examples=150)
@given(
    st.lists(_VALUES, min_size=1, max_size=4), st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=12)), max_size=4),
    st.lists(st.integers(1, 100_000), min_size=1, max_size=3),
)  # fmt: skip
def test_damage_is_a_value_error_at_worst(
    values: list[Any], damage: list[tuple[float, bytes]], cuts: list[int]
) -> None:
    stream = bytearray(_stream(values))
    for where, what in damage:
        at = int(where * len(stream))
        stream[at : at + len(what)] = what
    if len(stream) > 50_000:
        cuts = [max(cut, 500) for cut in cuts]
    taken: list[int] = []

    def envelope_only(envelope: Any, parts: Any) -> Any:
        taken.append(len(envelope) + sum(map(len, parts)))
        return (0, 0)

    with pytest.MonkeyPatch.context() as patched:
        # Whether pickle detects damage is not tested here, only how the stream is split into frames.
        patched.setattr(frames, "unpack", envelope_only)
        try:
            reader = _fed(bytes(stream), cuts, [])
        except ValueError:
            return
    assert sum(taken) <= len(stream)
    # Memory is allocated only for parts that have arrived, and one more.
    assert sum(len(piece) for piece in reader._pieces if len(piece) < _LARGE) <= len(stream) + _LARGE


@pytest.mark.parametrize("envelope", [b"", b"garbage", b"\x80\x05K\x01.", b"\x80\x05)."])
def test_a_damaged_envelope(envelope: bytes) -> None:
    with pytest.raises(ValueError, match="envelope"):
        _fed(frames.HEADER.pack(len(envelope), 0) + envelope, [], [])


@pytest.mark.parametrize(
    "head",
    [frames.HEADER.pack(frames.MAX_ENVELOPE + 1, 0), frames.HEADER.pack(1, frames.MAX_PARTS + 1),
     frames.HEADER.pack(0, 2) + (1 << 63).to_bytes(8, "little") * 2, frames.HEADER.pack(0, 1) + (1 << 62).to_bytes(8, "little")],
)  # fmt: skip
def test_excessive_sizes_are_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match="claims"):
        _fed(head, [], [])


def test_a_damaged_value_affects_only_its_message() -> None:
    pieces = frames.pack((0, 1), [bytearray(5000)])
    stream = b"".join(bytes(piece) for piece in pieces).replace(b"COBM", b"XXXX") + _stream([5])
    found: list[Any] = []
    _fed(stream, [], found)
    assert type(found[0][-1]) is frames.Undecodable
    assert found[1] == (0, 0, 5)


class _Silent:
    def __init__(self) -> None:
        self.lost: list[Any] = []

    def on_message(self, link: Any, message: Any) -> None:
        pass

    def on_lost(self, link: Any, error: Any) -> None:
        self.lost.append(error)

    def on_disconnect(self, link: Any) -> None:
        self.lost.append("disconnected")


def _linked(work: Any) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        with theirs:
            theirs.setblocking(False)
            receiver = _Silent()
            link = Link(asyncio.get_running_loop(), ours, receiver, auth.Handshake(b"x" * 32, True), "nobody")
            try:
                await asyncio.wait_for(work(link, theirs, receiver), 10)
            finally:
                link.close()

    asyncio.run(main())


async def _sent(theirs: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
    return found


@pytest.mark.parametrize("size", [10, 100_000])
def test_written_bytes_do_not_change_before_they_are_sent(size: int) -> None:
    async def work(link: Link, theirs: socket.socket, receiver: Any) -> None:
        memory = bytearray(b"a" * size)
        link.write([b"first"])
        link.write([memory])  # gathered with others until the end of the loop's iteration
        memory[:] = b"b" * size
        assert (await _sent(theirs, 38 + 5 + size))[38:] == b"first" + b"a" * size

    _linked(work)


@pytest.mark.parametrize("lent", [True, False])
def test_an_ended_connection_keeps_no_memory(lent: bool) -> None:
    async def work(link: Link, theirs: socket.socket, receiver: Any) -> None:
        memory = np.zeros(50_000_000, "u1")
        seen = weakref.ref(memory)
        link.dependents.add(receiver)
        link.write([memory.data], lent=lent)
        del memory
        assert (seen() is not None) == lent  # what is not lent was copied
        assert bool(link._copies._used) != lent
        link.fail(TimeoutError())
        assert not link._copies._used
        assert seen() is None
        assert [type(one) for one in receiver.lost] == [str, TimeoutError]
        assert not len(link._reader.buffer())

    _linked(work)


def test_backpressure_pauses_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HIGH_WATER", 1 << 20)
    monkeypatch.setattr(links, "LOW_WATER", 1 << 18)

    async def work(link: Link, theirs: socket.socket, receiver: Any) -> None:
        link.write([bytes(20_000_000)])
        assert link.full
        link.pause_reading()
        theirs.send(b"rubbish" * 20)  # read only when there is room again, and ends the connection
        for _ in range(20):
            await asyncio.sleep(0)
        assert link.received == 0
        with contextlib.suppress(ConnectionError):
            await _sent(theirs, 20_000_000)
        await asyncio.wait_for(link.ready, 10)

    with pytest.raises(NotAuthenticated):
        _linked(work)


def test_direct_placement_with_wrong_sizes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = b"".join(frames.pack_placed((0, 1, "test"), None, [memoryview(b"abc"), memoryview(b"de")])) + _stream([5])
    for found in ([3, 3], [3], [2, 2], None):
        memory = [memoryview(bytes(3)), memoryview(bytes(2))] if found is None else [
            memoryview(bytearray(length)) for length in found
        ]  # fmt: skip
        monkeypatch.setitem(frames._PLACES, "test", lambda _where, _lengths, memory=memory: memory)
        messages: list[Any] = []
        _fed(stream, [], messages)
        assert type(messages[0][-1]) is frames.Undecodable
        assert messages[1] == (0, 0, 5)


def test_bytes_larger_than_an_envelope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_ENVELOPE", 10_000)
    monkeypatch.setattr(frames, "MAX_PARTS", 20)
    values = [b"x" * 20_000, "é" * 20_000, [b"x" * 3000] * 8, [bytes([n]) * 3000 for n in range(8)],
              [np.zeros(50_000, "u1") for _ in range(25)]]  # fmt: skip
    found: list[Any] = []
    _fed(_stream(values), [], found)
    assert [message[2] for message in found[:4]] == values[:4]
    assert len(found[4][2]) == 25
