"""Executors whose ranks are killed or stopped at random moments: the right answer, or a clear error in time, and nothing left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.spmd import Environment, Executor, ExecutorClosed, frames

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "spmd"))

from waiting import none_runs, ranks_of_servers, wait_until

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("CRATON_TEST_KILLS", "200"))
#: Seconds from a fault to the answer, or to the error.
IN_TIME = 10.0
#: Errors that say that a rank is gone.
CLEAR = (RankFailed, CommunicatorClosed, ExecutorClosed)


def count(last: int, env: Environment) -> int:
    """Add numbers, with checkpoints."""
    n, total = env.restored or (0, 0)
    while n < last:
        n += 1
        total += env.comm.allreduce(n)
        if n % 20 == 0:
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


PROGRAMS: list[tuple[Callable[..., Any], int, Callable[[int], Any]]] = [
    (count, 3000, lambda ranks: ranks * 3000 * 3001 // 2),
    (exchange, 120, lambda ranks: 120.0),
    (tables, 60_000, lambda ranks: expected_of_tables(60_000)),
]


@pytest.mark.parametrize("restarts", [True, False], ids=["restarts", "no restarts"])
def test_random_faults(restarts: bool) -> None:
    """Half of the runs each; a fault may also come while the ranks start, or when the call has ended."""
    chance = random.Random(int(restarts))
    seen = {"answer": 0, "error": 0}
    for number in range(RUNS // 2):
        ranks = chance.choice([2, 3, 4])
        program, size, right = chance.choice(PROGRAMS)
        how = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        what = f"run {number}: {program.__name__} on {ranks} ranks, {how.name}"
        executor = Executor(ranks, max_restarts=3 if restarts else 0)
        try:
            pids = executor.pids
            futures = executor.run(program, size)
            time.sleep(chance.random() * 0.5)
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(pids), how)
            began, text = time.monotonic(), ""
            try:
                assert futures.results(IN_TIME + 20) == [right(ranks)] * ranks, what
                seen["answer"] += 1
                in_time = IN_TIME + 10  # the work is done again, from the last checkpoint
            except CLEAR as error:
                text, in_time = str(error), IN_TIME
                seen["error"] += 1
            assert time.monotonic() - began < in_time, what
            assert text == "" or (not restarts and ("rank" in text or "closed" in text)), (what, text)
            pids = [*pids, *executor.pids]
        finally:
            executor.shutdown()
        wait_until(lambda pids=pids: none_runs(pids))
        wait_until(lambda: not ranks_of_servers())
        print(what, "answered in", round(time.monotonic() - began, 2), "s", flush=True)
    assert seen["answer"] > 0
    assert bool(seen["error"]) != restarts
