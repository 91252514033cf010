"""Checkpoints, and ranks that are started again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rank_programs import count
from waiting import none_runs, ranks_of_servers, wait_until

import craton.comm
from craton.comm.errors import RankFailed
from craton.spmd import Environment, Executor, ExecutorClosed, ResultLost


def count_to(last: int, folder: str, dies: dict[int, int], env: Environment) -> tuple[int, int, int]:
    """Count with checkpoints; a rank dies once at each of the numbers of `dies`."""
    n, total = env.restored or (0, 0)
    began = n
    while n < last:
        n += 1
        total += env.comm.allreduce(n + env.rank)
        mark = Path(folder) / f"{n}"
        if dies.get(n) == env.rank and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        env.checkpoint((n, total))
    return began, n, total


@pytest.mark.parametrize("dies", [{3: 0}, {3: 1, 7: 2}, {1: 2}], ids=str)
def test_a_call_continues_from_the_last_checkpoint(
    begin: Callable[..., Executor], tmp_path: Path, dies: dict[int, int]
) -> None:
    executor = begin(3, max_restarts=2)
    before = executor.pids
    found = executor.run(count_to, 10, str(tmp_path), dies).results(60)
    total = sum(3 * n + 3 for n in range(1, 11))
    assert found == [(max(dies) - 1, 10, total)] * 3
    assert not set(before) & set(executor.pids)
    wait_until(lambda: none_runs(before))


def test_restarts_are_counted(begin: Callable[..., Executor]) -> None:
    executor = begin(2, max_restarts=2)
    with pytest.raises(RankFailed, match="exit code 5"):
        executor.run(lambda env: os._exit(5) if env.rank == 1 else None).results(60)
    with pytest.raises(ExecutorClosed):
        executor.run(lambda: 1)


def test_objects_are_made_again_and_later_calls_are_made(begin: Callable[..., Executor], tmp_path: Path) -> None:
    class Solver:
        def __init__(self, scale: int, env: Environment) -> None:
            self.scale, self.values = scale, env.restored
            if self.values is None:
                self.values = np.zeros(3)

        def step(self, mark: str, env: Environment) -> float:
            self.values = self.values + self.scale * (env.rank + 1)
            env.checkpoint(self.values)
            if env.rank == 1 and mark and not os.path.exists(mark):
                open(mark, "w").close()
                os._exit(1)
            return float(self.values.sum())

    executor = begin(2, max_restarts=1)
    other = executor.start(dict, a=1)
    executor.start(Solver, 10)
    assert executor.execute("step", "").results() == [30, 60]
    large = executor.run(lambda: bytes(1 << 20))
    large.wait()
    failing = executor.execute("step", str(tmp_path / "mark"))
    later = executor.execute(lambda solver: float(solver.values[0]))
    # The second step was kept by its checkpoint before the rank died, so the call that is made again is the third.
    assert failing.results(60) == [90, 180]
    assert later.results(60) == [30, 60]
    assert other.execute("get", "a").results() == [1, 1]
    with pytest.raises((ResultLost, LookupError)):
        large.results()


def test_a_rank_that_dies_between_calls(begin: Callable[..., Executor]) -> None:
    executor = begin(2, max_restarts=1)
    executor.run(lambda env: env.checkpoint({"rank": env.rank})).results()
    pids = executor.pids
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: executor.pids and not set(executor.pids) & set(pids))
    assert executor.run(lambda env: env.restored).results(60) == [{"rank": 0}, {"rank": 1}]


def test_an_incomplete_checkpoint_is_not_restored(begin: Callable[..., Executor], tmp_path: Path) -> None:
    def save(mark: str, env: Environment) -> object:
        if env.restored is not None:
            return env.restored
        env.checkpoint("first")
        if env.rank == 0:
            while not os.path.exists(mark):
                time.sleep(0.005)
            time.sleep(0.05)
            os._exit(1)
        open(mark, "w").close()
        env.checkpoint("second")
        return None

    executor = begin(2, max_restarts=1)
    assert executor.run(save, str(tmp_path / "mark")).results(60) == ["first"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_kills(begin: Callable[..., Executor], seed: int) -> None:
    chance = random.Random(seed)
    executor = begin(3, max_restarts=1000)
    for _ in range(5):
        futures = executor.run(count, 300, 10)
        for _ in range(3):
            time.sleep(chance.random() * 0.3)
            pids = executor.pids
            with contextlib.suppress(ProcessLookupError, IndexError):  # it is being started again
                os.kill(chance.choice(pids), signal.SIGKILL)
        assert futures.results(120) == [300 * 301 // 2] * 3
        executor.run(lambda env: env.checkpoint(None)).results(60)


def test_an_executor_that_is_shut_down_while_it_starts_again(begin: Callable[..., Executor]) -> None:
    others = {*ranks_of_servers()}  # those of executors that other tests keep
    executor = begin(2, max_restarts=5)
    before = executor.pids
    os.kill(before[1], signal.SIGKILL)
    wait_until(lambda: not set(before) & set(executor.pids))
    executor.shutdown()
    wait_until(lambda: none_runs([pid for pid in ranks_of_servers() if pid not in others]))
    with pytest.raises(ExecutorClosed):
        executor.run(lambda: 1)


def saved(folder: str, last: int, dies_at: int, env: Environment) -> tuple[int, int]:
    """Count with checkpoints; the last rank ends at a number, always."""
    n = began = env.restored or 0
    while n < last:
        n += 1
        if n == dies_at and env.rank == env.world_size - 1:
            os._exit(3)
        env.checkpoint(n)
    return began, n


def test_a_later_executor_continues_from_a_folder(begin: Callable[..., Executor], tmp_path: Path) -> None:
    folder = tmp_path / "state"
    executor = begin(2, checkpoints=folder)
    with pytest.raises(RankFailed):
        executor.run(saved, "", 10, 5).results(60)
    assert executor.closed
    assert [path.name for path in folder.iterdir()] == ["checkpoint-000000004.craton"]
    later = begin(2, checkpoints=folder)
    assert later.run(saved, "", 10, 0).results(60) == [(4, 10)] * 2
    later.shutdown()
    # With another number of ranks, a program divides the states itself.
    other = begin(3, checkpoints=str(folder))
    assert other.run(lambda env: (env.restored, env.all_restored())).results(60) == [(None, [10, 10])] * 3


def test_a_folder_belongs_to_one_executor(begin: Callable[..., Executor], tmp_path: Path) -> None:
    executor = begin(1, checkpoints=tmp_path)
    with pytest.raises(BlockingIOError, match="another executor keeps its checkpoints there"):
        Executor(1, checkpoints=tmp_path)
    executor.shutdown()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Executor(1, checkpoints=tmp_path / "file")
    begin(1, checkpoints=tmp_path)


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "newer", "text"])
def test_damaged_checkpoints_are_refused(begin: Callable[..., Executor], tmp_path: Path, damage: str) -> None:
    executor = begin(2, checkpoints=tmp_path)
    executor.run(lambda env: env.checkpoint(np.arange(1000) + env.rank)).results(60)
    executor.shutdown()
    (path,) = tmp_path.iterdir()
    whole = bytearray(path.read_bytes())
    if damage == "changed":
        whole[len(whole) // 2] ^= 1
    elif damage == "newer":
        whole[8] = 9
    path.write_bytes({"empty": b"", "cut": whole[:-5], "text": b"hello" * 10}.get(damage, whole))
    with pytest.raises(ValueError, match="version 9" if damage == "newer" else "not a complete checkpoint: remove it"):
        Executor(2, checkpoints=tmp_path)
    path.unlink()
    assert begin(2, checkpoints=tmp_path).run(lambda env: env.restored).results(60) == [None, None]


def test_a_checkpoint_that_cannot_be_written(
    begin: Callable[..., Executor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(value: object, env: Environment) -> str:
        try:
            env.checkpoint(value)
        except OSError as error:
            return str(error)
        return "kept"

    executor = begin(2, checkpoints=tmp_path)
    assert executor.run(save, 1).results(60) == ["kept"] * 2

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("craton.spmd.checkpoints.os.fsync", full)
    assert executor.run(save, 2).results(60) == ["[Errno 28] No space left on device"] * 2
    monkeypatch.undo()
    executor.shutdown()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-000000001.craton"]
    assert begin(2, checkpoints=tmp_path).run(lambda env: env.restored).results(60) == [1, 1]


def test_it_goes_on_with_fewer_ranks(
    begin: Callable[..., Executor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a death only two ranks can be started; the program divides the states of three itself."""

    def work(folder: str, env: Environment) -> tuple[int, list[int]]:
        states = env.all_restored()
        if not states:
            env.checkpoint(env.rank * 10)
            if env.rank == 2:
                os._exit(3)
            env.barrier()
        return env.comm.allreduce(sum(states[env.rank :: env.world_size])), states

    executor = begin(3, max_restarts=1, min_parallelism=2)
    from craton.spmd import executor as module

    places_for = module.places_for

    def fewer(session: object, parallelism: int, without: int = -1) -> list[object]:
        if parallelism > 2:
            raise OSError("there is no third machine any more")
        return places_for(session, parallelism, without)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(module, "places_for", fewer)
    futures = executor.run(work, str(tmp_path))
    last = futures[2]
    assert futures.results(60) == [(30, [0, 10, 20])] * 2
    assert (len(futures), executor.parallelism) == (2, 2)
    with pytest.raises(RankFailed, match="goes on with 2 ranks"):
        last.result(60)
    assert executor.run(lambda env: env.world_size).results(60) == [2, 2]


def test_the_fewest_ranks_are_checked() -> None:
    with pytest.raises(ValueError, match="min_parallelism must be at most 2, the parallelism, not 3"):
        Executor(2, min_parallelism=3)
    with pytest.raises(ValueError, match="min_parallelism must be an integer of at least 1"):
        Executor(2, min_parallelism=0)


def test_ranks_over_another_communicator(begin: Callable[..., Executor], tmp_path: Path) -> None:
    """Calls, errors and restarts of ranks that UCX connects."""
    if "ucx" not in craton.comm.available():
        pytest.skip("UCX is not installed: pip install craton[ucx]")
    executor = begin(3, communicator="ucx", max_restarts=1)
    assert executor.run(lambda env: env.comm.allgather(env.rank)).results(60) == [[0, 1, 2]] * 3
    with pytest.raises(ZeroDivisionError):
        executor.run(lambda env: 1 // env.rank or env.barrier()).results(60)
    found = executor.run(count_to, 6, str(tmp_path), {4: 1}).results(60)
    assert found == [(3, 6, sum(3 * n + 3 for n in range(1, 7)))] * 3
