"""Smaller behaviours that programs written for Xoscar rely on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.aio import AioFileObject
from craton.actor.allocate_strategy import IdleLabel, RandomLabel
from craton.actor.pool.config import ActorPoolConfig, PoolConf
from craton.actor.wire import peers


class Answering(xo.Actor):
    async def work(self) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cleaned up"
        return "never"

    def process(self) -> int:
        return os.getpid()


@pytest.mark.parametrize("strategy", [xo.allocate_strategy.MainPool(), xo.allocate_strategy.RandomSubPool()])
def test_a_call_cancelled_immediately_can_return(strategy: Any) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            ref = await xo.create_actor(Answering, address=pool.external_address, allocate_strategy=strategy)
            await ref.process()
            for _ in range(20):
                call = asyncio.ensure_future(ref.work())
                await asyncio.sleep(0)
                call.cancel()
                assert await call == "cleaned up"

    asyncio.run(main())


def test_actor_ref_takes_what_create_actor_was_given() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            address = pool.external_address
            ref = await xo.create_actor(Answering, uid="one", address=address)
            assert await xo.actor_ref(Answering, 1, 2, uid="one", address=address) == ref
            assert await xo.actor_ref(Answering, uid="one", address=address) == ref
            with pytest.raises(ValueError, match="uid"):
                await xo.actor_ref(Answering, 1, address=address)

    asyncio.run(main())


def test_idle_labels_skip_occupied_pools() -> None:
    config = ActorPoolConfig({i: PoolConf(f"127.0.0.1:{i}", label) for i, label in enumerate([None, "a", "a"], 1)})
    strategy, address = IdleLabel("a", "mark"), "127.0.0.1:2"
    other = xo.create_actor_ref(address, "other")
    assert strategy.get_allocated_address(config, {}) == address
    assert strategy.get_allocated_address(config, {address: {other: (RandomLabel("a"), None)}}) == address
    allocated = {address: {other: (IdleLabel("a", "mark"), None)}}
    assert strategy.get_allocated_address(config, allocated) == "127.0.0.1:3"
    allocated["127.0.0.1:3"] = {xo.create_actor_ref("127.0.0.1:3", "third"): (strategy, None)}
    with pytest.raises(xo.NoIdleSlot, match="mark"):
        strategy.get_allocated_address(config, allocated)


def test_connecting_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never, raising=False)
        monkeypatch.setattr(peers, "SILENCE", 0.01)
        with pytest.raises(xo.ServerClosed, match="no answer from that machine within"):
            await xo.has_actor(xo.create_actor_ref("127.0.0.1:9", "nobody"))

    asyncio.run(main())


def test_files_that_do_not_block(tmp_path: Path) -> None:
    async def main() -> None:
        async with AioFileObject((tmp_path / "text").open("w")) as file:
            assert (file.mode, file.readable(), file.closed) == ("w", False, False)
            await file.write("one\ntwo\n")
            await file.writelines(f"{i}\n" for i in range(20))
        assert file.closed
        async with AioFileObject((tmp_path / "text").open()) as file:
            lines = [line async for line in file]
        assert lines[:3] == ["one\n", "two\n", "0\n"]
        assert len(lines) == 22
        with pytest.raises(AttributeError):
            file.nothing  # noqa: B018

    asyncio.run(main())
