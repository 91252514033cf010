"""Messages that nest too deep, or claim too much memory, cause an error or drop the peer, and never crash the reader."""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import functools
import logging
import pickle
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import craton
import craton.actor as xo
from craton._native import check_pickle
from craton.actor.wire import addresses, auth, frames
from craton.actor.wire.peers import CALL
from craton.serialize import decoding
from craton.serialize.decoding import MAX_DEPTH, unpickle

sys.path.insert(0, str(Path(__file__).parent))

from actors import Worker, until

MANY = 1_000_000
_SLICE = b"cbuiltins\nslice\n"

#: Pickles that build values nested `n` deep, or open `n` lists.
NESTED: dict[str, Callable[[int], bytes]] = {
    "marks": lambda n: b"(" * n,
    "tuples": lambda n: b"(" * n + b"t" * n,
    "pairs": lambda n: b")" + b"\x85" * n,
    "lists": lambda n: b"]" * n + b"a" * (n - 1),
    "batches": lambda n: b"](" * n + b"e" * n,
    "dicts": lambda n: b"}N" * n + b"N" + b"s" * n,
    "frozen sets": lambda n: b"(" * n + b"\x91" * n,
    "keys": lambda n: b"}" + b")" + b"\x85" * n + b"Ns",
    "constructors": lambda n: _SLICE * n + b"N\x85R" + b"\x85R" * (n - 1),
    "states": lambda n: b"cactors\nWorker\n)\x81" * n + b"b" * (n - 1),
    "memo": lambda n: b")\x94" + b"".join(b"0j" + struct.pack("<I", i) + b"\x85\x94" for i in range(n)),
}
BOMBS = {
    "long place": b"Nr\xff\xff\xff\x7f",
    "longest place": b"Nr\xff\xff\xff\xff",
    "written place": b"Np2147483647\n",
    "text": b"\x8d" + struct.pack("<Q", 1 << 40) + b"x",
    "bytes": b"\x8e" + struct.pack("<Q", 1 << 62),
    "bytearray": b"\x96" + struct.pack("<Q", 1 << 36),
    "frame": b"\x95" + struct.pack("<Q", 1 << 60),
    "number": b"\x8b\xff\xff\xff\x7f",
}


def _stream(body: bytes) -> bytes:
    return b"\x80\x05" + body + b"."


@pytest.mark.parametrize("name", NESTED)
def test_deep_pickles_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="at most 10000 is accepted"):
        unpickle(_stream(NESTED[name](MANY)))
    with pytest.raises(ValueError, match="accepted"):
        check_pickle(_stream(NESTED[name](101)), 100)
    if name != "marks":
        check_pickle(_stream(NESTED[name](40)), 100)


@pytest.mark.parametrize("name", BOMBS)
def test_pickles_with_excessive_sizes_are_refused(name: str) -> None:
    with pytest.raises((ValueError, pickle.UnpicklingError), match=r"accepted|truncated|exhausted"):
        unpickle(_stream(BOMBS[name]))
    with pytest.raises(ValueError, match=r"accepted|truncated"):
        unpickle(_stream(b"]N" + b"a" + MANY * b"Na" + BOMBS[name]))


def test_the_maximum_depth_is_safe() -> None:
    # Hashing, comparing and freeing the value recurse in C.
    deep = unpickle(_stream(NESTED["pairs"](MAX_DEPTH - 1)))
    assert hash(deep) == hash(unpickle(_stream(NESTED["pairs"](MAX_DEPTH - 1))))
    assert len({deep, (deep[0],)}) == 1
    unpickle(_stream(NESTED["constructors"](MAX_DEPTH // 2)))
    unpickle(_stream(NESTED["keys"](MAX_DEPTH - 3)))


class Node:
    """A node of a linked list."""

    def __init__(self, before: Any) -> None:
        self.before = before


def _values() -> list[Any]:
    chain: list[Any] = [Node(None)]
    for _ in range(3 * MAX_DEPTH):
        chain.append(Node(chain[-1]))
    itself: list[Any] = []
    itself.append((itself, {1: itself}))
    deep: Any = ()
    for _ in range(200):
        deep = [(deep, {"a": deep})]
    return [
        chain, itself, deep, None, True, 1 << 5000, -(1 << 40), 1.5, 1j, "text", "é" * 70_000, b"x" * 300, bytearray(b"y"),
        {1, 2}, frozenset({3}), {"a": [1, (2, 3, 4, 5)]}, range(5), slice(1, 2), ..., print, functools.partial(int, "2"),
        ValueError("x", 1), list(range(3000)), {i: str(i) for i in range(3000)}, tuple(range(3000)), set(range(3000)),
        copyreg, np.arange(4), np.float64(2.0), np.dtype("i4"), Worker, 300 * [[]], [(i,) for i in range(2000)],
    ]  # fmt: skip


def test_ordinary_pickles_are_accepted() -> None:
    for value in _values():
        for protocol in range(6):
            try:
                stream = pickle.dumps(value, protocol)
            except (TypeError, pickle.PicklingError):
                continue
            check_pickle(stream, MAX_DEPTH)
            check_pickle(memoryview(bytearray(stream + b"more"))[:], MAX_DEPTH)
            for end in (0, 1, len(stream) // 2, len(stream) - 1):
                with pytest.raises((ValueError, EOFError, pickle.UnpicklingError)):
                    unpickle(stream[:end])
    with pytest.raises(BufferError, match="not contiguous"):
        check_pickle(memoryview(b"abcdef")[::2], 5)
    with pytest.raises(TypeError):
        check_pickle("text", 5)


def test_objects_that_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = ()
    for _ in range(120):
        deep = (deep,)
    data = craton.serialize(deep)
    assert craton.deserialize(data) == deep
    monkeypatch.setattr(decoding, "MAX_DEPTH", 100)
    with pytest.raises(ValueError, match="the depth of a pickled value is 101, and at most 100 is accepted"):
        craton.deserialize(data)


# ---- messages to a pool ----


def _framed(envelope: bytes) -> bytes:
    return frames.HEADER.pack(len(envelope), 0) + envelope


def _general(fields: tuple[Any, ...], body: bytes) -> bytes:
    # A frame as `frames.pack` writes it for the general encoder, but with the given pickle in it.
    envelope = pickle.dumps(fields, 5)
    pieces = [bytes(piece) for piece in frames.pack(fields, (({1, 2},), {}))]
    meta = b"".join(pieces)[frames.HEADER.size + frames.LENGTH_BYTES + len(envelope) :]
    head, _, _ = meta.partition(b"\x80\x05")
    meta = head + _stream(body)
    return frames.HEADER.pack(len(envelope), 1) + struct.pack("<Q", len(meta)) + envelope + meta


def _sent(address: str, data: bytes, wanted: bytes = b"") -> bytes:
    """Authenticate, send bytes, and return the received bytes, until they contain ``wanted`` or the connection ends."""
    host, port = addresses.split(address)
    with socket.create_connection((host, port or 0), timeout=20) as sock:
        shake = auth.Handshake(auth.key(), False)
        record = shake.answer(sock.recv(auth.OPENING, socket.MSG_WAITALL))
        assert record is not None
        sock.sendall(record)
        assert shake.answer(sock.recv(auth.MAC, socket.MSG_WAITALL)) == b""
        sock.sendall(data)
        if not wanted:
            sock.shutdown(socket.SHUT_WR)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while (not wanted or wanted not in found) and (more := sock.recv(1 << 16)):
                found += more
        return found


def test_messages_to_a_pool(caplog: pytest.LogCaptureFixture) -> None:
    envelopes = [*(make(MANY) for make in NESTED.values()), *BOMBS.values()]
    # A nested value as a uid would be hashed to find the actor.
    envelopes.append(b"(K\x00K\x01)" + b"\x85" * MANY + b"\x8c\x03addN)}\x86t")

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            ref = await xo.create_actor(Worker, uid="w", address=pool.external_address)
            loop = asyncio.get_running_loop()
            for body in envelopes:
                await loop.run_in_executor(None, _sent, pool.external_address, _framed(_stream(body)))
                assert await ref.add(0) == 0
            # If only an argument nests too deep, only the call fails.
            call = (CALL, 7, b"w", "echo", None)
            asked = _general(call, NESTED["pairs"](MANY))
            why = b"at most 10000 is accepted"
            assert why in await loop.run_in_executor(None, _sent, pool.external_address, asked, why)
            # The class and arguments of a new actor are a pickle within a message.
            with pytest.raises(ValueError, match="accepted"):
                await pool.create(b"x", _stream(NESTED["tuples"](MANY)))
            assert await ref.add(1) == 1
            await until(lambda: not pool._links)

    with caplog.at_level(logging.WARNING, "craton.actor"):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records]
    assert any("drops client" in line and "accepted" in line for line in said)
