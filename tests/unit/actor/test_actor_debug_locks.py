"""The debugging mode logs slow calls, waits for locks, and deadlocks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import craton.actor as xo
from craton.actor import debug
from craton.actor.allocate_strategy import ProcessIndex


class Slow(xo.Actor):
    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def hold(self) -> str:
        await self.gate.wait()
        return "held"

    @xo.no_lock
    async def open(self) -> None:
        self.gate.set()

    async def other(self) -> str:
        return "other"

    def block(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, refs: list[Any]) -> str:
        return await refs[0].call(refs[1:]) if refs else "end"

    @xo.no_lock
    async def round(self, refs: list[Any]) -> str:
        return await refs[0].round(refs[1:]) if refs else "end"


@pytest.fixture
def watching(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.WARNING, "craton.actor.debug")
    xo.set_debug_options(
        xo.DebugOptions(actor_call_timeout=0.05, process_message_timeout=0.05, actor_lock_timeout=0.05)
    )
    yield caplog
    xo.set_debug_options(None)


@contextlib.asynccontextmanager
async def pools(n_process: int = 0) -> AsyncIterator[str]:
    env = {debug.VARIABLE: json.dumps({"process_message_timeout": 0.05, "actor_lock_timeout": 0.05})}
    async with await xo.create_actor_pool("127.0.0.1", n_process=n_process, envs=[env] * n_process) as pool:
        yield pool.external_address


async def until(caplog: pytest.LogCaptureFixture, *texts: str) -> None:
    async with asyncio.timeout(20):
        while not all(any(text in record.getMessage() for record in caplog.records) for text in texts):
            await asyncio.sleep(0.01)


def test_slow_calls_and_lock_waits_are_logged(watching: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with pools() as address:
            ref = await xo.create_actor(Slow, address=address, uid="slow")
            calls = [asyncio.create_task(ref.hold()), asyncio.create_task(ref.other())]
            await until(
                watching,
                f"calling 'hold' of actor b'slow' at {address} (for ",
                "'hold' of actor b'slow' is running",
                "'hold' of actor b'slow' holds the actor's lock",
                "'other' of actor b'slow' waits for the actor's lock, which 'hold' holds",
            )
            await ref.open()
            assert await asyncio.gather(*calls) == ["held", "other"]
            assert debug._holders == {}

    asyncio.run(check())


def test_blocking_calls_are_logged_afterwards(watching: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with pools() as address:
            ref = await xo.create_actor(Slow, address=address)
            await ref.block(0.2)
            await until(watching, "blocked the event loop")

    asyncio.run(check())


def test_deadlocks_are_logged(watching: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with pools() as address:
            first = await xo.create_actor(Slow, address=address, uid="first")
            second = await xo.create_actor(Slow, address=address, uid="second")
            assert await first.round([second, first]) == "end"
            (text,) = [record.getMessage() for record in watching.records if "cycle of calls" in record.getMessage()]
            assert [part.split("'")[3] for part in text.splitlines()[1:]] == ["first", "second", "first"]
            # With locks, the cycle is a deadlock: it is logged, and the call can be cancelled.
            with pytest.raises(TimeoutError):
                await xo.wait_for(first.call([second, first]), 0.5)
            await until(watching, "'call' of actor b'first' waits for the actor's lock, which 'call' holds")

    asyncio.run(check())


def test_deadlocks_across_processes(capfd: pytest.CaptureFixture[str]) -> None:
    async def check() -> None:
        async with pools(2) as address:
            xo.set_debug_options(xo.DebugOptions())
            try:
                refs = [
                    await xo.create_actor(Slow, address=address, uid=f"actor {i}", allocate_strategy=ProcessIndex(i))
                    for i in (1, 2)
                ]
                assert await refs[0].round([refs[1], refs[0]]) == "end"
                with pytest.raises(TimeoutError):
                    await xo.wait_for(refs[0].call([refs[1], refs[0]]), 0.5)
            finally:
                xo.set_debug_options(None)

    asyncio.run(check())
    said = capfd.readouterr().err
    assert "A cycle of calls" in said
    assert "waits for the actor's lock" in said


def test_nothing_is_logged_when_nothing_is_slow(watching: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        xo.set_debug_options(xo.DebugOptions())
        async with pools() as address:
            ref = await xo.create_actor(Slow, address=address)
            assert await ref.other() == "other"

    asyncio.run(check())
    assert watching.records == []


def test_options_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("", None), ("0", None), ("1", xo.DebugOptions())):
        monkeypatch.setenv(debug.VARIABLE, text)
        assert debug._from_environment() == expected
    monkeypatch.setenv(debug.VARIABLE, '{"actor_call_timeout": 2}')
    assert debug._from_environment() == xo.DebugOptions(actor_call_timeout=2)
    monkeypatch.setenv(debug.VARIABLE, '{"other": 2}')
    with pytest.raises(ValueError, match="actor_call_timeout"):
        debug._from_environment()
    for text in ("yes", '{"actor_call_timeout": "2"}', "[1]"):
        monkeypatch.setenv(debug.VARIABLE, text)
        with pytest.raises(ValueError, match=debug.VARIABLE) as wrong:
            debug._from_environment()
        assert repr(text) in str(wrong.value)
    for value in (-1, "2", True, float("nan"), None):
        with pytest.raises(ValueError, match="actor_lock_timeout"):
            xo.DebugOptions(actor_lock_timeout=value)  # type: ignore[arg-type]
