"""Calls that arrive while actors are being recreated, and pools that end meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.wire.peers import Peers

sys.path.insert(0, str(Path(__file__).parent))

from actors import Worker, of, runs, until


class Gate(xo.Actor):
    """An actor whose first creation is immediate, and whose recreation waits until a file exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def __post_create__(self) -> None:
        if not (self.folder / "made").exists():
            (self.folder / "made").touch()
            return
        (self.folder / "again").write_text(str(os.getpid()))
        await until((self.folder / "open").exists)


class Late(Worker):
    """An actor that works only after its `__post_create__` has run."""

    async def __post_create__(self) -> None:
        await asyncio.sleep(0.01)
        self.prepared = True

    def note(self, number: int) -> list[int]:
        assert self.prepared
        self.log.append(number)
        return list(self.log)


class Group:
    """A group whose sub pool has died and recreates its actors: the first is held up, and so are all others after it."""

    def __init__(self, pool: Any, folder: Path) -> None:
        self.pool, self.main, self.folder = pool, pool.external_address, folder

    async def break_down(self) -> None:
        gate = await xo.create_actor(Gate, self.folder, address=self.main, allocate_strategy=of(1))
        self.ref = await xo.create_actor(Late, address=self.main, uid="late", allocate_strategy=of(1))
        await xo.create_actor(Worker, address=gate.address, uid="old")
        self.sub = gate.address
        await xo.kill_actor(gate)
        self.pid = int(await until(lambda: (self.folder / "again").exists() and (self.folder / "again").read_text()))

    async def are_running(self, count: int) -> None:
        """Wait until the sub pool handles this many messages, besides the one that recreates an actor."""

        async def enough() -> bool:
            return (await xo.metrics(self.sub)).pools[1].get("running") == count + 1

        await until(enough)

    def open(self) -> None:
        (self.folder / "open").touch()


def broken(tmp_path: Path, work: Any, patience: float = 60) -> None:
    (tmp_path / "patience.py").write_text(
        f"from craton.actor.pool import recreation\nrecreation.RECREATION_TIMEOUT = {patience}\n"
    )

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, modules=["patience"]) as pool:
            group = Group(pool, tmp_path)
            await group.break_down()
            await asyncio.wait_for(work(group), 30)

    sys.path.append(str(tmp_path))  # sub pools inherit it
    try:
        asyncio.run(main())
    finally:
        sys.path.remove(str(tmp_path))


def test_calls_wait_for_recreated_actors(tmp_path: Path) -> None:
    async def work(group: Group) -> None:
        calls = [asyncio.ensure_future(group.ref.note(number)) for number in range(5)]
        await group.are_running(5)
        group.open()
        calls += [asyncio.ensure_future(group.ref.note(number)) for number in range(5, 10)]
        # In the order in which they arrived, and after `__post_create__`.
        assert await asyncio.gather(*calls) == [list(range(end + 1)) for end in range(10)]
        await xo.wait_actor_pool_recovered(group.sub, group.main)
        with pytest.raises(xo.ActorNotExist):
            await xo.create_actor_ref("nobody", address=group.sub).add(1)

    broken(tmp_path, work)


def test_requests_wait_for_recreated_actors(tmp_path: Path) -> None:
    async def work(group: Group) -> None:
        old, nobody = (xo.create_actor_ref(name, address=group.sub) for name in ("old", "nobody"))
        asked = [
            asyncio.ensure_future(question)
            for question in (
                xo.has_actor(group.ref),
                xo.actor_ref("late", address=group.sub),
                xo.destroy_actor(old),
                xo.create_actor(Worker, address=group.sub, uid="late"),
                xo.create_actors(Worker, [()], address=group.sub, uids=["late"]),
                xo.create_actors(Worker, [(3,)], address=group.main, allocate_strategy=of(1)),
                xo.ActorGroup([group.ref]).call("note", 1),
                xo.has_actor(nobody),
                nobody.add(1),
            )
        ]
        await group.are_running(len(asked) - 1)  # the request to the main pool waits there
        group.open()
        has, found, destroyed, made, many, placed, called, other, lost = await asyncio.gather(
            *asked, return_exceptions=True
        )
        assert (has, found, destroyed, called, other) == (True, group.ref, None, [[1]], False)
        assert {type(made), type(many)} == {xo.ActorAlreadyExist}
        assert await placed.call("add", 1) == [4]
        assert isinstance(lost, xo.ActorNotExist)
        assert not await xo.has_actor(old)
        # Destroyed actors are not recreated.
        await xo.kill_actor(group.ref)
        await xo.wait_actor_pool_recovered(group.sub, group.main)
        assert [await xo.has_actor(ref) for ref in (group.ref, old)] == [True, False]

    broken(tmp_path, work)


def test_recreation_times_out(tmp_path: Path) -> None:
    async def work(group: Group) -> None:
        for waiting in (group.ref.add(1), xo.has_actor(group.ref), xo.ActorGroup([group.ref]).call("add", 1)):
            with pytest.raises(xo.ActorPoolNotStarted, match=r"the actor b'late'.* was not recreated within 0.2 s"):
                await waiting
        group.open()
        await xo.wait_actor_pool_recovered(group.sub, group.main)
        assert await group.ref.add(1) == 1

    broken(tmp_path, work, patience=0.2)


def test_a_recreated_actor_does_not_wait_for_later_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Asks(Gate):
        async def __post_create__(self) -> None:
            again = (self.folder / "made").exists()
            await super().__post_create__()
            if again:
                await xo.create_actor_ref("later", address=self.address).add(1)

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            (sub,) = pool.sub_processes
            (tmp_path / "open").touch()
            ref = await xo.create_actor(Asks, tmp_path, address=sub)
            await xo.create_actor(Worker, address=sub, uid="later")
            await xo.kill_actor(ref)
            await xo.wait_actor_pool_recovered(sub, pool.external_address)
            assert "there is no actor b'later'" in caplog.text  # not delayed
            assert not await xo.has_actor(ref)

    asyncio.run(main())


@pytest.mark.parametrize("kill", ["signal", "kill_actor"])
def test_a_process_that_dies_during_recreation(tmp_path: Path, kill: str) -> None:
    async def work(group: Group) -> None:
        call = asyncio.ensure_future(group.ref.add(1))
        await group.are_running(1)
        if kill == "signal":
            os.kill(group.pid, signal.SIGKILL)
        else:
            await group.pool.kill_pool(group.sub)
            assert not runs(group.pid)
        with pytest.raises(xo.ServerClosed, match=rf"pid {group.pid}\) was killed by SIGKILL") as lost:
            await call
        assert lost.value.exitcode == -signal.SIGKILL
        group.open()
        await xo.wait_actor_pool_recovered(group.sub, group.main)
        assert await group.ref.add(1) == 1

    broken(tmp_path, work)


@pytest.mark.parametrize("how", ["stop", "remove", "loop"])
def test_stopping_during_recreation(how: str) -> None:
    # A call that is answered in spite of its cancellation returns normally; the recreation of the other actors must end
    # nevertheless.
    processes: set[int] = set()

    async def main() -> None:
        pool = await xo.create_actor_pool("127.0.0.1", n_process=1)
        (sub,) = pool.sub_processes
        await xo.create_actors(Worker, [()] * 2000, address=sub, uids=[f"w{number}" for number in range(2000)])
        pool.sub_processes[sub].kill()
        monitor = pool._monitors[sub]
        await until(lambda: monitor._starting is not None)
        ref = xo.create_actor_ref("w3", address=sub)
        processes.add(await ref.pid())
        assert monitor.recovering
        if how == "remove":
            await asyncio.wait_for(pool.remove_sub_pool(sub), 10)
        if how != "loop":
            await asyncio.wait_for(pool.stop(), 10)
            assert not any(runs(pid) for pid in processes)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert not any(runs(pid) for pid in processes)


def test_a_pool_that_is_appended_while_its_group_stops() -> None:
    async def main() -> None:
        pool = await xo.create_actor_pool("127.0.0.1", n_process=0)
        pids: list[int] = []
        start = pool._start_process

        async def shown(index: int) -> Any:
            process = await start(index)
            pids.append(process.pid)
            await pool.stop()
            return process

        pool._start_process = shown  # type: ignore[method-assign, assignment]
        with pytest.raises(xo.ActorPoolNotStarted, match="was stopped while it started sub pools"):
            await pool.append_sub_pool()
        assert len(pids) == 1
        assert not runs(pids[0])
        assert len(pool.config.pools) == 1

    asyncio.run(main())


def test_an_abandoned_connection_is_closed() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            (sub,) = pool.sub_processes
            os.kill(pool.sub_processes[sub].pid, signal.SIGSTOP)
            try:
                peers = Peers.here()
                peers.close({sub})
                opening = asyncio.ensure_future(peers._open(sub))
                await asyncio.sleep(0)  # it is connected, and waits for the handshake
                assert not opening.done()
                opening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await opening
            finally:
                os.kill(pool.sub_processes[sub].pid, signal.SIGCONT)

    asyncio.run(main())  # a socket left open would cause a ResourceWarning, which is an error
    import gc

    gc.collect()
