"""Shared by the contestants of `bench.actors.run`: the actors' methods, the payloads, and the timing of calls."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

__all__ = ["CALLS", "Held", "Inside", "Keys", "Touched", "emit", "latencies", "names_of", "payload", "rate", "spread"]

KB, MB = 1000, 1000_000
CALLS = (
    ("0 B", 1), ("0 B", 10), ("0 B", 100),
    ("1 KB bytes", 1), ("1 KB bytes", 10), ("1 KB bytes", 100),
    ("1 KB array", 1), ("1 KB array", 100),
    ("1 MB", 1), ("1 MB", 10), ("1 MB", 100),
    ("100 MB", 1), ("100 MB", 10),
)  # fmt: skip
"""Pairs of a payload and a number of concurrent calls. 100 concurrent calls with 100 MB each would not fit into memory."""
SMALL = ("0 B", "1 KB bytes", "1 KB array")


def names_of(calls: tuple[tuple[str, int], ...] = CALLS) -> list[str]:
    """Return the names of the cases."""
    return [f"{size}, {flight} in flight" for size, flight in calls]


def payload(size: str) -> Any:
    """Return an argument of the given size and kind."""
    if size == "0 B":
        return None
    if size == "1 KB bytes":
        return bytes(KB)
    count = {"1 KB array": KB, "1 MB": MB, "100 MB": 100 * MB}[size] // 8
    return np.arange(count, dtype=np.int64)


def expected(value: Any) -> int:
    """Return the correct answer of the actor to this payload."""
    return Touched().touch(value)


class Touched:
    """The method of the actor in the benchmark of calls."""

    def touch(self, value: Any) -> int:
        """Read every memory page of the payload."""
        if value is None:
            return 0
        if type(value) is bytes:
            return len(value)
        return int(value[::512].sum())


class Held:
    """The state and the method of a stateful actor."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, other: int) -> int:
        """Add to the state, and return the sum."""
        self.value += other
        return self.value


class Inside:
    """The method of an actor that estimates π."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def sample(self, count: int) -> int:
        """Draw `count` random points of the unit square, and return how many are inside the unit circle."""
        x, y = self.random.random(count), self.random.random(count)
        return int(np.count_nonzero(x * x + y * y <= 1.0))


class Keys:
    """The data of an actor that stores a range of the keys."""

    def __init__(self, start: int, stop: int) -> None:
        self.values = {key: np.full(16, key, np.int64) for key in range(start, stop)}

    def get(self, key: int) -> Any:
        return self.values[key]


async def rate(call: Callable[[Any, int], Awaitable[list[Any]]], value: Any, flight: int, seconds: float) -> float:
    """Measure rounds of `flight` concurrent calls, and return the mean seconds per call.

    Parameters
    ----------
    call : callable
        Makes a round of calls and returns the answers.
    seconds : float
        No round begins after this time. One untimed and at least two timed rounds always run.
    """
    wanted = [expected(value)] * flight
    if await call(value, flight) != wanted:
        raise ValueError("the actor received another payload")
    rounds = 0
    began = now = time.perf_counter()
    while rounds < 2 or now - began < seconds:
        if await call(value, flight) != wanted:
            raise ValueError("the actor received another payload")
        rounds += 1
        now = time.perf_counter()
    return (now - began) / (rounds * flight)


async def latencies(call: Callable[[Any], Awaitable[Any]], value: Any, flight: int, seconds: float) -> dict[str, float]:
    """Measure single calls while `flight` calls run concurrently, and return the p50 and p99 of their seconds."""
    found: list[float] = []
    end = time.perf_counter() + seconds

    async def worker() -> None:
        while True:
            began = time.perf_counter()
            await call(value)
            now = time.perf_counter()
            found.append(now - began)
            if now > end:
                return

    await asyncio.gather(*[worker() for _ in range(flight)])
    return spread(found)


def spread(found: list[float]) -> dict[str, float]:
    found.sort()
    return {"p50": statistics.median(found), "p99": found[min(len(found) - 1, int(0.99 * len(found)))]}


async def measure_calls(
    together: Callable[[Any, int], Awaitable[list[Any]]],
    single: Callable[[Any], Awaitable[Any]],
    budget: float,
    tell: dict[str, Any],
) -> dict[str, float]:
    """Measure all of `CALLS`; return the seconds per call, and write p50 and p99 into ``tell["latency"]``."""
    seconds: dict[str, float] = {}
    quantiles = tell["latency"] = {}
    for size, flight in CALLS:
        value = payload(size)
        name = f"{size}, {flight} in flight"
        seconds[name] = await rate(together, value, flight, budget)
        if size in SMALL or flight == 1:
            quantiles[name] = await latencies(single, value, flight, budget)
    return seconds


def emit(seconds: dict[str, float], details: dict[str, Any]) -> None:
    """Print the result as one line of JSON, which the harness reads."""
    print(json.dumps({"seconds": seconds, "details": details}), flush=True)
