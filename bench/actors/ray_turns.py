"""One turn of `bench.actors.run` for Ray. Each of Ray's actors is a separate process, and all calls use TCP."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray

from bench.actors.payloads import Held, Inside, Keys, Touched, emit, measure_calls

ROOT = Path(__file__).resolve().parents[2]


class Reading:
    """Reads keys that are distributed over several stores. It is an async actor, so that many reads run concurrently."""

    def __init__(self, stores: list[Any], each: int) -> None:
        self.stores, self.each = stores, each

    async def read(self, rounds: int, flight: int) -> int:
        """Run `rounds` rounds of `flight` concurrent reads from all stores, and return the sum of the values."""
        total, key = 0, 0
        count = self.each * len(self.stores)
        for _ in range(rounds):
            calls = []
            for _ in range(flight):
                key = (key + 7919) % count
                calls.append(self.stores[key // self.each].get.remote(key))
            for value in await asyncio.gather(*calls):
                total += int(value[0])
        return total


def create(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Create actors one by one, and all at once. The measured time ends when every actor has answered a call."""
    count = options["actors"]
    kind = ray.remote(num_cpus=0)(Held)
    ray.get(kind.remote(0).add.remote(1))
    seconds = {}
    began = time.perf_counter()
    held = []
    for i in range(count):
        held.append(kind.remote(i))
        ray.get(held[-1].add.remote(1))
    seconds["an actor, one by one"] = (time.perf_counter() - began) / count
    for one in held:
        ray.kill(one)
    del held
    began = time.perf_counter()
    held = [kind.remote(i) for i in range(count)]
    ray.get([one.add.remote(1) for one in held])
    seconds["an actor, all at once"] = (time.perf_counter() - began) / count
    details["actors"] = count
    return seconds


def calls(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Measure calls of an actor with every payload."""
    touch = ray.remote(num_cpus=0)(Touched).remote().touch

    async def together(value: Any, flight: int) -> list[Any]:
        return ray.get([touch.remote(value) for _ in range(flight)])

    async def single(value: Any) -> Any:
        return await touch.remote(value)

    return asyncio.run(measure_calls(together, single, options["budget"], details))


def paper(options: dict[str, Any], details: dict[str, Any]) -> dict[str, float]:
    """Run the micro-benchmarks of Xorbits' paper: schedule actors, estimate π, and read local and remote keys."""
    count, rounds = options["actors"], options["rounds"]
    kind = ray.remote(num_cpus=0)(Held)
    ray.get(kind.remote(0).add.remote(1))
    seconds = {}
    began = time.perf_counter()
    held = [kind.remote(i) for i in range(count)]
    if ray.get([one.add.remote(1) for one in held]) != list(range(1, count + 1)):
        raise ValueError("an actor returned a wrong sum")
    seconds["scheduling, an actor"] = (time.perf_counter() - began) / count
    for one in held:
        ray.kill(one)
    del held

    estimating = ray.remote(num_cpus=0)(Inside)
    began = time.perf_counter()
    actors = [estimating.remote(i) for i in range(count)]
    ray.get([actor.sample.remote(1) for actor in actors])
    made = time.perf_counter()
    inside = 0
    for _ in range(rounds):
        inside += sum(ray.get([actor.sample.remote(options["points"]) for actor in actors]))
    now = time.perf_counter()
    seconds["π, calls only"], seconds["π, whole"] = now - made, now - began
    details["pi"] = 4 * inside / (rounds * count * options["points"])
    for actor in actors:
        ray.kill(actor)
    del actors

    each = options["keys"] // 2
    storing = ray.remote(num_cpus=0)(Keys)
    stores = [storing.remote(i * each, (i + 1) * each) for i in range(2)]
    reader = ray.remote(num_cpus=0, max_concurrency=100)(Reading).remote(stores, each)
    ray.get(reader.read.remote(2, 10))
    for flight, turns in ((1, options["reads"] // 4), (100, options["reads"] // 100)):
        began = time.perf_counter()
        details[f"sum {flight}"] = ray.get(reader.read.remote(turns, flight))
        seconds[f"key-level storage, a read, {flight} at a time"] = (time.perf_counter() - began) / (turns * flight)
    return seconds


PARTS = {"create": create, "processes": calls, "tcp": calls, "paper": paper}


def main(arguments: list[str]) -> int:
    """Run one part, with options as JSON."""
    options = json.loads(arguments[0])
    details: dict[str, Any] = {"versions": {"ray": ray.__version__}}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ray.init(
        num_cpus=2,
        object_store_memory=3 << 30,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    try:
        seconds = PARTS[options["part"]](options, details)
    finally:
        ray.shutdown()
    emit(seconds, details)
    return 0


if __name__ == "__main__":
    sys.exit(importlib.import_module("bench.actors.ray_turns").main(sys.argv[1:]))
