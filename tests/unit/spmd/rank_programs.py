"""Programs of executors that tests disturb: whatever happens, their answers are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from craton.spmd import Environment, frames


def count(last: int, every: int, env: Environment) -> int:
    """Add numbers together, with a checkpoint after every few of them; the number of ranks may change."""
    n, total = env.restored or (0, 0)
    while n < last:
        n += 1
        total += env.comm.allreduce(n) // env.world_size
        if n % every == 0:
            env.checkpoint((n, total))
    return total


def exchange(rounds: int, env: Environment) -> float:
    """Exchange arrays of many sizes; each rank checks what it gets."""
    done = env.restored or 0
    for number in range(done, rounds):
        size = (number * 7919) % 300_000 + 1
        given = [np.full(size + to, 1000 * env.rank + to + number, np.int64) for to in range(env.world_size)]
        for source, got in enumerate(env.comm.alltoall(given)):
            assert len(got) == size + env.rank
            assert (got == 1000 * source + env.rank + number).all()
        if number % 10 == 9:
            env.checkpoint(number + 1)
    return float(rounds)


def tables(rows: int, env: Environment) -> list[int]:
    """Join, group and sort frames."""
    numbers = np.arange(env.rank * rows // env.world_size, (env.rank + 1) * rows // env.world_size)
    left = pd.DataFrame({"key": numbers * 7919 % (rows // 3), "x": numbers % 1000})
    right = pd.DataFrame({"key": numbers * 31 % (rows // 2), "text": (numbers % 77).astype(str)})
    joined = frames.merge(left, right, on="key", env=env)
    groups = frames.groupby(joined, "text", env=env).agg(total=("x", "sum"), rows=("key", "count"))
    ordered = frames.sort_values(joined, ["x", "key", "text"], ignore_index=True, env=env)
    return [
        int(frames.sum(groups["total"], env=env)),
        int(frames.sum(groups["rows"], env=env)),
        int(frames.count(ordered["x"], env=env)),
    ]


def expected_of_tables(rows: int) -> list[int]:
    numbers = np.arange(rows)
    left = pd.DataFrame({"key": numbers * 7919 % (rows // 3), "x": numbers % 1000})
    joined = left.merge(pd.DataFrame({"key": numbers * 31 % (rows // 2)}), on="key")
    return [int(joined["x"].sum()), len(joined), len(joined)]


#: Programs, their arguments, and what each rank returns.
PROGRAMS: list[tuple[Callable[..., Any], tuple[int, ...], Any]] = [
    (count, (3000, 20), 3000 * 3001 // 2),
    (exchange, (120,), 120.0),
    (tables, (60_000,), expected_of_tables(60_000)),
]
