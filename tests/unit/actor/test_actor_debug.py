"""The debugging mode logs slow calls, cycles and errors, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import craton.actor as xo


class Node(xo.Actor):
    async def quick(self) -> str:
        return "done"

    async def until(self, event: asyncio.Event) -> None:
        await event.wait()

    async def fail(self) -> None:
        raise ValueError("a value")

    async def chain(self, refs: list[xo.ActorRef]) -> str:
        return await refs[0].chain(refs[1:]) if refs else "end"

    async def chain_released(self, refs: list[xo.ActorRef]):
        if refs:
            yield refs[0].chain_released(refs[1:])


@contextmanager
def debugging(options: xo.DebugOptions) -> Iterator[None]:
    xo.set_debug_options(options)
    try:
        yield
    finally:
        xo.set_debug_options(None)


async def nodes(pool: xo.MainActorPoolType, count: int) -> list[xo.ActorRef]:
    return [await xo.create_actor(Node, uid=f"node-{i}", address=pool.external_address) for i in range(count)]


def test_sequential_calls_are_no_cycle(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            (node,) = await nodes(pool, 1)
            with debugging(xo.DebugOptions()):
                assert [await node.quick() for _ in range(3)] == ["done"] * 3

    asyncio.run(main())
    assert not caplog.records


def test_a_cycle_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            first, second = await nodes(pool, 2)
            with debugging(xo.DebugOptions()):
                assert await first.chain([second]) == "end"
                assert not caplog.records
                call = asyncio.ensure_future(first.chain([second, first]))
                while not caplog.records:
                    await asyncio.sleep(0)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call

    asyncio.run(main())
    (record,) = caplog.records
    text = record.getMessage()
    assert "cycle" in text
    assert text.count("node-0") == 2
    assert text.count("node-1") == 1


def test_a_released_lock_is_no_cycle(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            first, second = await nodes(pool, 2)
            with debugging(xo.DebugOptions()):
                await asyncio.wait_for(first.chain_released([second, first]), 10)

    asyncio.run(main())
    assert not caplog.records


def test_cycles_are_not_logged_when_disabled(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            first, second = await nodes(pool, 2)
            with debugging(xo.DebugOptions(log_cycle_send=False)), pytest.raises(TimeoutError):
                await xo.wait_for(first.chain([second, first]), 0.05)

    asyncio.run(main())
    assert not caplog.records


@pytest.mark.parametrize("said", [True, False])
def test_errors_are_logged(caplog: pytest.LogCaptureFixture, said: bool) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            (node,) = await nodes(pool, 1)
            with debugging(xo.DebugOptions(log_unhandled_errors=said)), pytest.raises(ValueError, match="a value"):
                await node.fail()

    asyncio.run(main())
    assert ("ValueError: a value" in caplog.text) is said


def test_slow_calls_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            (node,) = await nodes(pool, 1)
            event = asyncio.Event()
            with debugging(xo.DebugOptions(actor_call_timeout=0.01)):
                call = asyncio.ensure_future(node.until(event))
                while not caplog.records:
                    await asyncio.sleep(0.001)
                event.set()
                await call

    asyncio.run(main())
    record = caplog.records[0]
    assert record.levelno == logging.WARNING
    assert "'until'" in record.getMessage()
    assert "node-0" in record.getMessage()
