"""Executors of SPMD programs on the machines of sessions: local, Dask and Ray, on one machine and on several."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from craton.cluster.sessions import ClusterSession
from craton.comm.errors import RankFailed
from craton.spmd import Environment, Executor, frames, gather, scatter

pytestmark = pytest.mark.cluster


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition did not hold in time"
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Whether a process runs; the simulated machines are this one."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def machines(session: ClusterSession) -> int:
    return len({band.node for band in session.runner.bands})


def test_a_program_on_the_machines_of_the_session(session: ClusterSession, capfd: pytest.CaptureFixture[str]) -> None:
    def program(numbers: Any, env: Environment) -> tuple[int, str, int, float]:
        print("on rank", env.rank)
        print("error", file=sys.stderr)
        total = env.comm.allreduce(int(numbers.sum()) + env.rank)
        return env.rank, env.machine, env.local_rank, float(total)

    numbers = np.arange(300_000)
    with Executor(4) as ex:
        found = ex.run(program, numbers).results(60)
        pids = ex.pids
    count = machines(session)
    assert [one[0] for one in found] == [0, 1, 2, 3]
    assert [one[2] for one in found] == ([0, 1, 0, 1] if count == 2 else [0, 1, 2, 3])
    assert {one[3] for one in found} == {4.0 * int(numbers.sum()) + 6}
    shown = capfd.readouterr()
    for rank in range(4):
        assert f"[rank {rank}] on rank {rank}\n" in shown.out
        assert f"[rank {rank}] error\n" in shown.err
    wait_until(lambda: not any(runs(pid) for pid in pids))


def test_objects_large_results_and_errors(session: ClusterSession) -> None:
    class Solver:
        def __init__(self, size: int, env: Environment) -> None:
            self.values = np.full(size, float(env.rank))

        def mean(self, env: Environment) -> Any:
            return env.comm.allreduce(self.values) / env.world_size

    with Executor(2) as ex:
        ex.start(Solver, 200_000)
        for one in ex.execute("mean").results(60):
            np.testing.assert_array_equal(one, np.full(200_000, 0.5))
        with pytest.raises(ZeroDivisionError):
            ex.run(lambda env: env.rank or 1 // env.rank or env.barrier()).results(60)
        sleeping = ex.run(lambda: time.sleep(600))
        sleeping.cancel()
        assert ex.run(lambda env: env.comm.allgather(env.rank)).results(60) == [[0, 1]] * 2


def test_frames_and_named_frames(session: ClusterSession) -> None:
    left = pd.DataFrame({"k": np.arange(1000) % 50, "v": np.arange(1000.0)})
    right = pd.DataFrame({"k": np.arange(40), "w": np.arange(40) * 2})

    def make(part: pd.DataFrame, env: Environment) -> None:
        env.store.put("right", part)

    def join(part: pd.DataFrame, env: Environment) -> pd.DataFrame:
        other = env.store.get("right", timeout=30)
        return frames.merge(part, other, on="k", env=env, ordered=True)

    with Executor(2) as first, Executor(4) as second:
        running = second.run(join, scatter(left, second))
        first.run(make, scatter(right, first)).results(60)
        pd.testing.assert_frame_equal(gather(running), left.merge(right, on="k"))


def test_ranks_are_started_again(session: ClusterSession) -> None:
    def count(last: int, env: Environment) -> tuple[int, int]:
        n = began = env.restored or 0
        while n < last:
            n += env.comm.allreduce(1) // env.world_size
            env.checkpoint(n)
            if n == 5 and began == 0 and env.rank == env.world_size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return began, n

    with Executor(2, max_restarts=1) as ex:
        found = ex.run(count, 8).results(90)
    assert found in ([(5, 8)] * 2, [(4, 8)] * 2)


def test_the_end_of_a_rank_is_noticed(session: ClusterSession) -> None:
    with Executor(2) as ex:
        pids = ex.pids
        with pytest.raises(RankFailed, match="SIGKILL"):
            ex.run(lambda env: os.kill(os.getpid(), signal.SIGKILL) if env.rank == 1 else env.barrier()).results(60)
        assert ex.closed
        wait_until(lambda: not any(runs(pid) for pid in pids))


def test_ranks_end_with_the_session(begin: Callable[[], ClusterSession]) -> None:
    session = begin()
    executor = Executor(3)
    pids = executor.pids
    executor.run(lambda env: env.barrier()).results(60)
    running = executor.run(lambda: time.sleep(600))
    session.shutdown()
    assert executor.closed
    assert all(one.cancelled() for one in running)
    wait_until(lambda: not any(runs(pid) for pid in pids))


@pytest.mark.usefixtures("session")
def test_queries_and_programs_do_not_wait_for_each_other(session: ClusterSession) -> None:
    import craton.pandas as cpd

    frame = cpd.DataFrame({"k": np.arange(300_000) % 11, "v": np.arange(300_000)})
    with Executor(2) as ex:
        waiting = ex.run(lambda env: (time.sleep(0.3), env.barrier()))
        assert int(frame.groupby("k")["v"].sum().sum()) == 299_999 * 150_000
        waiting.results(60)
