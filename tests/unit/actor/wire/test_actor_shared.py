"""Large values between processes of one machine: they are in the store once, and are released after use."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import ProcessIndex
from craton.actor.errors import ServerClosed
from craton.actor.wire import shared
from craton.actor.wire.peers import Peers

pytestmark = [
    pytest.mark.skipif(not shared.enabled(), reason="there are stores between processes on Linux only"),
    pytest.mark.usefixtures("no_store"),
]
LARGE = 2 << 20


class Holder(xo.Actor):
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def echo(self, value: Any) -> Any:
        return value

    def total(self, value: Any) -> float:
        return float(value.sum())

    def make(self, size: int) -> Any:
        return np.ones(size, np.uint8)

    def keep(self, value: Any) -> None:
        self.kept.append(value)

    def lent(self) -> int:
        from craton.actor.pools import local_pool

        pool = local_pool(self.address)
        return sum(link.sharing.lent for link in pool._links if link.sharing is not None)

    async def ask(self, ref: Any, method: str, *args: Any) -> Any:
        return await getattr(ref, method)(*args)


def run(work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with await xo.create_actor_pool("127.0.0.1", **{"n_process": 1, **options}) as pool:
            return await asyncio.wait_for(work(pool), 60)

    return asyncio.run(main())


async def holder(pool: Any, index: int = 1) -> Any:
    return await xo.create_actor(Holder, address=pool.external_address, allocate_strategy=ProcessIndex(index))


def sharing(ref: Any) -> Any:
    peer = Peers.here().known(ref.address)
    assert peer is not None
    assert peer.link is not None
    return peer.link.sharing


async def until(condition: Callable[[], Any], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        gc.collect()
        await asyncio.sleep(0.005)


async def agreed(ref: Any) -> Any:
    """Send large values until both sides have agreed to use the store."""
    found = sharing(ref)
    await ref.total(np.ones(LARGE, np.uint8))
    await until(lambda: found._store is not None)
    return found


def used(pool: Any) -> int:
    return int(pool.store._store.counters()["slab_used"])


def test_values_are_shared_and_released() -> None:
    async def work(pool: Any) -> None:
        ref = await holder(pool)
        found = await agreed(ref)
        array = np.arange(LARGE // 8, dtype=np.float64)
        for value in (array, {"a": [array, "x"], "b": b"y" * LARGE}, b"z" * LARGE):
            before = found.lent
            got = await ref.echo(value)
            assert found.lent == before + 1
            np.testing.assert_equal(got, value)
        assert await ref.lent() > 0  # results are shared, too
        assert (await ref.make(LARGE)).sum() == LARGE
        small = found.lent
        await ref.echo(np.ones(1000))
        assert found.lent == small
        del got
        await until(lambda: used(pool) == 0)
        for _ in range(300):
            await asyncio.gather(*[ref.echo(array) for _ in range(4)])
        assert found.waiting == 0
        await until(lambda: used(pool) == 0)

    run(work)


def test_views_outlive_messages_and_pools() -> None:
    async def work(pool: Any) -> Any:
        ref = await holder(pool)
        await agreed(ref)
        kept = await ref.echo(np.full(LARGE, 7, np.uint8))
        await until(lambda: used(pool) >= LARGE)
        return kept

    assert int(run(work).sum()) == 7 * LARGE


def test_between_sub_pools() -> None:
    async def work(pool: Any) -> None:
        one, two = await holder(pool, 1), await holder(pool, 2)
        for _ in range(50):
            assert await one.ask(two, "total", np.ones(LARGE, np.uint8)) == LARGE
            if await two.lent() + pool.store._store.counters()["copied"] > 60 * LARGE:
                break
        assert await one.ask(two, "make", LARGE) is not None
        await until(lambda: used(pool) == 0)

    run(work, n_process=2)


def test_a_receiver_that_is_killed() -> None:
    async def work(pool: Any) -> None:
        ref = await holder(pool)
        found = await agreed(ref)
        array = np.ones(LARGE, np.uint8)
        for _ in range(5):
            await ref.keep(array)
        assert used(pool) >= 5 * LARGE
        pending = [asyncio.ensure_future(ref.keep(array)) for _ in range(20)]
        pool.sub_processes[ref.address].kill()
        for one in await asyncio.gather(*pending, return_exceptions=True):
            assert one is None or isinstance(one, ServerClosed)
        await until(lambda: used(pool) == 0)
        assert not found._held

    run(work, auto_recover=False)


def test_a_full_store(monkeypatch: pytest.MonkeyPatch) -> None:
    import craton

    monkeypatch.setattr(craton.options, "memory_limit", 8 << 20)

    async def work(pool: Any) -> None:
        ref = await holder(pool)
        await agreed(ref)
        for number in range(10):  # more than fits, and all values are kept alive
            await ref.keep(np.full(LARGE, number, np.uint8))
        large = np.ones(20 << 20, np.uint8)
        assert await ref.total(large) == large.size
        assert used(pool) <= 8 << 20

    run(work)


def test_a_store_that_has_ended() -> None:
    async def work(pool: Any) -> None:
        ref = await holder(pool)
        await agreed(ref)
        pool.store._store.close()
        array = np.ones(LARGE, np.uint8)
        for _ in range(3):
            assert await ref.total(array) == LARGE
            assert (await ref.echo(array)).sum() == LARGE

    run(work)


def test_a_peer_that_cannot_use_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(pool: Any) -> None:
        monkeypatch.setattr(type(pool.store), "get", lambda _self: asyncio.sleep(0, _Elsewhere()))
        ref = await holder(pool)
        found = None
        for _ in range(5):
            assert await ref.total(np.ones(LARGE, np.uint8)) == LARGE
            found = sharing(ref)
        assert found is not None
        assert found.lent == 0

    run(work)


class _Elsewhere:
    address = "@craton-nobody-serves-here"

    def close(self) -> None:
        pass


def test_the_current_store_is_used() -> None:
    import craton

    async def work(pool: Any) -> None:
        store = craton.default_store()
        ref = await holder(pool)
        await agreed(ref)
        assert pool.store._store is store
        copied = craton.put(np.ones(LARGE, np.uint8))
        array = craton.get(copied)
        before = store.counters()
        assert await ref.total(array) == LARGE
        counted = store.counters() - before
        assert counted["copied"] < LARGE <= counted["shared"]

    run(work)


def test_sharing_can_be_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shared.VARIABLE, "off")

    async def work(pool: Any) -> None:
        ref = await holder(pool)
        assert await ref.total(np.ones(LARGE, np.uint8)) == LARGE
        assert sharing(ref) is None
        assert pool.store._store is None

    run(work)
    monkeypatch.setenv(shared.VARIABLE, "4MiB")
    assert shared.enabled() == 4 << 20
    assert os.environ[shared.VARIABLE] == "4MiB"
