"""Streams: generators of actors, read from this and other processes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import MainPool, ProcessIndex

PLACES = [MainPool(), ProcessIndex(1)]
here_and_there = pytest.mark.parametrize("place", PLACES, ids=["here", "there"])


class Methods:
    """The methods of both actor classes below."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def get_log(self) -> list[Any]:
        return self.log

    def streams(self) -> list[str]:
        return list(self._generators)  # type: ignore[attr-defined]

    @xo.generator
    def count(self, n: int) -> Any:
        yield from range(n)

    @xo.generator
    async def acount(self, n: int, fail: bool = False) -> Any:
        try:
            for i in range(n):
                self.log.append(i)
                yield i
                await asyncio.sleep(0)
            if fail:
                raise LookupError("no more")
        finally:
            self.log.append("closed")

    @xo.generator(ahead=8)
    async def many(self, n: int, fail: bool = False) -> Any:
        async for i in self._agen(n):
            self.log.append(i)
            yield i
        if fail:
            raise LookupError("no more")

    @xo.generator(ahead=8)
    def many_plain(self, n: int) -> Any:
        yield from range(n)

    @xo.generator
    async def stuck(self) -> Any:
        yield 0
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("closed")
        yield 1

    @xo.generator
    async def awaitables(self) -> Any:
        yield asyncio.sleep(0, "slept")
        yield "plain"

    @xo.generator
    async def mixed(self, what: str) -> Any:
        return {"plain": lambda: self._gen(3), "async": lambda: self._agen(3), "value": lambda: 7}[what]()

    @xo.generator
    def mixed_plain(self, what: str) -> Any:
        return {"plain": lambda: self._gen(3), "async": lambda: self._agen(3), "value": lambda: 7}[what]()

    @xo.generator
    def thread(self) -> Any:
        yield threading.get_ident()

    def ident(self) -> int:
        return threading.get_ident()

    def _gen(self, n: int) -> Any:
        yield from range(n)

    async def _agen(self, n: int) -> Any:
        for i in range(n):
            yield i

    async def read(self, stream: Any) -> list[Any]:
        return [item async for item in stream]

    @xo.generator
    async def passed_on(self, ref: Any, n: int) -> Any:
        yield "first"
        async for i in await ref.acount(n):
            yield i

    async def forward(self, ref: Any, n: int) -> Any:
        return await ref.acount(n)


class LockingStreams(Methods, xo.Actor):
    pass


class StatelessStreams(Methods, xo.StatelessActor):
    pass


def run(work: Callable[[Any], Awaitable[Any]], place: Any = None, n_process: int = 1) -> Any:
    async def main() -> Any:
        count = 0 if isinstance(place, MainPool) else n_process
        async with await xo.create_actor_pool("127.0.0.1", n_process=count) as pool:
            return await asyncio.wait_for(work(pool), 20)

    return asyncio.run(main())


def with_both(work: Callable[[Any, Any], Awaitable[None]], place: Any) -> None:
    async def each(pool: Any) -> None:
        for kind in (LockingStreams, StatelessStreams):
            await work(pool, kind)

    run(each, place)


async def make(pool: Any, place: Any, kind: Any = StatelessStreams) -> Any:
    return await xo.create_actor(kind, address=pool.external_address, allocate_strategy=place)


async def gathered(stream: Any) -> list[Any]:
    return [item async for item in stream]


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 10) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not await condition():
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.002)


async def emptied(ref: Any) -> None:
    async def condition() -> bool:
        return not await ref.streams()

    await until(condition)


@here_and_there
def test_items_arrive_in_order_and_streams_are_removed(place: Any) -> None:
    async def work(pool: Any, kind: Any) -> None:
        ref = await make(pool, place, kind)
        for method in (ref.count, ref.acount, ref.many, ref.many_plain):
            for n in (0, 1, 30):
                assert await gathered(await method(n)) == list(range(n))
                assert await ref.streams() == []
        stream = await ref.count(2)
        assert len(await ref.streams()) == 1
        assert [item async for item in stream] == [0, 1]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert await gathered(await ref.awaitables()) == ["slept", "plain"]
        # Several streams of one actor, concurrently.
        results = await asyncio.gather(*[gathered(await ref.acount(20)) for _ in range(5)])
        assert results == [list(range(20))] * 5

    with_both(work, place)


@here_and_there
def test_functions_that_may_return_generators(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, place)
        for method in (ref.mixed, ref.mixed_plain):
            assert await gathered(await method("plain")) == [0, 1, 2]
            assert await gathered(await method("async")) == [0, 1, 2]
            assert await method("value") == 7
        # Plain generators do not block the event loop.
        assert await gathered(await ref.thread()) != [await ref.ident()]

    run(work, place)


@here_and_there
def test_a_generator_runs_only_on_request(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, place)
        stream = await ref.acount(10)
        assert await ref.get_log() == []
        assert [await anext(stream), await anext(stream)] == [0, 1]
        assert await ref.get_log() == [0, 1]
        ahead = await ref.many(100)
        assert await ref.get_log() == [0, 1]
        assert await anext(ahead) == 0
        await until(lambda: _has(ref, lambda log: len(log) >= 2 + 8))
        log = await ref.get_log()
        assert len(log) <= 2 + 16  # the prefetch limit, and the items that were sent
        assert await gathered(ahead) == list(range(1, 100))

    run(work, place)


async def _has(ref: Any, test: Callable[[list[Any]], bool]) -> bool:
    return test(await ref.get_log())


@here_and_there
def test_exceptions_arrive_after_the_items_before_them(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, place)
        for method in (ref.acount, ref.many):
            stream = await method(3, fail=True)
            assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
            with pytest.raises(LookupError, match="no more"):
                await anext(stream)
            assert await ref.streams() == []
            with pytest.raises(StopAsyncIteration):
                await anext(stream)

    run(work, place)


@here_and_there
def test_a_stream_is_closed(place: Any) -> None:
    async def work(pool: Any, kind: Any) -> None:
        ref = await make(pool, place, kind)
        async with await ref.acount(10) as stream:
            assert await anext(stream) == 0
        assert await ref.get_log() == [0, "closed"]
        assert await ref.streams() == []
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await stream.aclose()  # again does nothing
        # Also while a reader waits for the next item; the reader gets the end of the stream.
        stream = await ref.stuck()
        assert await anext(stream) == 0
        copy = pickle.loads(pickle.dumps(stream))
        waiting = asyncio.ensure_future(gathered(stream))
        await asyncio.sleep(0)  # now the request is pending
        await copy.aclose()
        assert await asyncio.wait_for(waiting, 10) == []
        assert (await ref.get_log())[-1] == "closed"
        with pytest.raises(xo.ActorError, match="no stream"):
            await anext(await _closed_copy(ref))

    with_both(work, place)


async def _closed_copy(ref: Any) -> Any:
    stream = await ref.acount(3)
    copy = pickle.loads(pickle.dumps(stream))
    await stream.aclose()
    return copy


@here_and_there
def test_a_stream_ends_with_its_last_holder(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, place)
        before = threading.active_count()
        stream = await ref.acount(10)
        await anext(stream)
        del stream
        gc.collect()
        await emptied(ref)
        await until(lambda: _has(ref, lambda log: log[-1] == "closed"))
        # Streams that were never read, and streams that were only passed on.
        for method in (ref.acount, ref.many):
            stream = await method(10)
            copy = pickle.loads(pickle.dumps(stream))
            del stream
            gc.collect()
            await asyncio.sleep(0)
            assert len(await ref.streams()) == 1
            await anext(copy)
            del copy
            gc.collect()
            await emptied(ref)
        # No waiting reader is kept, and no thread was started.
        await ref.acount.tell(3)
        await emptied(ref)
        assert threading.active_count() <= before

    run(work, place)


def test_a_local_stream_ends_immediately() -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, MainPool())
        stream = await ref.acount(3)
        pickle.loads(pickle.dumps(stream))
        del stream
        gc.collect()
        await asyncio.sleep(0)
        assert await ref.streams() == []

    run(work)


@here_and_there
def test_a_stream_is_transferred(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref, reader = await make(pool, place), await make(pool, ProcessIndex(2))
        stream = await ref.acount(5)
        assert await anext(stream) == 0
        assert await reader.read(stream) == [1, 2, 3, 4]
        # Items that were fetched already are pickled with the stream.
        stream = await ref.many(40)
        assert await anext(stream) == 0
        assert await reader.read(stream) == list(range(1, 40))
        assert await gathered(await reader.forward(ref, 4)) == [0, 1, 2, 3]
        assert await gathered(await reader.passed_on(ref, 3)) == ["first", 0, 1, 2]
        assert await ref.streams() == await reader.streams() == []

    run(work, n_process=2)


@here_and_there
def test_a_reader_is_cancelled(place: Any) -> None:
    async def work(pool: Any, kind: Any) -> None:
        ref = await make(pool, place, kind)
        stream = await ref.stuck()
        assert await anext(stream) == 0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.02)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await emptied(ref)
        assert await ref.get_log() == ["closed"]

    with_both(work, place)


@here_and_there
def test_an_actor_is_destroyed_with_its_streams(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, place)
        stream, waited, ahead = await ref.acount(3), await ref.stuck(), await ref.many(30)
        for one in (stream, waited, ahead):
            assert await anext(one) == 0
        waiting = asyncio.ensure_future(gathered(waited))
        await ref.streams()
        await asyncio.wait_for(xo.destroy_actor(ref), 10)
        assert await asyncio.wait_for(waiting, 10) == []
        with pytest.raises(xo.ActorNotExist):
            await anext(stream)
        with pytest.raises(xo.ActorNotExist):
            await gathered(ahead)

    run(work, place)


def test_a_stream_of_a_process_that_died() -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, ProcessIndex(1))
        stream = await ref.acount(10)
        assert await anext(stream) == 0
        await xo.kill_actor(ref)
        with pytest.raises(xo.ActorError):  # its process has ended, or was restarted without the stream
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    run(work)


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="-1 items ahead"):
        xo.generator(ahead=-1)


def test_a_stream_ends_with_the_process_of_its_reader() -> None:
    async def work(pool: Any) -> None:
        ref = await make(pool, ProcessIndex(1))
        for method in ("hold", "hold_read", "hold_given"):
            reader = await make(pool, ProcessIndex(2), StreamHolder)
            if method == "hold_given":
                await reader.hold_given(await ref.acount(5))
                await reader.forward(
                    ref, 0
                )  # an answer after the "hold stream" message of the first stream, which was sent before
                await until(lambda: _has_one(ref))
            else:
                await getattr(reader, method)(ref)
            assert len(await ref.streams()) == 1
            with contextlib.suppress(ConnectionError):
                await xo.kill_actor(reader)
            await emptied(ref)
            await xo.wait_actor_pool_recovered(reader.address, pool.external_address)
        assert (await ref.get_log())[-1] == "closed"
        # The process that passed a stream on may end, and the stream goes on.
        reader = await make(pool, ProcessIndex(2), StreamHolder)
        stream = await reader.give(ref)
        assert await anext(stream) == 1
        stream = await reader.give(ref)
        assert len(await ref.streams()) >= 1  # an answer after the "hold stream" message, which was sent before
        with contextlib.suppress(ConnectionError):
            await xo.kill_actor(reader)
        await xo.wait_actor_pool_recovered(reader.address, pool.external_address)
        assert await gathered(stream) == [1, 2, 3, 4]
        # A result whose caller has disconnected.
        reader = await make(pool, ProcessIndex(2), StreamHolder)
        with contextlib.suppress(ConnectionError):
            await reader.ask_and_end(ref)
        await emptied(ref)

    run(work, n_process=2)


async def _has_one(ref: Any) -> bool:
    return len(await ref.streams()) == 1


class StreamHolder(StatelessStreams):
    stream: Any = None

    async def hold(self, ref: Any) -> None:
        self.stream = await ref.acount(5)

    async def hold_read(self, ref: Any) -> None:
        self.stream = await ref.acount(5)
        await anext(self.stream)

    async def hold_given(self, stream: Any) -> None:
        self.stream = stream

    async def give(self, ref: Any) -> Any:
        stream = await ref.acount(5)
        await anext(stream)
        return stream

    async def ask_and_end(self, ref: Any) -> None:
        asked = asyncio.ensure_future(ref.acount(5))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0, os._exit, 1)
        with contextlib.suppress(asyncio.CancelledError):
            await asked


@here_and_there
def test_one_stream_and_two_readers(place: Any) -> None:
    async def work(pool: Any, kind: Any) -> None:
        ref = await make(pool, place, kind)
        for stream in (await ref.acount(20), await ref.many(20)):
            shared = await asyncio.wait_for(asyncio.gather(gathered(stream), gathered(stream)), 10)
            assert sorted(shared[0] + shared[1]) == list(range(20))
        await emptied(ref)

    with_both(work, place)
