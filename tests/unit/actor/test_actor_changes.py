"""Values are sent as they are at the call, the return or the `yield`, whatever the program changes in place afterwards."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import craton.actor as xo
import craton.comm
from craton.actor.wire import addresses
from craton.actor.wire.copies import Copies
from craton.actor.wire.peers import Peers
from craton.serialize import encode
from craton.serialize.changes import may_change, unchanging
from craton.serialize.snapshots import taken_from

sys.path.insert(0, str(Path(__file__).parent))

from actors import until

from tests.unit.actor.wire.test_actor_tls import OPENSSL, Files

#: Items of 8 bytes, around the sizes at which values are sent in another way.
SIZES = [10, 4_000, 10_000, 20_000, 180_000, 400_000]
TRANSPORTS = [
    "unix",
    "tcp",
    pytest.param(
        "tls", marks=pytest.mark.skipif(OPENSSL is None, reason="it makes certificates with the openssl command")
    ),
    pytest.param("ucx", marks=pytest.mark.skipif("ucx" not in craton.comm.available(), reason="UCX is not installed")),
]
ROUNDS = 12


def array(size: int) -> Any:
    return np.zeros(size)


def frame(size: int) -> Any:
    return pd.DataFrame({"x": np.zeros(size), "y": np.zeros(size, "i8")})


def nested(size: int) -> Any:
    return {"a": [np.zeros(size)], "b": (bytearray(8 * size), "text")}


def change(value: Any, number: int) -> None:
    """Set all numbers of a value, in place."""
    if isinstance(value, np.ndarray):
        value[...] = number
    elif isinstance(value, pd.DataFrame):
        value.loc[:, "x"] = float(number)
        value.iloc[:, 1] = number
    elif isinstance(value, bytearray):
        value[:] = bytes([number]) * len(value)
    elif isinstance(value, dict):
        change(value["a"][0], number)
        change(value["b"][0], number)


def numbers(value: Any) -> set[float]:
    """The numbers in a value."""
    if isinstance(value, np.ndarray):
        return {float(value.min()), float(value.max())}
    if isinstance(value, pd.DataFrame):
        return numbers(value["x"].to_numpy()) | numbers(value["y"].to_numpy())
    if isinstance(value, (bytearray, bytes)):
        return numbers(np.frombuffer(value, "u1"))
    return numbers(value["a"][0]) | numbers(value["b"][0])


class Changing(xo.Actor):
    """Returns, and takes, values that are changed in place."""

    def begin(self, kind: str, size: int) -> None:
        self.value = globals()[kind](size)
        self.taken: list[set[float]] = []

    @xo.extensible
    def set(self, number: int) -> Any:
        change(self.value, number)
        return self.value

    @xo.extensible
    async def aset(self, number: int) -> Any:
        await asyncio.sleep(0)
        change(self.value, number)
        return self.value

    def take(self, value: Any) -> set[float]:
        self.taken.append(numbers(value))
        return self.taken[-1]

    def all_taken(self) -> list[set[float]]:
        return self.taken

    @xo.generator(ahead=4)
    def ahead(self, count: int) -> Any:
        for number in range(count):
            change(self.value, number)
            yield self.value

    @xo.generator(ahead=4)
    async def aahead(self, count: int) -> Any:
        for number in range(count):
            change(self.value, number)
            yield self.value


def run(transport: str, work: Callable[[Any], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"external_address_schemes": ["ucx", "ucx"] if transport == "ucx" else None}
        if transport == "tls":
            options["tls"] = Files(folder).tls("one")
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, **options) as pool:
            address = pool.config.get_external_addresses()[1]
            with pytest.MonkeyPatch.context() as patched:
                if transport != "unix":
                    patched.setattr(addresses, "local_name", lambda _address: "\0nobody is here")
                    Peers.here().close({address})
                    await until(lambda: Peers.here().known(address) is None)
                ref = await xo.create_actor(Changing, address=address)
                link: Any = getattr(Peers.here().known(address), "link", None)
                if transport == "ucx":
                    await until(lambda: link.bulk._peer is not None)
                await work(ref)

    asyncio.run(main())


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", ["array", "frame", "nested"])
def test_results_and_arguments(transport: str, kind: str, tmp_path: Path) -> None:
    async def work(ref: Any) -> None:
        expected = [{float(number)} for number in range(ROUNDS)]
        for size in SIZES:
            await ref.begin(kind, size)
            for method in (ref.set, ref.aset):
                found = await asyncio.gather(*[method(number) for number in range(ROUNDS)])
                assert [numbers(value) for value in found] == expected, (method, size)
                found = await method.batch(*[method.delay(number) for number in range(ROUNDS)])
                if method is ref.set:
                    assert [numbers(value) for value in found] == expected, ("batch", size)
            for method in (ref.ahead, ref.aahead):
                items = []
                async for value in await method(ROUNDS):
                    items.append(value)
                    await asyncio.sleep(0.001)
                assert [numbers(value) for value in items] == expected, (method, size)
            value = globals()[kind](size)
            calls = []
            for number in range(ROUNDS):
                change(value, number)
                calls.append(asyncio.ensure_future(ref.take(value)))
                await asyncio.sleep(0)
            change(value, 99)
            assert await asyncio.gather(*calls) == expected, size
            for number in range(ROUNDS):
                change(value, number)
                await ref.take.tell(value)
            change(value, 99)
            assert await ref.all_taken() == [*expected, *expected], size

    run(transport, work, tmp_path)


def test_copies_use_their_memory_again() -> None:
    async def main() -> None:
        copies, loop = Copies(), asyncio.get_running_loop()
        value = np.random.default_rng(0).integers(0, 255, 10_000_000, "u1")
        for _ in range(3):
            pieces = copies.take(memoryview(value))
            assert b"".join(pieces) == value.tobytes()
            assert all(copies.holds(piece) and copies.holds(piece[5:]) for piece in pieces)
            owners = {id(piece.obj) for piece in pieces}
            for piece in pieces:
                copies.give_back(piece[3:], loop)
                copies.give_back(piece, loop)
            assert not any(copies.holds(piece) for piece in pieces)
        assert {id(piece.obj) for piece in copies.take(memoryview(value))} <= owners | {
            id(one) for one in copies._used.values()
        }
        (small,) = copies.take(memoryview(b"abc"))
        assert bytes(small) == b"abc"
        own = memoryview(bytearray(8 << 20))
        copies.give_back(own, loop)  # not one of a copy
        assert not copies.holds(own)
        assert all(block is not own.obj for block in copies._free)

    asyncio.run(main())


def test_which_memory_may_change() -> None:
    own = np.zeros(1000)
    read_only = own.view()
    read_only.flags.writeable = False
    alone = np.zeros(1000)
    alone.flags.writeable = False
    of_arrow = pa.array(range(1000)).to_numpy()
    for value, expected in [
        (own, True), (read_only, True), (own[::1], True), (alone, False), (alone[1:], False), (of_arrow, False),
        (bytearray(10), True), (memoryview(bytearray(10)), True), (b"x" * 10, False), (memoryview(b"xy")[1:], False),
        (np.frombuffer(b"x" * 80), False), (np.frombuffer(bytearray(80)), True), (memoryview(own).toreadonly(), True),
    ]:  # fmt: skip
        assert may_change(memoryview(value)) == expected, value
    parts = encode({"a": own, "t": pa.table({"x": range(100)})})
    kept = unchanging(parts.buffers)
    assert [type(one) is bytes for one in kept] == [may_change(one) for one in parts.buffers]
    assert any(type(one) is bytes for one in kept)
    assert list(map(bytes, kept)) == list(map(bytes, parts.buffers))


def test_snapshots_copy_what_others_have() -> None:
    def fresh() -> Any:
        return np.zeros(100)

    made = [fresh()]
    address = made[0].ctypes.data
    assert taken_from(made).ctypes.data == address  # nobody else has it
    own = np.zeros(100)
    for value in (own, own[:50], [own], (own, {"a": [own]}), {"x": own[::2]}):
        taken = taken_from([value])
        own[:] = 1
        inner = taken
        while not isinstance(inner, np.ndarray):
            inner = next(iter(inner.values())) if isinstance(inner, dict) else inner[0]
        assert not inner.any()
        assert type(taken) is type(value)
        own[:] = 0
    given = [1, [2]]
    taken = taken_from([given])
    given[1].append(3)
    assert taken == [1, [2]]
    frame = pd.DataFrame({"x": [1, 2]})
    taken = taken_from([frame])
    frame.loc[0, "x"] = 9
    assert taken["x"].tolist() == [1, 2]
    endless: list[Any] = [np.zeros(3)]
    endless.append(endless)
    assert taken_from([endless])[1][1][0] is not endless[0]
    many = list(range(1_000_000))
    began = time.perf_counter()
    assert taken_from([many]) == many
    assert time.perf_counter() - began < 1
    assert taken_from(["text"]) == "text"
    assert taken_from([None]) is None
