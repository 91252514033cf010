"""Actors under fire: processes that are killed at any moment, very many actors, very many calls."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from actors import Worker, descriptors, of, program, runs, until

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("CRATON_TEST_KILLS", "200"))
CALLS = int(os.environ.get("CRATON_TEST_CALLS", "1000000"))
#: Seconds that nothing may take.
HANG = 5.0

_MAIN = """
import asyncio
import craton.actor as xo
from actors import Worker, of

async def main():
    pool = await xo.create_actor_pool("127.0.0.1", n_process=2)
    refs = [await xo.create_actor(Worker, address=pool.external_address, uid="w", allocate_strategy=of(i)) for i in range(3)]
    print(pool.external_address, *[ref.address for ref in refs], *[await ref.pid() for ref in refs], flush=True)
    await pool.join()

asyncio.run(main())
"""


class Victims:
    """A group in processes that are killed, and started again if it was the main one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.all: set[int] = set()
        self.names: set[str] = set()

    async def start(self) -> None:
        self.process = program(_MAIN)
        assert self.process.stdout is not None
        said = (await asyncio.to_thread(self.process.stdout.readline)).split()
        assert said, self.process.communicate()[1]
        self.address = said[0]
        self.names.update(f"craton-actor-{os.getuid()}-{address}" for address in said[:4])
        self.refs = [xo.create_actor_ref("w", address=address) for address in said[1:4]]
        self.all.update(int(pid) for pid in said[4:])

    async def kill(self, index: int) -> None:
        assert self.process is not None
        if index == 0:
            self.process.kill()
            self.process.communicate()
            await until(lambda: not any(runs(pid) for pid in self.all), "an orphan", HANG)
            self.all.clear()
            await self.start()
            return
        pid = None
        while pid is None:
            try:
                pid = await asyncio.wait_for(self.refs[index].pid(), HANG)
            except (ConnectionError, xo.ActorNotExist):
                await asyncio.sleep(0.01)
        self.all.add(pid)
        os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


class Clock:
    """Counts the seconds in which this process ran: it may be stopped for a while, and its machine may be busy."""

    def __init__(self) -> None:
        self.now = 0.0

    async def run(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            self.now += min(time.monotonic() - before, 1.0)


def abstract_sockets() -> set[str]:
    lines = Path("/proc/net/unix").read_text().splitlines()
    return {line.rpartition("@")[2] for line in lines if "@craton-actor-" in line}


def test_kill_any_pool_at_random_moments() -> None:
    chance = random.Random(7)
    told: dict[str, int] = {}
    wordless: list[Exception] = []
    longest = 0.0

    async def main() -> None:
        nonlocal longest
        victims = Victims()
        await victims.start()
        done = False
        good = 0
        clock = Clock()
        ticking = asyncio.create_task(clock.run())
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as mine:
            other = await xo.create_actor(Worker, address=mine.external_address, allocate_strategy=of(1))

            def some_call(own: random.Random) -> Any:
                ref = own.choice(victims.refs)
                kinds = (
                    lambda: ref.add(1),
                    lambda: ref.echo(bytes(own.randrange(2_000_000))),
                    lambda: other.ask(ref, "add", 1),
                    lambda: other.ask(ref, "echo", b"x" * 100_000),
                    lambda: ref.ask(own.choice(victims.refs), "add", 1),
                    lambda: xo.has_actor(ref),
                )
                return own.choice(kinds)()

            async def caller(seed: int) -> None:
                nonlocal good, longest
                own = random.Random(seed)
                while not done:
                    began = clock.now
                    try:
                        await asyncio.wait_for(some_call(own), HANG)
                        good += 1
                    except (ConnectionError, xo.ActorNotExist) as error:
                        told[type(error).__name__] = told.get(type(error).__name__, 0) + 1
                        wordless.extend([error] * (not str(error)))
                        await asyncio.sleep(own.random() * 0.02)
                    longest = max(longest, clock.now - began)

            callers = [asyncio.create_task(caller(seed)) for seed in range(8)]
            for number in range(KILLS):
                before = good
                await until(
                    lambda before=before: good > before + 3 or any(task.done() for task in callers), "traffic", 2 * HANG
                )
                failed = [task.exception() for task in callers if task.done()]
                assert not failed, (number, failed)
                await asyncio.sleep(chance.random() * 0.05)  # the moment
                await victims.kill(chance.choice([0, 1, 1, 1, 2, 2, 2]))
            done = True
            await asyncio.wait_for(asyncio.gather(*callers), 2 * HANG)
            ticking.cancel()
        victims.end()
        await until(lambda: not any(runs(pid) for pid in victims.all), "an orphan", HANG)
        await until(lambda: not victims.names & abstract_sockets(), "a socket that is left", HANG)

    had = descriptors()
    asyncio.run(main())
    gc.collect()
    assert descriptors() <= had + 2
    assert longest < HANG + 1
    assert not wordless
    assert told["ServerClosed"] > 0
    print(told, f"longest call {longest:.2f} s")


def test_ten_thousand_actors_in_one_pool() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            address = next(iter(pool.sub_processes))
            refs = await asyncio.gather(
                *[xo.create_actor(Worker, number, address=address, uid=f"w{number}") for number in range(10_000)]
            )
            assert await asyncio.gather(*[ref.add(1) for ref in refs]) == list(range(1, 10_001))
            # All of them are made again.
            await xo.kill_actor(refs[0])
            await asyncio.wait_for(xo.wait_actor_pool_recovered(address, pool.external_address), 60)
            assert await asyncio.gather(*[ref.add(2) for ref in refs]) == list(range(2, 10_002))
            await asyncio.gather(*[xo.destroy_actor(ref) for ref in refs])
            assert not await xo.has_actor(refs[-1])

    asyncio.run(main())


def test_a_million_calls_leave_nothing() -> None:
    class Counted(Worker):
        def state(self) -> tuple[int, int, int]:
            gc.collect()
            return resident(), len(asyncio.all_tasks()), descriptors()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            ref = await xo.create_actor(Counted, address=pool.external_address, allocate_strategy=of(1))

            async def calls(count: int) -> None:
                for _ in range(count):
                    await ref.echo("x")

            async def here() -> tuple[int, int, int]:
                gc.collect()
                return resident(), len(asyncio.all_tasks()), descriptors()

            await asyncio.gather(*[calls(CALLS // 1000) for _ in range(100)])  # a tenth, to warm up
            before = [await here(), await ref.state()]
            await asyncio.gather(*[calls(CALLS * 9 // 1000) for _ in range(100)])
            after = [await here(), await ref.state()]
            print(before, after)
            for was, now in zip(before, after, strict=True):
                assert now[0] < was[0] + (4 << 20)
                assert now[1:] == was[1:]

    asyncio.run(main())
