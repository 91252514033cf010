"""Collectives of actors in several processes, with the names and arguments of Xoscar's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import craton.actor as xo
from craton.actor import collective
from craton.actor.collective import CollectiveReduceOp as Op

RANKS = 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Member(xo.Actor):
    def __init__(self, rank: int, world: int = RANKS) -> None:
        super().__init__()
        self._rank, self._world = rank, world

    async def begin(self, **given: Any) -> None:
        os.environ[collective.RANK_ADDRESS_ENV_KEY] = self.address
        await collective.init_process_group(self._rank, self._world, **given)

    async def begin_nowhere(self) -> None:
        await collective.init_process_group(self._rank, self._world)

    async def described(self) -> tuple[Any, ...]:
        ref = await xo.actor_ref(address=self.address, uid="RankActor")
        group = await ref.process_group("default")
        named = await ref.rank(), await ref.world(), await ref.backend()
        return *named, group.rank, group.world_size, group.name, group.options

    async def reduced(self, op: int, dtype: str, ranks: list[int] | None) -> list[Any] | None:
        name = await collective.new_group(ranks)
        if name is None:
            return None
        sent = (np.arange(6).reshape(2, 3) + self._rank + 1).astype(dtype)
        at_root, everywhere = np.zeros_like(sent), np.zeros_like(sent)
        await collective.reduce(sent, at_root, op=Op(op), root=1, group_name=name)
        await collective.allreduce(sent, everywhere, op=Op(op), group_name=name)
        parts = np.zeros(3 if self._rank == 0 else 2 if self._rank == 1 else 1, dtype)
        if ranks is None:
            await collective.reduce_scatter(sent, parts, [3, 2, 1], op=Op(op))
        return [at_root.tolist(), everywhere.tolist(), parts.tolist()]

    async def moved(self) -> dict[str, Any]:
        name = await collective.new_group([2, 1])  # numbered 0 and 1 in the order of their ranks
        found: dict[str, Any] = {"group": name}
        own = np.array([self._rank, 10 * self._rank], np.int32)
        if name is not None:
            gathered, scattered = np.zeros((2, 2), np.int32), np.zeros(2, np.int32)
            await collective.gather(own, gathered, root=1, group_name=name)
            await collective.scatter([own, own + 1], scattered, root=0, group_name=name)
            found |= {"gathered": gathered.tolist(), "scattered": scattered.tolist()}
        everyone, exchanged, sent = np.zeros(6, np.int32), np.zeros(3), np.zeros(3) + self._rank
        await collective.allgather(own, everyone)
        await collective.alltoall(sent, exchanged)
        received = np.zeros((2, 1), np.int32)
        await collective.broadcast(own, received, root=2)
        return found | {"everyone": everyone.tolist(), "exchanged": exchanged.tolist(), "received": received.tolist()}

    async def wrong(self, what: str) -> None:
        array = np.zeros(4)
        if what == "group":
            await collective.allreduce(array, array, group_name="nobody's")
        elif what == "list":
            await collective.allreduce([1], array)
        elif what == "stream":
            await collective.allreduce(array, array, stream=object())
        elif what == "ranks":
            await collective.new_group([0, 0])
        elif what == "division":
            await collective.alltoall(array, array)
        elif what == "parts":
            await collective.reduce_scatter(array, array, [1, 1, 1])
        elif what == "room":
            await collective.allreduce(array, np.zeros(3))


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that runs in an event loop."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@asynccontextmanager
async def members(world: int = RANKS, ranks: list[int] | None = None) -> AsyncIterator[list[Any]]:
    names = {
        collective.RENDEZVOUS_MASTER_IP_ENV_KEY: "127.0.0.1",
        collective.RENDEZVOUS_MASTER_PORT_ENV_KEY: str(free_port()),
    }
    pool = await xo.create_actor_pool("127.0.0.1", n_process=RANKS, envs=[names] * RANKS)
    async with pool:
        addresses = list(pool.sub_processes)
        numbers = list(range(world)) if ranks is None else ranks
        yield [
            await xo.create_actor(Member, rank, world, address=address)
            for rank, address in zip(numbers, addresses, strict=False)
        ]


async def begun(all_members: list[Any]) -> list[Any]:
    await asyncio.gather(*[member.begin() for member in all_members])
    return all_members


REDUCTIONS: dict[Op, Any] = {
    Op.SUM: np.add,
    Op.PRODUCT: np.multiply,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
    Op.BAND: np.bitwise_and,
    Op.BOR: np.bitwise_or,
    Op.BXOR: np.bitwise_xor,
}


@in_loop
async def test_collectives_of_all_and_of_some() -> None:
    async with members() as made:
        everyone = await begun(made)
        assert await asyncio.gather(*[member.described() for member in everyone]) == [
            (rank, RANKS, "gloo", rank, RANKS, "default", None) for rank in range(RANKS)
        ]
        for op, function in REDUCTIONS.items():
            for dtype in ("int32", "uint8", "int64", "float64", "float32", "float16"):
                if dtype.startswith("float") and op.name.startswith("B"):
                    continue
                for ranks in (None, [0, 2]):
                    found = await asyncio.gather(*[member.reduced(int(op), dtype, ranks) for member in everyone])
                    chosen = list(range(RANKS)) if ranks is None else ranks
                    arrays = [(np.arange(6).reshape(2, 3) + rank + 1).astype(dtype) for rank in chosen]
                    whole = arrays[0]
                    for array in arrays[1:]:
                        whole = function(whole, array)
                    for rank in range(RANKS):
                        if rank not in chosen:
                            assert found[rank] is None
                            continue
                        at_root = whole if chosen.index(rank) == 1 else np.zeros_like(whole)
                        assert found[rank][:2] == [at_root.tolist(), whole.tolist()], (op, dtype, ranks)
                        if ranks is None:
                            start = [0, 3, 5][rank]
                            assert found[rank][2] == whole.reshape(-1)[start : start + 3 - rank].tolist()
        moved = await asyncio.gather(*[member.moved() for member in everyone])
        assert [one["group"] is not None for one in moved] == [False, True, True]
        assert moved[1]["gathered"] == [[0, 0], [0, 0]]
        assert moved[2]["gathered"] == [[1, 10], [2, 20]]
        assert (moved[1]["scattered"], moved[2]["scattered"]) == ([1, 10], [2, 11])
        for one in moved:
            assert one["everyone"] == [0, 0, 1, 10, 2, 20]
            assert one["exchanged"] == [0.0, 1.0, 2.0]
            assert one["received"] == [[2], [20]]


@in_loop
async def test_wrong_arguments_leave_the_group_usable() -> None:
    async with members() as made:
        everyone = await begun(made)
        for what, error, text in [
            ("group", ValueError, "no group"),
            ("list", TypeError, "NumPy arrays"),
            ("stream", ValueError, "stream"),
            ("ranks", ValueError, "different numbers"),
            ("division", ValueError, "divided evenly"),
            ("parts", ValueError, "recv_elems"),
            ("room", ValueError, "3 elements"),
        ]:
            for found in await asyncio.gather(*[member.wrong(what) for member in everyone], return_exceptions=True):
                assert isinstance(found, error), (what, found)
                assert text in str(found)
        assert (await asyncio.gather(*[member.moved() for member in everyone]))[0]["exchanged"] == [0.0, 1.0, 2.0]


@in_loop
async def test_ranks_that_cannot_find_each_other() -> None:
    async with members() as made:
        with pytest.raises(RuntimeError, match="COLLECTIVE_RANK_ADDRESS"):
            await made[0].begin_nowhere()
        with pytest.raises(NotImplementedError, match="nccl"):
            await made[0].begin(backend="nccl")
    pool = await xo.create_actor_pool("127.0.0.1", n_process=1)
    async with pool:
        (address,) = pool.sub_processes
        alone = await xo.create_actor(Member, 0, address=address)
        with pytest.raises(ValueError, match="COLLECTIVE_MASTER_IP"):
            await alone.begin()


@in_loop
async def test_ranks_with_the_same_number_are_refused() -> None:
    async with members(RANKS, [0, 1, 1]) as made:
        found = await asyncio.gather(*[member.begin() for member in made], return_exceptions=True)
        assert [type(one) for one in found] == [ValueError] * RANKS
        assert "rank 1 of 3" in str(found[0])


@in_loop
async def test_a_stranger_at_the_meeting_place_is_not_answered() -> None:
    async with members(2) as made:
        port = None
        beginning = asyncio.ensure_future(made[0].begin())
        config = await xo.get_pool_config(made[0].address)
        for entry in config.as_dict()["pools"].values():
            port = (entry.get("env") or {}).get(collective.RENDEZVOUS_MASTER_PORT_ENV_KEY, port)
        assert port is not None

        def stranger() -> bytes:
            while True:
                try:
                    with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as connection:
                        connection.recv(1000)  # the challenge
                        connection.sendall(bytes(200))
                        with contextlib.suppress(ConnectionResetError):
                            return connection.recv(1000)
                        return b""
                except ConnectionRefusedError:
                    time.sleep(0.02)

        loop = asyncio.get_running_loop()
        silent = await loop.run_in_executor(
            None, lambda: (stranger(), socket.create_connection(("127.0.0.1", int(port))))[1]
        )
        assert await loop.run_in_executor(None, stranger) == b""
        with silent:
            await asyncio.gather(beginning, made[1].begin())
