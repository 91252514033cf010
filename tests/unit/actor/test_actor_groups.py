"""Groups of actors: creation, collective calls, barriers."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.allocate_strategy import IdleLabel, MainPool, ProcessIndex
from craton.actor.barrier import _barrier, _rounds
from craton.actor.wire import link

sys.path.insert(0, str(Path(__file__).parent))

from actors import until


class Worker(xo.Actor):
    def __init__(self, number: int, extra: Any = None) -> None:
        if number < 0:
            raise ValueError("number < 0")
        self.number, self.extra = number, extra
        self.ready = False

    async def __post_create__(self) -> None:
        await asyncio.sleep(0)
        self.ready = True

    def state(self) -> tuple[int, Any, bool]:
        return self.number, self.extra, self.ready

    def add(self, n: int, times: int = 1) -> int:
        if n < 0:
            raise LookupError(f"{self.number} cannot")
        return self.number + n * times

    async def later(self, n: int) -> int:
        await asyncio.sleep(0)
        return self.number + n

    def pid(self) -> int:
        return os.getpid()

    def unsendable(self) -> None:
        raise Unsendable

    async def rounds(self, group: Any, count: int) -> list[int]:
        seen = []
        for number in range(count):
            Worker.arrived = getattr(Worker, "arrived", 0) + 1  # type: ignore[attr-defined]
            await group.barrier()
            seen.append(number)
        return seen

    async def at_barrier(self, group: Any, timeout: float | None = None) -> None:
        await group.barrier(timeout)


class Unsendable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def run(work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with await xo.create_actor_pool("127.0.0.1", **{"n_process": 2, **options}) as pool:
            return await asyncio.wait_for(work(pool), 30)

    return asyncio.run(main())


async def make(pool: Any, count: int, strategy: Any = None, **options: Any) -> Any:
    args = [(number,) for number in range(count)]
    return await xo.create_actors(
        Worker, args, address=pool.external_address, allocate_strategy=strategy or xo.Spread(), **options
    )


def test_many_are_created_and_called() -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 300, kwargs_list=[{"extra": [number]} for number in range(300)])
        assert len(group) == 300
        assert [ref.address for ref in group].count(group[0].address) == 150
        assert await group.call("state") == [(number, [number], True) for number in range(300)]
        assert await group.call("add", 2, times=3) == [number + 6 for number in range(300)]
        assert await group.call("later", 1) == [number + 1 for number in range(300)]
        assert len(set(await group.call("pid"))) == 2
        assert await group.scatter("add", [(number,) for number in range(300)]) == [2 * n for n in range(300)]
        assert await group[7].add(1) == 8
        again = pickle.loads(pickle.dumps(group))
        assert (list(again), again.uid) == (list(group), group.uid)
        # Local functions as arguments, and actors in this process.
        local = await make(pool, 2, MainPool(), kwargs_list=[{"extra": lambda: 5}] * 2)
        assert [extra() for _, extra, _ in await local.call("state")] == [5, 5]
        assert set(await local.call("pid")) == {os.getpid()}
        both = xo.ActorGroup([*group[:3], *local])
        assert await both.call("add", 1) == [1, 2, 3, 1, 2]
        await group.destroy()
        assert not await xo.has_actor(group[0])
        assert await xo.ActorGroup([]).call("add") == []

    run(work)


def test_names_and_places() -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 3, [ProcessIndex(index) for index in (2, 0, 1)], uids=["a", b"b", "c"])
        assert [ref.uid for ref in group] == [b"a", b"b", b"c"]
        places = pool.config.get_external_addresses()
        assert [ref.address for ref in group] == [places[2], places[0], places[1]]
        # Created through a sub pool.
        args = [(1,), (2,)]
        through = await xo.create_actors(Worker, args, address=places[1], allocate_strategy=ProcessIndex(2))
        assert {ref.address for ref in through} == {places[2]}
        there = await xo.create_actors(Worker, args, address=places[1])
        assert {ref.address for ref in there} == {places[1]}
        idle = await make(pool, 2, IdleLabel("sub", "mark"))
        assert {ref.address for ref in idle} == set(places[1:])
        with pytest.raises(xo.NoIdleSlot):
            await make(pool, 1, IdleLabel("sub", "mark"))

    run(work, labels=["main", "sub", "sub"])


def test_group_creation_is_all_or_nothing() -> None:
    async def work(pool: Any) -> None:
        names = [f"n{number}" for number in range(10)]
        with pytest.raises(ValueError, match="number < 0"):
            await xo.create_actors(
                Worker,
                [*[(number,) for number in range(9)], (-1,)],
                uids=names,
                address=pool.external_address,
                allocate_strategy=xo.Spread(),
            )
        for name in names:
            assert not await xo.has_actor(xo.create_actor_ref(name, address=pool.external_address))
        group = await make(pool, 10, uids=names)
        with pytest.raises(xo.ActorAlreadyExist):
            await make(pool, 10, [ProcessIndex(1)] * 10, uids=names)
        assert await group.call("add", 0) == list(range(10))
        for wrong in ({"uids": ["x"]}, {"kwargs_list": [{}]}, {"strategy": [MainPool()]}):
            with pytest.raises(ValueError, match="10"):
                await make(pool, 10, **wrong)

    run(work)


def test_a_failed_creation_destroys_the_actors_created_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Opens(Worker):
        async def __post_create__(self) -> None:
            if self.number == 2:
                await until((tmp_path / "0 opened").exists)
                raise ValueError("number is 2")
            if self.number == 1:
                await asyncio.sleep(100)
            (tmp_path / f"{self.number} opened").touch()

        async def __pre_destroy__(self) -> None:
            (tmp_path / f"{self.number} closed").touch()

    async def work(pool: Any) -> None:
        for place in (0, 1):
            options = {"address": pool.external_address, "allocate_strategy": ProcessIndex(place)}
            with pytest.raises(ValueError, match="number is 2"):
                await xo.create_actors(Opens, [(0,), (1,), (2,)], uids="abc", **options)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["0 closed", "0 opened"]
            with pytest.raises(ValueError, match="number < 0"):
                await xo.create_actors(Opens, [(0,), (-1,)], uids="ab", **options)
            for name in "abc":
                assert not await xo.has_actor(xo.create_actor_ref(name, address=pool.external_address))
            for path in tmp_path.iterdir():
                path.unlink()

    run(work, n_process=1)
    assert "never awaited" not in capfd.readouterr().err


def test_groups_are_created_in_living_pools() -> None:
    async def work(pool: Any) -> None:
        first, second = pool.sub_processes
        await pool.kill_pool(first)
        with pytest.raises(xo.ServerClosed):
            await xo.wait_actor_pool_recovered(first, pool.external_address)
        group = await make(pool, 6)
        assert {ref.address for ref in group} == {second}
        # An actor that is already destroyed does not keep the others from being destroyed.
        await xo.destroy_actor(group[2])
        with pytest.raises(xo.ActorNotExist):
            await group.destroy()
        assert not [ref for ref in group if await xo.has_actor(ref)]

    run(work, auto_recover=False)


def test_group_creation_waits_for_recovery() -> None:
    async def work(pool: Any) -> None:
        (address,) = pool.sub_processes
        await pool.kill_pool(address)
        group = await make(pool, 4)
        assert await group.call("add", 1) == [1, 2, 3, 4]

    run(work, n_process=1)


def test_errors_of_some() -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 6)
        args = [(1,), (-1,), (1,), (-1,), (1,), ("x",)]
        with pytest.raises(LookupError, match="1 cannot") as caught:
            await group.scatter("add", args)
        assert "in add" in str(caught.value.__cause__)
        results = await group.scatter("add", args, return_exceptions=True)
        assert [results[0], results[2], results[4]] == [1, 3, 5]
        assert [type(results[index]) for index in (1, 3, 5)] == [LookupError, LookupError, TypeError]
        with pytest.raises(Unsendable):
            await group.call("unsendable")
        with pytest.raises(ValueError, match="2 sets of arguments cannot be scattered over 6 actors"):
            await group.scatter("add", args[:2])
        await xo.destroy_actor(group[3])
        results = await group.scatter("add", [(1,)] * 6, return_exceptions=True)
        assert isinstance(results[3], xo.ActorNotExist)
        await xo.kill_actor(group[0])
        results = await group.scatter("later", [(1,)] * 6, return_exceptions=True)
        assert {type(results[index]) for index in (0, 2, 4)} <= {xo.ServerClosed}
        assert [results[1], results[5]] == [2, 6]

    run(work, auto_recover=False)


def test_actors_of_a_group_are_recreated() -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 4, ProcessIndex(1))
        await xo.kill_actor(group[0])
        await xo.wait_actor_pool_recovered(group[0].address, pool.external_address)
        assert await group.call("add", 1) == [1, 2, 3, 4]

    run(work, n_process=1)


def test_one_frame_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 200)
        written = []
        write = link.Link.write
        monkeypatch.setattr(
            link.Link, "write", lambda self, pieces, **more: (written.append(1), write(self, pieces, **more))[1]
        )
        await group.call("add", 1)
        await make(pool, 200)
        assert len(written) == 2 + 2

    run(work)


def test_a_barrier() -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 6)
        assert await group.call("rounds", group, 20) == [list(range(20))] * 6
        # A caller that timed out no longer counts as arrived, so the others wait for it to come again.
        first = asyncio.ensure_future(group[0].at_barrier(group))
        with pytest.raises(TimeoutError):
            await group[1].at_barrier(group, 0.05)
        rest = asyncio.gather(*[ref.at_barrier(group) for ref in group[2:]])
        await asyncio.sleep(0)
        assert not first.done()
        await asyncio.gather(group[1].at_barrier(group), rest, first)

    run(work)


def test_a_failed_barrier_can_be_used_again() -> None:
    async def work(pool: Any) -> None:
        first = asyncio.ensure_future(_barrier(pool, ("name", 2, [])))
        await asyncio.sleep(0)
        _rounds[pool]["name"].open.set_exception(xo.ServerClosed("gone"))
        second = asyncio.ensure_future(_barrier(pool, ("name", 2, [])))
        with pytest.raises(xo.ServerClosed, match="gone"):
            await first
        assert not second.done()
        await asyncio.gather(second, _barrier(pool, ("name", 2, [])))
        assert _rounds[pool] == {}

    run(work, n_process=0)


def test_a_barrier_breaks_when_a_process_dies() -> None:
    async def work(pool: Any) -> None:
        group = await make(pool, 2, [MainPool(), ProcessIndex(1)])
        waiting = asyncio.ensure_future(group[0].at_barrier(group))
        await group[1].pid()
        await xo.kill_actor(group[1])
        with pytest.raises(xo.ServerClosed):
            await asyncio.wait_for(waiting, 10)

    run(work, n_process=1, auto_recover=False)
