"""Actors' locks and cancellation: which call holds the lock, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.actors import Turn
from craton.actor.allocate_strategy import MainPool
from craton.actor.wire import link as links
from craton.actor.wire import peers
from craton.actor.wire.peers import Peers
from tests.unit.actor.actors import of, until

here_and_there = pytest.mark.parametrize("place", [MainPool(), of(1)], ids=["here", "there"])


def wrapped(method: Any) -> Any:
    """Wrap an `async` function in a plain one, as decorators do."""

    @functools.wraps(method)
    def call(*args: Any) -> Any:
        return method(*args)

    return call


class Worker(xo.Actor):
    gate: threading.Event = threading.Event()

    def __init__(self) -> None:
        self.value = 0
        self.log: list[Any] = []
        self.running = 0
        self.freed: asyncio.Event | None = None

    @wrapped
    async def add(self, n: int) -> int:
        before = self.value
        for _ in range(3):
            await asyncio.sleep(0)
        self.value = before + n
        return self.value

    def echo(self, value: Any) -> Any:
        return value

    async def keep(self) -> None:
        self.freed = asyncio.Event()
        await self.freed.wait()

    @xo.no_lock
    def free(self) -> None:
        assert self.freed is not None
        self.freed.set()

    @xo.no_lock
    def state(self) -> tuple[bool, int, list[Any]]:
        assert self._turn is not None
        return not self._turn.free, len(self._turn), self.log

    async def steps(self) -> Any:
        try:
            self.log.append("begun")
            self.paused = asyncio.Event()
            got = yield self.paused.wait()
            self.log.append(got)
        except asyncio.CancelledError:
            self.log.append("cancelled in turn" if not self.running else "cancelled while another ran")
            raise

    @xo.no_lock
    def resume(self) -> None:
        self.paused.set()

    @xo.in_thread
    def blocks(self) -> None:
        self.running += 1
        self.log.append("begun")
        self.gate.wait(20)
        self.log.append("ended")
        self.running -= 1

    @xo.no_lock
    def open(self) -> None:
        self.gate.set()

    def most(self) -> int:
        return self.running

    async def two(self) -> Any:
        async def fail(text: str) -> None:
            raise LookupError(text)

        return fail("one"), fail("two")

    async def late(self) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return ""


def run(work: Callable[[Any], Awaitable[Any]], place: Any) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=int(not isinstance(place, MainPool))) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=place)
            await asyncio.wait_for(work(ref), 30)

    asyncio.run(main())


@here_and_there
def test_a_wrapped_coroutine_holds_the_lock(place: Any) -> None:
    async def work(ref: Any) -> None:
        assert await asyncio.gather(*[ref.add(1) for _ in range(5)]) == [1, 2, 3, 4, 5]
        group = await xo.create_actors(Worker, [()], address=ref.address)
        # Several calls of one actor, which queue for its lock.
        twice = type(group)([group[0]] * 4)
        assert sorted(await twice.call("add", 1)) == [1, 2, 3, 4]

    run(work, place)


@here_and_there
def test_a_call_that_waits_for_the_lock_is_cancelled(place: Any) -> None:
    async def work(ref: Any) -> None:
        keeping = asyncio.ensure_future(ref.keep())
        await until(lambda: _holds(ref))
        waiting = [asyncio.ensure_future(ref.echo(i)) for i in range(20)]

        async def queued() -> bool:
            return (await ref.state())[1] == 20

        await until(queued)
        for task in waiting[:19]:
            task.cancel()
        for task in waiting[:19]:
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await ref.state())[1] == 1  # a cancelled call is neither counted nor kept
        await ref.free()
        assert await waiting[19] == 19
        await keeping
        assert (await ref.state())[:2] == (False, 0)

    run(work, place)


async def _holds(ref: Any) -> bool:
    held, *_ = await ref.state()
    return bool(held)


@here_and_there
def test_a_generator_that_waits_for_the_lock_is_cancelled(place: Any) -> None:
    async def work(ref: Any) -> None:
        stepping = asyncio.ensure_future(ref.steps())

        async def begun() -> bool:
            return (await ref.state())[2] == ["begun"]

        await until(begun)
        keeping = asyncio.ensure_future(ref.keep())
        await until(lambda: _holds(ref))
        await ref.resume()

        async def waits() -> bool:
            return (await ref.state())[1] == 1

        await until(waits)
        stepping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(stepping, 10)
        assert (await ref.state())[2] == ["begun"]
        await ref.free()
        await keeping

        async def ended() -> bool:
            return (await ref.state())[2] == ["begun", "cancelled in turn"]

        await until(ended)
        assert await ref.echo(1) == 1

    run(work, place)


@here_and_there
def test_a_thread_holds_the_lock_until_it_ends(place: Any) -> None:
    async def work(ref: Any) -> None:
        with contextlib.suppress(AttributeError):
            Worker.gate.clear()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref.blocks(), 0.2)
        following = asyncio.ensure_future(ref.most())
        if (await ref.state())[2]:  # the method has started
            assert await _holds(ref)
        await ref.open()
        assert await following == 0
        assert (await ref.state())[2] in ([], ["begun", "ended"])

    run(work, place)


def test_one_error_of_several_is_raised() -> None:
    async def work(ref: Any) -> None:
        with pytest.raises(LookupError, match="one"):
            await ref.two()
        gc.collect()  # and the other error is not logged as never retrieved

    said: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            await work(await xo.create_actor(Worker, address=pool.external_address))

    asyncio.run(main())
    assert said == []


def test_a_call_can_be_cancelled_at_any_time() -> None:
    async def work(ref: Any) -> None:
        async def again_and_again() -> None:
            while True:
                await ref.echo(1)

        for turns in range(60):
            task = asyncio.ensure_future(again_and_again())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            # An answer sent before the cancellation arrived does not prevent the caller's cancellation.
            done, _ = await asyncio.wait({task}, timeout=10)
            assert done, turns
            assert task.cancelled()
        # An answer given after the cancellation is returned.
        task = asyncio.ensure_future(ref.late())
        await until(lambda: _holds(ref))
        task.cancel()
        assert await task == "late"
        assert not [peer for peer in Peers.here()._peers.values() if peer._pending]

    run(work, of(1))


def test_a_call_is_cancelled_while_it_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRATON_ACTOR_SHARED", "off")
    monkeypatch.setattr(links, "HIGH_WATER", 1 << 20)
    monkeypatch.setattr(links, "LOW_WATER", 1 << 10)

    async def work(ref: Any) -> None:
        blocked = asyncio.ensure_future(_block(ref))
        peer = await Peers.here().get(ref.address)
        assert peer.link is not None
        await ref.state()
        task = asyncio.ensure_future(ref.echo(b"x" * 50_000_000))
        await asyncio.sleep(0)
        assert peer.link.full
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [number for number, future in peer._pending.items() if future.cancelled()]
        await ref.open()
        await blocked

    run(work, of(1))


async def _block(ref: Any) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(ref.blocks(), 0.2)


def test_a_disconnected_client_leaves_nothing() -> None:
    async def work(ref: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = Peers(asyncio.get_running_loop())
            peer = await other.get(ref.address)
            name = "keep"
            for number in range(1, 6):
                peer.send(peers.CALL, (ref.uid, name, None), ((), {}))
                peer.link.write(peer.link.pack((peers.CALL, number, ref.uid, name, None), ((), {})))
            peer.link.close()
            await asyncio.sleep(0)
            gc.collect()

    run(work, of(1))


def test_tickets() -> None:
    async def main() -> None:
        turn = Turn()
        first, second, third = turn.ticket(), turn.ticket(), turn.ticket()
        thread = asyncio.get_running_loop().create_future()
        turn.held_until(thread)
        first.release()
        assert (turn.free, len(turn)) == (False, 2)
        second.release()
        second.release()
        assert len(turn) == 1
        thread.set_result(None)
        await third.__aenter__()
        assert not turn.free
        third.release()
        assert turn.free

    asyncio.run(main())


def test_classes_of_actors_are_not_kept() -> None:
    async def main() -> weakref.ref[type]:
        class Local(xo.Actor):
            def name(self) -> str:
                return "local"

        async with await xo.create_actor_pool("127.0.0.1", n_process=0) as pool:
            async with await xo.create_actor_pool("127.0.0.1", n_process=0) as other:
                group = await xo.create_actors(Local, [(), ()], address=other.external_address)
                assert await group.call("name") == ["local"] * 2
                await group.destroy()
            assert pool is not None
        return weakref.ref(Local)

    found = asyncio.run(main())
    gc.collect()
    assert found() is None
