"""Pools leave no processes, sockets or files behind, however their process ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo
from craton.actor.wire.peers import Peers

sys.path.insert(0, str(Path(__file__).parent))

from actors import Worker, descriptors, free_port, of, program, runs, until


def pids(pool: Any) -> list[int]:
    return [process.pid for process in pool.sub_processes.values()]


_FATE = """
import asyncio, os, sys, signal, multiprocessing, time
import craton.actor as xo
from actors import Worker, of

def forked():
    time.sleep(120)

async def main():
    pool = await xo.create_actor_pool("127.0.0.1", n_process=2)
    a = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
    b = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(2))
    fork = multiprocessing.get_context("fork").Process(target=forked)
    if {fork}:
        fork.start()
    print(await a.pid(), await b.pid(), fork.pid or 0, flush=True)
    calls = [asyncio.ensure_future(a.{busy}), asyncio.ensure_future(b.sleep(100))]
    await asyncio.sleep(0)
    {end}

asyncio.run(main())
{after}
"""


@pytest.mark.parametrize(
    ("end", "after", "number", "code"),
    [
        ("pass", "print('after', flush=True); sys.stdin.read()", None, 0),
        pytest.param("raise KeyError('x')", "", None, 1, marks=pytest.mark.slow),
        ("sys.exit(3)", "", None, 3),
        ("os._exit(4)", "", None, 4),
        ("await asyncio.sleep(100)", "", signal.SIGTERM, -15),
        ("await asyncio.sleep(100)", "", signal.SIGKILL, -9),
    ],
)
def test_no_orphan_survives(end: str, after: str, number: int | None, code: int) -> None:
    import subprocess

    busy = "busy_in_c()" if number or "_exit" in end else "block(100)"
    text = _FATE.format(fork=number is not None, busy=busy, end=end, after=after)
    process = program(text, stdin=subprocess.PIPE)
    forked = 0
    try:
        assert process.stdout is not None
        line = process.stdout.readline().split()
        if not line:
            pytest.fail(process.communicate()[1])
        *subs, forked = [int(part) for part in line]
        if after:
            # The event loop has ended but the program has not: the sub processes are gone already.
            assert process.stdout.readline() == "after\n"
            asyncio.run(until(lambda: not any(runs(sub) for sub in subs)))
        if number is not None:
            process.send_signal(number)
        process.stdin.close()  # type: ignore[union-attr]
        process.stdin = None
        assert process.wait(20) == code
        asyncio.run(until(lambda: not any(runs(sub) for sub in subs), seconds=5))
    finally:
        process.kill()
        if forked:
            os.kill(forked, signal.SIGKILL)
        process.communicate()


def test_interrupt_of_the_process_group_ends_cleanly() -> None:
    text = """
import asyncio, sys
import craton.actor as xo
from actors import Worker, of

async def main():
    async with await xo.create_actor_pool("127.0.0.1", n_process=2) as pool:
        a = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
        print(await a.pid(), flush=True)
        try:
            await a.sleep(100)
        finally:
            print("stopping", flush=True)
    print("stopped", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""
    process = program(text, start_new_session=True)
    assert process.stdout is not None
    sub = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "stopping\n")
    assert errors == ""
    assert not runs(sub)


def test_interrupt_while_pools_start() -> None:
    text = """
import asyncio, sys
import craton.actor as xo
from craton.actor.pool import processes
ready = processes.Process.ready
async def shown(self):
    print(self.pid, flush=True)
    return await ready(self)
processes.Process.ready = shown
try:
    asyncio.run(xo.create_actor_pool("127.0.0.1", n_process=2))
except KeyboardInterrupt:
    sys.exit(130)
"""
    process = program(text, start_new_session=True)
    assert process.stdout is not None
    subs = [int(process.stdout.readline()) for _ in range(2)]
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")
    assert not any(runs(sub) for sub in subs)


def test_stop_is_bounded() -> None:
    class Clinging(Worker):
        async def __pre_destroy__(self) -> None:
            await asyncio.sleep(100)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pool = await xo.create_actor_pool("127.0.0.1", n_process=2)
        main = pool.external_address
        await xo.create_actor(Clinging, address=main)
        await xo.create_actor(Clinging, address=main, allocate_strategy=of(1))
        stuck = await xo.create_actor(Worker, address=main, allocate_strategy=of(2))
        call = asyncio.ensure_future(stuck.block(100))
        await asyncio.sleep(0)
        gone = pids(pool)
        began = loop.time()
        await asyncio.gather(pool.stop(timeout=0.3), pool.stop())
        assert loop.time() - began < 5
        with pytest.raises(ConnectionError):
            await call
        assert not any(runs(pid) for pid in gone)
        await pool.stop()

        pool = await xo.create_actor_pool("127.0.0.1", n_process=1)
        stuck = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(1))
        call = asyncio.ensure_future(stuck.busy_in_c())
        began = loop.time()
        await pool.stop(force=True)
        assert loop.time() - began < 2
        with pytest.raises(ConnectionError):
            await call

    asyncio.run(main())


def test_actors_are_destroyed_when_their_pool_stops(tmp_path: Path) -> None:
    class Polite(Worker):
        async def __pre_destroy__(self) -> None:
            await asyncio.sleep(0)
            (tmp_path / f"{self.value}").write_text(str(os.getpid()))

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            for index in range(2):
                await xo.create_actor(Polite, index, address=pool.external_address, allocate_strategy=of(index))

    asyncio.run(main())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_start_and_stop_again_and_again() -> None:
    def abstract() -> int:
        return Path("/proc/net/unix").read_text().count(f"craton-actor-{os.getuid()}-127.0.0.1:{port}\n")

    port = free_port()

    async def one(n_process: int) -> None:
        async with await xo.create_actor_pool(f"127.0.0.1:{port}", n_process=n_process) as pool:
            ref = await xo.create_actor(Worker, address=pool.external_address, allocate_strategy=of(n_process))
            assert await ref.add(1) == 1

    for _ in range(2):
        asyncio.run(one(1))
    gc.collect()
    had, threads = descriptors(), threading.active_count()
    for _ in range(50):
        asyncio.run(one(0))
    asyncio.run(one(1))
    gc.collect()
    assert descriptors() <= had
    assert threading.active_count() <= threads
    assert abstract() == 0
    assert len(Peers._of) <= 2


def test_a_pool_of_a_thread_that_ends() -> None:
    found: list[int] = []

    async def forgetful() -> None:
        pool = await xo.create_actor_pool("127.0.0.1", n_process=1)
        found.extend(pids(pool))

    thread = threading.Thread(target=lambda: asyncio.run(forgetful()))
    thread.start()
    thread.join()
    asyncio.run(until(lambda: not runs(found[0])))


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the closed loop leaves sockets open, and Python warns
def test_a_loop_that_is_closed_without_stopping_its_pools() -> None:
    loop = asyncio.new_event_loop()
    (pid,) = pids(loop.run_until_complete(xo.create_actor_pool("127.0.0.1", n_process=1)))
    loop.set_exception_handler(lambda *_: None)  # reports of tasks that were destroyed while pending
    loop.close()
    del loop
    gc.collect()
    asyncio.run(until(lambda: not runs(pid)))
