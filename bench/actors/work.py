"""One turn of `bench.actors.run` for Craton and Xoscar: one program, with a different imported module."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.actors.payloads import Held, Inside, Keys, Touched, emit, measure_calls

ROOT = Path(__file__).resolve().parents[2]
UID = "touching"
VARIABLE = "CRATON_BENCH_ACTORS"
NAME = os.environ.get(VARIABLE, "craton")
"""The contestant. An environment variable passes it on to the processes of sub pools."""
xo: Any = importlib.import_module("craton.actor" if NAME == "craton" else "xoscar")
Strategy = importlib.import_module(
    "craton.actor.allocate_strategy" if NAME == "craton" else "xoscar.backends.allocate_strategy"
)


class Touching(Touched, xo.Actor):  # type: ignore[misc, name-defined]
    """The actor in the benchmark of calls."""


class Holding(xo.Actor):  # type: ignore[misc, name-defined]
    """A stateful actor."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.held = Held(value)

    def add(self, other: int) -> int:
        return self.held.add(other)


class Estimating(xo.Actor):  # type: ignore[misc, name-defined]
    """An actor that estimates π."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.inside = Inside(seed)

    def sample(self, count: int) -> int:
        return self.inside.sample(count)


class Storing(xo.Actor):  # type: ignore[misc, name-defined]
    """An actor that stores a range of the keys."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self.keys = Keys(start, stop)

    def get(self, key: int) -> Any:
        return self.keys.get(key)


class Reading(xo.Actor):  # type: ignore[misc, name-defined]
    """An actor that reads keys from stores in its own process and in another."""

    def __init__(self, stores: list[Any], each: int) -> None:
        super().__init__()
        self.stores, self.each = stores, each

    async def read(self, rounds: int, flight: int) -> int:
        """Run `rounds` rounds of `flight` concurrent reads from all stores, and return the sum of the values."""
        total, key = 0, 0
        count = self.each * len(self.stores)
        for _ in range(rounds):
            calls = []
            for _ in range(flight):
                key = (key + 7919) % count
                calls.append(self.stores[key // self.each].get(key))
            for value in await asyncio.gather(*calls):
                total += int(value[0])
        return total


def at(index: int) -> Any:
    """Return the strategy that places an actor in the pool with this number."""
    return Strategy.ProcessIndex(index)


@contextlib.asynccontextmanager
async def group(n_process: int) -> AsyncIterator[str]:
    """Start a group of pools; yield its address."""
    pool = await xo.create_actor_pool("127.0.0.1", n_process=n_process)
    try:
        yield pool.external_address
    finally:
        await pool.stop()


async def create(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Create actors one by one, and all at once; the timed interval ends when all of them can be called."""
    count = options["actors"]
    seconds = {}
    async with group(2) as address:
        for index in (1, 2):
            await xo.create_actor(Holding, 0, address=address, allocate_strategy=at(index))
        began = time.perf_counter()
        refs = [
            await xo.create_actor(Holding, i, address=address, allocate_strategy=at(1 + i % 2)) for i in range(count)
        ]
        seconds["an actor, one by one"] = (time.perf_counter() - began) / count
        if [await ref.add(1) for ref in refs] != list(range(1, count + 1)):
            raise ValueError("an actor returned a wrong sum")
        began = time.perf_counter()
        await asyncio.gather(
            *[xo.create_actor(Holding, i, address=address, allocate_strategy=at(1 + i % 2)) for i in range(count)]
        )
        seconds["an actor, all at once"] = (time.perf_counter() - began) / count
    details["actors"] = count
    return seconds


async def calls(ref: Any, options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Measure calls of an actor with every payload."""
    touch = ref.touch

    async def together(value: Any, flight: int) -> list[Any]:
        if flight == 1:
            return [await touch(value)]
        return await asyncio.gather(*[touch(value) for _ in range(flight)])

    return await measure_calls(together, touch, options["budget"], details)


async def inside(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Measure calls of an actor in the caller's process."""
    async with group(0 if NAME == "craton" else 1) as address:
        return await calls(await xo.create_actor(Touching, address=address), options, details)


async def processes(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Measure calls from the main pool's process to an actor of a sub pool."""
    async with group(1) as address:
        ref = await xo.create_actor(Touching, address=address, allocate_strategy=at(1))
        found = await calls(ref, options, details)
        details["family"] = _family(ref.address)
        return found


async def tcp(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Measure calls by TCP to an actor in another program's group."""
    program = [sys.executable, "-m", "bench.actors.work", json.dumps({**options, "part": "serve"})]
    with subprocess.Popen(program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            reply = json.loads(await asyncio.to_thread(server.stdout.readline))
            address = reply["address"]
            if NAME == "craton":
                # On one machine, Craton uses a Unix socket if the address has the host name of the pool. Another host name makes
                # it use TCP.
                address = address.replace("127.0.0.1", "localhost")
                ref = xo.create_actor_ref(UID, address=address)
            else:
                ref = await xo.actor_ref(UID, address=address)
            found = await calls(ref, options, details)
            details["family"] = _family(ref.address)
            return found
        finally:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(30)


async def serve(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Run the other program of `tcp`: serve an actor until standard input ends."""
    async with group(1) as address:
        ref = await xo.create_actor(Touching, uid=UID, address=address, allocate_strategy=at(1))
        print(json.dumps({"address": ref.address}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    return {}


def _family(address: str) -> str:
    if NAME != "craton":
        return ""
    from craton.actor.wire.peers import Peers

    peer = Peers.here().known(address)
    assert peer is not None
    assert peer.link is not None
    return peer.link._sock.family.name


async def paper(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Run the micro-benchmarks of Xorbits' paper: schedule actors, estimate π, and read local and remote keys."""
    count, rounds = options["actors"], options["rounds"]
    seconds = {}
    async with group(2) as address:
        for index in (1, 2):
            await (await xo.create_actor(Holding, 0, address=address, allocate_strategy=at(index))).add(1)

        async def scheduled(i: int) -> None:
            ref = await xo.create_actor(Holding, i, address=address, allocate_strategy=at(1 + i % 2))
            if await ref.add(1) != i + 1:
                raise ValueError("an actor returned a wrong sum")

        began = time.perf_counter()
        await asyncio.gather(*[scheduled(i) for i in range(count)])
        seconds["scheduling, an actor"] = (time.perf_counter() - began) / count

        began = time.perf_counter()
        refs = await asyncio.gather(
            *[xo.create_actor(Estimating, i, address=address, allocate_strategy=at(1 + i % 2)) for i in range(count)]
        )
        made = time.perf_counter()
        inside = 0
        for _ in range(rounds):
            inside += sum(await asyncio.gather(*[ref.sample(options["points"]) for ref in refs]))
        now = time.perf_counter()
        seconds["π, calls only"], seconds["π, whole"] = now - made, now - began
        details["pi"] = 4 * inside / (rounds * count * options["points"])

        each = options["keys"] // 2
        stores = [
            await xo.create_actor(Storing, i * each, (i + 1) * each, address=address, allocate_strategy=at(1 + i))
            for i in range(2)
        ]
        reader = await xo.create_actor(Reading, stores, each, address=address, allocate_strategy=at(1))
        await reader.read(2, 10)
        for flight, turns in ((1, options["reads"] // 4), (100, options["reads"] // 100)):
            began = time.perf_counter()
            details[f"sum {flight}"] = await reader.read(turns, flight)
            seconds[f"key-level storage, a read, {flight} at a time"] = (time.perf_counter() - began) / (turns * flight)
    return seconds


PARTS = {"create": create, "inside": inside, "processes": processes, "tcp": tcp, "serve": serve, "paper": paper}


def main(arguments: list[str]) -> int:
    """Run one part, with options as JSON."""
    options = json.loads(arguments[0])
    details: dict[str, Any] = {}
    if NAME == "xoscar":
        import uvloop  # type: ignore[import-not-found]

        details["versions"] = {"xoscar": importlib.metadata.version("xoscar"), "uvloop": uvloop.__version__}
        factory = uvloop.new_event_loop
    else:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        seconds = runner.run(PARTS[options["part"]](options, details))
    if options["part"] != "serve":
        emit(seconds, details)
    return 0


if __name__ == "__main__":
    os.environ[VARIABLE] = json.loads(sys.argv[1])["contestant"]
    # Import the module under its own name instead of __main__, so that sub pools can import the actors' classes.
    sys.exit(importlib.import_module("bench.actors.work").main(sys.argv[1:]))
