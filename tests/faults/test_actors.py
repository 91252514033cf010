"""Stress tests of actors: processes killed at random moments, very many actors, very many calls."""

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import craton.actor as xo

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "actor"))

from actors import Worker, descriptors, of, program, runs

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("CRATON_TEST_KILLS", "200"))
CALLS = int(os.environ.get("CRATON_TEST_CALLS", "1000000"))
#: Timeout of every operation, in seconds.
HANG = 5.0
#: The environment variable that identifies the processes of one test.
FAMILY = "CRATON_TEST_FAMILY"

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
    """A group of pools whose processes are killed; the main pool's process is then started again."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.process: subprocess.Popen[str] | None = None
        self.number = 0

    async def start(self) -> None:
        self.number += 1
        self.name = f"{os.getpid()} {self.number}"
        os.environ[FAMILY] = self.name
        try:
            self.process = program(_MAIN)
        finally:
            del os.environ[FAMILY]
        assert self.process.stdout is not None
        said = (await asyncio.to_thread(self.process.stdout.readline)).split()
        assert said, self.process.communicate()[1]
        self.address = said[0]
        self.refs = [xo.create_actor_ref("w", address=address) for address in said[1:4]]

    async def kill(self, index: int) -> None:
        assert self.process is not None
        if index == 0:
            await self.end()
            await self.start()
            return
        pid = None
        while pid is None:
            try:
                pid = await self.clock.limit(self.refs[index].pid())
            except xo.ServerClosed:
                await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)

    async def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            await self.clock.until(lambda: not family(self.name), "an orphan")


class Clock:
    """Counts only seconds in which this process ran, because it may be suspended, and its machine may be busy."""

    def __init__(self) -> None:
        self.now = 0.0

    async def run(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            self.now += min(time.monotonic() - before, 1.0)

    async def limit(self, work: Any, seconds: float = HANG) -> Any:
        """Await something, with a timeout in these seconds."""
        task = asyncio.ensure_future(work)
        began = self.now
        try:
            while not task.done() and self.now - began < seconds:
                await asyncio.wait({task}, timeout=0.1)
            assert task.done(), f"nothing within {seconds} s"
            return task.result()
        finally:
            task.cancel()

    async def until(self, condition: Callable[[], Any], what: str, seconds: float = HANG) -> None:
        """Wait until a condition holds, with a timeout in these seconds."""
        began = self.now
        while not condition():
            assert self.now - began < seconds, f"not within {seconds} s: {what}"
            await asyncio.sleep(0.005)


def family(name: str) -> set[int]:
    """Return the pids of the running processes in whose environment `FAMILY` has this name.

    Processes inherit the variable, so the result includes processes whose pids the test does not know, and excludes other
    programs on the machine.
    """
    mark = f"{FAMILY}={name}".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or belongs to another user
        if mark in variables and runs(int(path.parent.name)):
            found.add(int(path.parent.name))
    return found


def test_kill_any_pool_at_random_moments() -> None:
    chance = random.Random(7)
    errors: dict[str, int] = {}
    wordless: list[Exception] = []
    longest = 0.0

    async def main() -> None:
        nonlocal longest
        done = False
        good = 0
        clock = Clock()
        ticking = asyncio.create_task(clock.run())
        victims = Victims(clock)
        await victims.start()
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
                        await clock.limit(some_call(own))
                        good += 1
                    except (xo.ServerClosed, xo.ActorPoolNotStarted) as error:
                        errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
                        wordless.extend([error] * (not str(error)))
                        await asyncio.sleep(own.random() * 0.02)
                    longest = max(longest, clock.now - began)

            callers = [asyncio.create_task(caller(seed)) for seed in range(8)]
            for number in range(KILLS):
                before = good
                await clock.until(
                    lambda before=before: good > before + 3 or any(task.done() for task in callers), "traffic", 2 * HANG
                )
                failed = [task.exception() for task in callers if task.done()]
                assert not failed, (number, failed)
                await asyncio.sleep(chance.random() * 0.05)  # a random moment
                await victims.kill(chance.choice([0, 1, 1, 1, 2, 2, 2]))
            done = True
            await clock.limit(asyncio.gather(*callers), 2 * HANG)
        await victims.end()
        ticking.cancel()

    had = descriptors()
    asyncio.run(main())
    gc.collect()
    assert descriptors() <= had + 2
    assert longest < HANG
    assert not wordless
    assert errors["ServerClosed"] > 0
    print(errors, f"longest call {longest:.2f} s")


def test_ten_thousand_actors_in_one_pool() -> None:
    async def main() -> None:
        async with await xo.create_actor_pool("127.0.0.1", n_process=1) as pool:
            address = next(iter(pool.sub_processes))
            refs = await asyncio.gather(
                *[xo.create_actor(Worker, number, address=address, uid=f"w{number}") for number in range(10_000)]
            )
            assert await asyncio.gather(*[ref.add(1) for ref in refs]) == list(range(1, 10_001))
            # All actors are recreated.
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

            await asyncio.gather(*[calls(CALLS // 1000) for _ in range(100)])  # warm up with a tenth of the calls
            before = [await here(), await ref.state()]
            await asyncio.gather(*[calls(CALLS * 9 // 1000) for _ in range(100)])
            after = [await here(), await ref.state()]
            print(before, after)
            for was, now in zip(before, after, strict=True):
                assert now[0] < was[0] + (4 << 20)
                assert now[1:] == was[1:]

    asyncio.run(main())
