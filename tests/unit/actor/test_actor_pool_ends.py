"""Starting and ending pools under difficulties: stuck or busy processes, large configurations, cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor import cli
from craton.actor.pool import oom, processes, sharing
from craton.actor.pool.sub import _loop_factory

sys.path.insert(0, str(Path(__file__).parent))

from actors import Worker, of, program, runs, until


class Clinging(Worker):
    """An actor whose `__pre_destroy__` does not end."""

    async def __pre_destroy__(self) -> None:
        await asyncio.sleep(100)


class Recording(Worker):
    """An actor that records its `__pre_destroy__`, which takes a while."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.gate = folder, asyncio.Event()

    @xo.no_lock
    def open(self) -> None:
        self.gate.set()

    async def __pre_destroy__(self) -> None:
        with open(self.folder / "destroyed", "a") as file:
            file.write("x")
        await self.gate.wait()


def test_a_large_configuration() -> None:
    async def main() -> None:
        envs = [{"LARGE": "x" * 100_000}] * 2  # every process gets the configuration of all
        async with await xo.create_actor_pool("127.0.0.1", n_process=2, envs=envs) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(2))
            assert await ref.env("LARGE") == envs[0]["LARGE"]

    asyncio.run(main())


def test_each_interpreter_looks_for_uvloop_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert _loop_factory("auto") is None
    assert _loop_factory(False) is None


def test_a_stuck_process_is_killed_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("craton.actor.pool.main._STOP_TIMEOUT", 0.2)
    monkeypatch.setattr("craton.actor.wire.peers.GRACE", 100.0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pool = await xo.create_actor_pool("127.0.0.1", n_process=2)
        pids = {address: process.pid for address, process in pool.sub_processes.items()}
        first, second = pids
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        began = loop.time()
        await pool.remove_sub_pool(first, timeout=0.1)
        assert not runs(pids[first])
        # A caller that is cancelled while it waits leaves nothing behind either.
        removing = asyncio.ensure_future(pool._end(second, pool.sub_processes[second], 100))
        await asyncio.sleep(0)
        removing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await removing
        assert not runs(pids[second])
        await pool.stop(timeout=0.1)
        assert loop.time() - began < 20

    asyncio.run(main())


def test_a_signal_ends_a_sub_pool_whatever_its_actors_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "impatient.py").write_text("import craton.actor.pool.sub as sub\nsub._STOP_TIMEOUT = 0.1\n")
    monkeypatch.syspath_prepend(tmp_path)

    async def main() -> None:
        async with await xo.create_actor_pool(
            "127.0.0.1", n_process=1, auto_recover=False, modules=["impatient"]
        ) as pool:
            ref = await xo.create_actor(Clinging, address=pool.external_address, allocate_strategy=of(1))
            pid = await ref.pid()
            os.kill(pid, signal.SIGTERM)
            await until(lambda: not runs(pid), seconds=10)

    asyncio.run(main())


def test_an_actor_is_destroyed_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            for index in range(2):
                ref = await xo.create_actor(
                    Recording, tmp_path, address=pool.external_address, allocate_strategy=of(index)
                )
                first = asyncio.ensure_future(xo.destroy_actor(ref))
                await until(
                    lambda index=index: (
                        len((tmp_path / "destroyed").read_text()) == index + 1
                        if (tmp_path / "destroyed").exists()
                        else False
                    )
                )
                with pytest.raises(xo.ActorNotExist, match="is being destroyed already"):
                    await xo.destroy_actor(ref)
                assert await xo.has_actor(ref)
                await ref.open()
                await first
                assert not await xo.has_actor(ref)
        assert (tmp_path / "destroyed").read_text() == "xx"

    asyncio.run(main())


def test_errors_in_pre_destroy_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Worker):
        async def __pre_destroy__(self) -> None:
            raise asyncio.CancelledError if self.value else KeyError("of an actor")

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, auto_recover=False) as pool:
            for value, index in ((0, 0), (1, 0), (1, 1)):
                await xo.create_actor(Bad, value, address=pool.external_address, allocate_strategy=of(index))
            process = next(iter(pool.sub_processes.values()))
            (pool_address,) = pool.sub_processes
            await pool.remove_sub_pool(pool_address)
            assert process.returncode == 0

    asyncio.run(main())
    assert "KeyError: 'of an actor'" in caplog.text


def test_a_process_that_takes_long_to_die_is_reaped_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1, auto_recover=False) as pool:
            (process,) = pool.sub_processes.values()
            popen = process._popen

            def wait(timeout: float) -> int:
                raise subprocess.TimeoutExpired("python", timeout)

            with monkeypatch.context() as patch:
                patch.setattr(popen, "wait", wait)
                process.end()
            assert popen in processes._dying
            await until(lambda: popen.returncode is not None)
            await pool.append_sub_pool()
            assert popen not in processes._dying

    asyncio.run(main())


# ---- exceptions ----


class Base(BaseException):
    pass


class Wordless(Exception):
    """An exception that can be neither serialized nor formatted."""

    def __reduce__(self) -> Any:
        raise TypeError("no")

    def __str__(self) -> str:
        raise TypeError("no words")


class Raising(xo.Actor):
    def plain(self, kind: type[BaseException]) -> None:
        raise kind

    async def awaited(self, kind: type[BaseException]) -> None:
        raise kind


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (StopIteration, RuntimeError),
        (asyncio.CancelledError, asyncio.CancelledError),
        (Base, Base),
        (Wordless, Wordless),
    ],
)
def test_any_exception_of_a_method_reaches_the_caller(
    kind: type[BaseException], found: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("craton.actor.wire.peers.GRACE", 100.0)

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            ref = await xo.create_actor(Raising, address=pool.external_address, allocate_strategy=of(1))
            for method in (ref.plain, ref.awaited):
                waiting = asyncio.ensure_future(method(kind))
                # The caller gets an error immediately, and its connection still serves others.
                await asyncio.wait({waiting}, timeout=20)
                assert waiting.done()
                with pytest.raises(found):
                    await waiting
            with pytest.raises(found):
                await xo.ActorGroup([ref]).call("plain", kind)

    asyncio.run(main())


# ---- pools that do not answer ----


def test_a_pool_that_is_busy_does_not_keep_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("craton.actor.group_metrics._ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr("craton.actor.wire.peers.GRACE", 100.0)
    monkeypatch.setattr("craton.actor.pool.main._STOP_TIMEOUT", 0.2)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with await xo.create_actor_pool("127.0.0.1", n_process=2) as pool:
            first, second = pool.sub_processes
            stopped = pool.sub_processes[first]
            await xo.metrics(first)
            os.kill(stopped.pid, signal.SIGSTOP)
            try:
                began = loop.time()
                found = (await xo.metrics(second)).pools
                assert ["error" in each for each in found] == [False, True, False]
                assert found[1]["error"] == "no answer within 0.5 s"
                with pytest.raises(TimeoutError, match=rf"{first} has not answered within 0.5 s"):
                    await xo.metrics(first)
                assert await asyncio.to_thread(cli.main, ["ls", first]) == 1
                assert (
                    loop.time() - began < 20
                )  # the call is abandoned, without waiting for the pool to confirm its cancellation
                third = await pool.append_sub_pool()
            finally:
                os.kill(stopped.pid, signal.SIGCONT)
            # It gets the configuration as soon as it reads again.
            await until(lambda: is_configured(first, third))

    async def is_configured(address: str, other: str) -> bool:
        return other in (await xo.get_pool_config(address)).get_external_addresses()

    asyncio.run(main())
    assert "has not answered" in capsys.readouterr().err


def test_an_exit_is_reported_quickly_if_the_main_pool_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("craton.actor.wire.peers.GRACE", 100.0)
    text = """
import asyncio, sys, time
import craton.actor as xo
from actors import Worker, of

async def main():
    pool = await xo.create_actor_pool("127.0.0.1", n_process=1, auto_recover=False)
    ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
    print(pool.external_address, ref.address, ref.uid.decode(), await ref.pid(), flush=True)
    await pool.join()

asyncio.run(main())
"""
    process = program(text)
    try:
        assert process.stdout is not None
        main_address, address, uid, pid = process.stdout.readline().split()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            ref = xo.create_actor_ref(uid, address=address)
            await xo.get_pool_config(main_address)
            call = asyncio.ensure_future(ref.sleep(100))
            await ref.add(1)
            process.send_signal(signal.SIGSTOP)
            began = loop.time()
            os.kill(int(pid), signal.SIGKILL)
            with pytest.raises(xo.ServerClosed, match="has ended"):
                await call
            assert loop.time() - began < 20  # the busy main pool is given less than a second to answer

        asyncio.run(main())
    finally:
        process.kill()
        process.communicate()


# ---- memory, and the store ----


def test_an_oom_kill_is_attributed_to_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "memory.events"
    for group in (counter, None):
        counter.write_text("low 0\noom_kill 3\n")
        monkeypatch.setattr(oom, "_counter_of", lambda _, group=group: group)
        monkeypatch.setattr(oom, "_MACHINE", counter)
        monkeypatch.setattr(oom, "_explained", type(oom._explained)())
        one, two, three = (oom.OomKills(1) for _ in range(3))
        assert one.since() == ""
        one = oom.OomKills(1)
        counter.write_text("low 0\noom_kill 4\n")
        assert "OOM kill" in two.since()
        assert two.since() == two.since()
        assert one.since() == three.since() == ""
        one, three = (oom.OomKills(1) for _ in range(2))
        counter.write_text("low 0\noom_kill 6\n")
        assert "OOM kill" in one.since()
        assert "OOM kill" in three.since()


def test_a_store_that_is_opened_while_its_pool_stops_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    opening, open_now = threading.Event(), threading.Event()

    class Opened:
        def close(self) -> None:
            closed.append(self)

    def opened() -> tuple[Any, bool]:
        opening.set()
        assert open_now.wait(20)
        return Opened(), True

    monkeypatch.setattr(sharing.shared, "opened", opened)
    monkeypatch.setattr(sharing.shared, "enabled", lambda: 1)

    async def main() -> None:
        store = sharing.GroupStore()
        getting = asyncio.ensure_future(store.get())
        await until(opening.is_set)
        getting.cancel()  # no caller waits for the store any more
        await asyncio.wait({getting})
        store.close()
        open_now.set()
        await until(lambda: closed)
        assert await store.get() is None

    asyncio.run(main())
