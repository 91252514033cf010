"""Creating, calling, finding and destroying actors, in this process and in others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import IdleLabel, MainPool, ProcessIndex, RandomSubPool


class Counter(xo.Actor):
    def __init__(self, value: int = 0) -> None:
        if value < 0:
            raise ValueError("value < 0")
        self.value = value
        self.log: list[Any] = []

    def add(self, n: int) -> int:
        self.value += n
        return self.value

    async def slow_add(self, n: int, seconds: float = 0.02) -> int:
        before = self.value
        await asyncio.sleep(seconds)
        self.value = before + n
        return self.value

    def echo(self, value: Any) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def fail(self) -> None:
        raise KeyError("nothing there")

    async def ask(self, ref: Any, method: str, *args: Any) -> Any:
        return await getattr(ref, method)(*args)

    async def sleep(self, seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        return "slept"

    async def stubborn(self, seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            return "cleaned up"
        return "slept"

    def get_log(self) -> list[Any]:
        return self.log

    async def steps(self, n: int) -> Any:
        self.log.append("begun")
        got = yield asyncio.sleep(0.05, n)
        self.log.append(got)
        raise xo.Return(got + 1)

    @xo.extensible
    async def read(self, key: int) -> int:
        return key + self.value

    @read.batch
    async def read(self, args_list: list[Any], kwargs_list: list[Any]) -> list[int]:
        return [-args[0] for args in args_list]

    @xo.in_thread
    def blocking(self) -> int:
        import threading

        return threading.get_ident()


def run(work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with await xo.create_actor_pool("127.0.0.1", **{"n_process": 1, **options}) as pool:
            return await asyncio.wait_for(work(pool), 60)

    return asyncio.run(main())


PLACES = [MainPool(), RandomSubPool()]


async def counter(pool: Any, place: Any, *args: Any, **kwargs: Any) -> Any:
    return await xo.create_actor(Counter, *args, address=pool.external_address, allocate_strategy=place, **kwargs)


@pytest.mark.parametrize("place", PLACES, ids=["here", "there"])
def test_calls(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, place, 5)
        assert await ref.add(2) == 7
        assert await ref.add.send(n=1) == 8
        assert (await ref.pid() == os.getpid()) == isinstance(place, MainPool)
        # Arguments may be anything that cloudpickle accepts, also local classes and functions.
        assert await ref.echo({"a": (1, [None, "x"], b"y", 2.5)}) == {"a": (1, [None, "x"], b"y", 2.5)}
        assert (await ref.echo(lambda x: x + 1))(1) == 2
        array = np.arange(100_000.0).reshape(100, -1)
        np.testing.assert_array_equal(await ref.echo(array), array)
        large = b"x" * 5_000_000
        assert await ref.echo(large) == large
        many = (
            [np.full(3, i) for i in range(40_000)]
            if isinstance(place, MainPool)
            else [np.full(3, i) for i in range(20_000)]
        )
        assert int((await ref.echo(many))[-1][0]) == len(many) - 1

    run(work)


@pytest.mark.parametrize("place", PLACES, ids=["here", "there"])
def test_errors_keep_their_class_and_say_where(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, place)
        with pytest.raises(KeyError, match="nothing there") as caught:
            await ref.fail()
        if isinstance(place, RandomSubPool):
            assert 'raise KeyError("nothing there")' in str(caught.value.__cause__)
            assert ref.address in str(caught.value.__cause__)
        with pytest.raises(TypeError):
            await ref.add("x")
        with pytest.raises(AttributeError):
            await ref.no_such_method()
        with pytest.raises(ValueError, match="value < 0"):
            await counter(pool, place, -1)
        assert await ref.add(1) == 1  # the actor still works

    run(work)


def test_names() -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, RandomSubPool(), uid="one")
        with pytest.raises(xo.ActorAlreadyExist):
            await counter(pool, ProcessIndex(1), uid="one")
        # An actor is found through every pool of its group.
        assert await xo.actor_ref("one", address=pool.external_address) == ref
        assert await xo.has_actor(xo.create_actor_ref(pool.external_address, "one"))
        main = await counter(pool, MainPool(), uid="two")
        assert await xo.actor_ref(uid="two", address=ref.address) == main
        with pytest.raises(xo.ActorNotExist):
            await xo.actor_ref("three", address=pool.external_address)
        await xo.destroy_actor(xo.create_actor_ref(pool.external_address, "one"))
        assert not await xo.has_actor(ref)
        with pytest.raises(xo.ActorNotExist):
            await ref.add(1)
        with pytest.raises(ValueError):
            await xo.actor_ref(set(), address=pool.external_address)

    run(work)


@pytest.mark.parametrize("place", PLACES, ids=["here", "there"])
def test_calls_run_one_at_a_time_in_order(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, place)
        calls = [ref.slow_add(1), ref.add(10), ref.slow_add(100), ref.add(1000)]
        assert await asyncio.gather(*calls) == [1, 11, 111, 1111]

    run(work)


@pytest.mark.parametrize("place", PLACES, ids=["here", "there"])
def test_generators_release_the_lock_while_they_wait(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, place)
        assert await asyncio.gather(ref.steps(1), ref.steps(2)) == [2, 3]
        assert (await ref.get_log())[:2] == ["begun", "begun"]

    run(work)


@pytest.mark.parametrize("place", PLACES, ids=["here", "there"])
def test_batches(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, place, 1)
        assert await ref.read(1) == 2
        assert await ref.read.batch(ref.read.delay(1)) == [2]
        assert await ref.read.batch(ref.read.delay(1), ref.read.delay(2)) == [-1, -2]
        with pytest.raises(ValueError, match="one method"):
            await ref.read.batch(ref.read.delay(1), ref.add.delay(2))
        await ref.add.tell(5)
        assert await ref.add(0) == 6

    run(work)


@pytest.mark.parametrize("place", PLACES, ids=["here", "there"])
def test_cancellation_reaches_the_callee(place: Any) -> None:
    async def work(pool: Any) -> None:
        ref = await counter(pool, place)
        for method, expected in ((ref.sleep, None), (ref.stubborn, "cleaned up")):
            task = asyncio.create_task(method(30))
            await asyncio.sleep(0.05)
            task.cancel()
            if expected is None:
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                assert await task == expected
        assert await ref.get_log() == ["cancelled"]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref.sleep(30), 0.05)
        with pytest.raises(asyncio.TimeoutError):
            await xo.wait_for(ref.sleep(30), 0.05)

    run(work)


def test_actors_call_each_other_across_processes() -> None:
    async def work(pool: Any) -> None:
        one, two = await counter(pool, ProcessIndex(1)), await counter(pool, ProcessIndex(2))
        assert await one.ask(two, "add", 5) == 5
        here = await counter(pool, MainPool())
        assert await one.ask(here, "pid") == os.getpid()
        assert await here.ask(one, "ask", two, "add", 1) == 6

    run(work, n_process=2)


def test_labels() -> None:
    async def work(pool: Any) -> None:
        place = IdleLabel("gpu", "mark")
        refs = await asyncio.gather(counter(pool, place), counter(pool, place))
        assert len({ref.address for ref in refs}) == 2
        with pytest.raises(xo.NoIdleSlot):
            await counter(pool, place)
        await xo.destroy_actor(refs[0])
        assert (await counter(pool, place)).address == refs[0].address

    run(work, n_process=2, labels=[None, "gpu", "gpu"])


def test_a_blocking_method_in_a_thread() -> None:
    async def work(pool: Any) -> None:
        import threading

        ref = await counter(pool, MainPool())
        assert await ref.blocking() != threading.get_ident()

    run(work, n_process=0)
