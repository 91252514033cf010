"""Calls of functions and methods on ranks: arguments, results, objects, and the environment."""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from waiting import none_runs

import craton
from craton.spmd import Environment, Executor, ExecutorClosed, RankFutures


def test_each_rank_is_a_process_and_gets_its_environment(ex: Executor) -> None:
    def describe(env: Environment) -> tuple[int, int, int, int]:
        return env.rank, env.world_size, env.local_rank, os.getpid()

    found = ex.run(describe).results()
    assert [one[:3] for one in found] == [(0, 3, 0), (1, 3, 1), (2, 3, 2)]
    assert [one[3] for one in found] == ex.pids
    assert os.getpid() not in ex.pids


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_meet(ranks: int, begin: Callable[..., Executor]) -> None:
    def total(number: int, env: Environment) -> int:
        env.barrier()
        return env.comm.allreduce(number + env.rank)

    expected = sum(10 + rank for rank in range(ranks))
    assert begin(ranks).run(total, number=10).results() == [expected] * ranks


def test_arguments_of_all_kinds(ex: Executor) -> None:
    captured = {"a": [1, 2]}

    def call(*args: object, key: object = None) -> object:
        return args, key, captured

    frame = pd.DataFrame({"x": [1.5, None], "t": ["a", None]})
    for (args, key, seen), expected in zip(ex.run(call, 1, frame, key="k").results(), [captured] * 3, strict=True):
        assert args[0] == 1
        pd.testing.assert_frame_equal(args[1], frame)
        assert (key, seen) == ("k", expected)


def test_env_is_given_only_where_it_is_a_parameter(ex: Executor) -> None:
    assert ex.run(lambda env: env, env=5).results() == [5] * 3
    assert ex.run(lambda env=None: env is None).results() == [False] * 3
    assert ex.run(lambda env: env, 7).results() == [7] * 3
    assert ex.run(lambda x, *, env: x + env.rank, 7).results() == [7, 8, 9]
    assert ex.run(os.getpid).results() == ex.pids
    assert ex.run(lambda **kwargs: sorted(kwargs)).results() == [[]] * 3


def test_large_results_stay_until_they_are_fetched(ex: Executor) -> None:
    large = ex.run(lambda env: np.full(500_000, env.rank))
    assert [int(one.sum()) for one in large.results()] == [0, 500_000, 1_000_000]
    assert large[2].result() is large[2].result()
    # As an argument they do not travel.
    own = ex.run(lambda values, env: (values.flags.owndata, int(values[0]) == env.rank), large).results()
    assert own == [(True, True)] * 3


def test_large_arguments_go_through_the_store(ex: Executor) -> None:
    values = np.arange(1_000_000)
    assert ex.run(lambda given: int(given.sum()), values).results() == [int(values.sum())] * 3
    kept = ex.run(lambda given: given, values)
    for one in kept.results():
        np.testing.assert_array_equal(one, values)


def test_results_are_released_with_the_last_reference(ex: Executor) -> None:
    def kept() -> list[int]:
        from craton.spmd.placeholders import kept_results

        return sorted(kept_results())

    made = ex.run(lambda: [1])
    one = made[1]
    number = made._call.number
    assert all(number in numbers for numbers in ex.run(kept).results())
    del made
    assert all(number in numbers for numbers in ex.run(kept).results())
    del one
    ex.run(kept).results()  # what was released before a call is gone in the next
    assert not any(number in numbers for numbers in ex.run(kept).results())


def test_results_live_until_the_calls_that_take_them_have_ended(ex: Executor) -> None:
    waits = ex.run(lambda: time.sleep(0.05))
    taken = ex.run(lambda one, other: one + other, ex.run(lambda env: env.rank), ex.run(lambda: 10))
    assert taken.results() == [10, 11, 12]
    assert waits.done()


def test_results_that_cannot_be_pickled_can_be_used_on_the_ranks(ex: Executor) -> None:
    locks = ex.run(threading.Lock)
    assert ex.run(lambda lock: lock.acquire(), locks).results() == [True] * 3
    with pytest.raises(TypeError, match="pickle"):
        locks.results()


def test_futures_of_another_executor_are_refused(ex: Executor, begin: Callable[..., Executor]) -> None:
    other = begin(3)
    with pytest.raises(ValueError, match="its own calls"):
        other.run(lambda value: value, ex.run(lambda: 1)).results()


def test_futures_work_with_the_standard_library(ex: Executor) -> None:
    futures = ex.run(lambda env: env.rank)
    assert sorted(one.result() for one in concurrent.futures.as_completed(futures)) == [0, 1, 2]
    assert futures.done()
    assert futures.exceptions() == [None] * 3
    assert len(futures) == 3
    assert [one.rank for one in futures[1:]] == [1, 2]
    assert repr(futures) == "<RankFutures: 0 done, 1 done, 2 done>"
    assert isinstance(futures, RankFutures)


def test_calls_are_made_in_order(ex: Executor) -> None:
    waiting = [ex.run(lambda n, env: (n, env.comm.allgather(n)), n) for n in range(20)]
    assert [one.results() for one in waiting] == [[(n, [n] * 3)] * 3 for n in range(20)]


def test_objects_keep_their_state(ex: Executor) -> None:
    class Counter:
        def __init__(self, start: int, env: Environment) -> None:
            self.n = start + env.rank

        def add(self, k: int) -> int:
            self.n += k
            return self.n

        def total(self, env: Environment) -> int:
            return env.comm.allreduce(self.n)

    first = ex.start(Counter, 10)
    assert ex.execute("add", 1).results() == [11, 12, 13]
    assert ex.execute(Counter.add, k=2).results() == [13, 14, 15]
    assert ex.execute("total").results() == [42] * 3
    second = ex.start(Counter, start=0)
    assert ex.execute(lambda counter, env: counter.n - env.rank).results() == [0] * 3
    assert first.execute("add", 0).results() == [13, 14, 15]
    assert second.execute("add", 5).results() == [5, 6, 7]


def test_a_constructor_that_raises(begin: Callable[..., Executor]) -> None:
    executor = begin(2)
    with pytest.raises(RuntimeError, match="start"):
        executor.execute("anything")
    with pytest.raises(ZeroDivisionError):
        executor.start(lambda env: 1 // env.rank)
    assert executor.run(lambda env: env.comm.allgather(env.rank)).results() == [[0, 1]] * 2


def test_random_numbers_differ_by_rank_and_not_by_run(begin: Callable[..., Executor]) -> None:
    def draw(env: Environment) -> tuple[float, float]:
        return env.rng.random(), float(np.random.random())

    first, second, other = (begin(3, seed=seed).run(draw).results() for seed in (1, 1, 2))
    assert first == second
    assert len({number for pair in first for number in pair}) == 6
    assert not {pair[0] for pair in first} & {pair[0] for pair in other}


def test_several_executors_at_once(begin: Callable[..., Executor]) -> None:
    executors = [begin(2, name="a", memory="64MiB"), begin(3, name="b"), begin(1)]
    assert [len(set(one.pids)) for one in executors] == [2, 3, 1]

    def gather(env: Environment) -> tuple[str, list[int], int]:
        return env.name, env.comm.allgather(env.rank), craton.options.memory_limit

    found = [one.run(gather) for one in executors]
    assert [[one[1] for one in each.results()] for each in found] == [[[0, 1]] * 2, [[0, 1, 2]] * 3, [[0]]]
    assert found[0].results()[0][0] == "a"
    assert found[0].results()[1][2] == 32 << 20


def test_ranks_have_their_share_of_the_processors(ex: Executor) -> None:
    from craton.cluster.hosts.base import cores

    assert ex.run(lambda: os.environ["POLARS_MAX_THREADS"]).results() == [str(max(cores() // 3, 1))] * 3


def test_ranks_see_the_programs_variables_folder_and_path(
    begin: Callable[..., Executor], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("A_VARIABLE", "here")
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    with open(f"{tmp_path}/a_module_of_the_program.py", "w") as file:
        file.write("def answer(env):\n    return 42 + env.rank\n")
    import importlib

    module = importlib.import_module("a_module_of_the_program")
    executor = begin(2)
    assert executor.run(lambda: (os.environ["A_VARIABLE"], os.getcwd())).results() == [("here", str(tmp_path))] * 2
    assert executor.run(module.answer).results() == [42, 43]


def test_plans_run_on_ranks(ex: Executor) -> None:
    def query(env: Environment) -> int:
        import craton.pandas as cpd

        frame = cpd.DataFrame({"k": np.arange(200_000) % 7, "v": np.arange(200_000)})
        return int(frame[frame["v"] > env.rank].groupby("k")["v"].sum().sum())

    expected = 199_999 * 200_000 // 2
    assert ex.run(query).results() == [expected, expected - 1, expected - 3]


def test_an_executor_that_was_shut_down(begin: Callable[..., Executor]) -> None:
    executor = begin(2)
    pids = executor.pids
    value = executor.run(lambda: 5)
    assert value.results() == [5, 5]
    executor.shutdown()
    executor.shutdown()
    assert none_runs(pids)
    assert executor.closed
    assert value.results() == [5, 5]
    with pytest.raises(ExecutorClosed, match="shut down"):
        executor.run(lambda: 5)


def test_ranks_end_with_the_session(begin: Callable[..., Executor]) -> None:
    craton.shutdown()
    with craton.init():
        executor = begin(2)
        pids = executor.pids
        assert executor.run(lambda: 1).results() == [1, 1]
    assert executor.closed
    assert none_runs(pids)


def test_ranks_end_with_the_last_reference() -> None:
    executor = Executor(2, communicator="own")
    pids = executor.pids
    executor.run(lambda: 1).results()
    del executor
    import gc

    gc.collect()
    assert none_runs(pids)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"parallelism": 0}, ValueError), ({"parallelism": True}, ValueError), ({"max_restarts": -1}, ValueError)],
)
def test_wrong_arguments(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Executor(**arguments)  # type: ignore[arg-type]


def test_an_environment_stays_on_its_rank(ex: Executor) -> None:
    with pytest.raises(TypeError, match="belongs to the rank"):
        ex.run(lambda env: env).results()
    assert ex.run(lambda env: repr(env).startswith(f"<Environment: rank {env.rank} of 3")).results() == [True] * 3


def test_what_cannot_be_pickled_is_refused_at_once(ex: Executor) -> None:
    with pytest.raises((TypeError, pickle.PicklingError)):
        ex.run(lambda lock: lock, threading.Lock())


def test_large_messages_in_both_directions_at_once(ex: Executor) -> None:
    made = [
        ex.run(lambda: np.zeros(100_000)) for _ in range(10)
    ]  # too small for the store, too large for a socket's buffer
    argument = np.ones(100_000)
    calls = [ex.run(lambda values: (time.sleep(0.005), float(values.sum()))[1], argument) for _ in range(20)]
    for one in made:
        assert all(len(values) == 100_000 for values in one.results(30))
    assert all(one.results(30) == [100_000.0] * 3 for one in calls)


class Total:
    """An array and a frame that calls change in place."""

    def __init__(self, size: int) -> None:
        self.array, self.frame = np.zeros(size), pd.DataFrame({"x": np.zeros(size)})

    def step(self, what: str) -> Any:
        self.array += 1
        self.frame["x"] += 1
        self.frame.iloc[0, 0] += 0
        return {
            "array": self.array,
            "frame": self.frame,
            "both": (self.array, [self.frame["x"], {"a": self.array[1:]}]),
        }[what]


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("what", ["array", "frame", "both"])
def test_results_do_not_change_after_the_call(ex: Executor, size: int, what: str) -> None:
    totals = ex.start(Total, size)
    steps = [totals.execute("step", what) for _ in range(5)]
    later = [ex.run(lambda value: value, step) for step in steps]
    totals.execute("step", what).wait()
    for number, both in enumerate(zip(steps, later, strict=True), 1):
        for futures in both:
            for value in futures.results():
                parts = [value] if what != "both" else [value[0], value[1][0], value[1][1]["a"]]
                for part in parts:
                    assert set(np.unique(np.asarray(part))) == {number}, (number, what)


@pytest.mark.parametrize("size", [10, 3_000, 100_000, 1_000_000])
def test_arguments_do_not_change_after_the_call(ex: Executor, size: int) -> None:
    def look(array: Any, frame: Any, box: Any) -> set[float]:
        time.sleep(0.02)
        return {*np.unique(array), *np.unique(frame["x"]), *np.unique(box["a"][0])}

    array, frame, box = np.zeros(size), pd.DataFrame({"x": np.zeros(size)}), {"a": [np.zeros(size)]}
    calls = []
    for number in range(5):
        array[:] = number
        frame.loc[:, "x"] = float(number)
        box["a"][0][:] = number
        calls.append(ex.run(look, array, frame, box))
    array[:] = frame.loc[:, "x"] = box["a"][0][:] = 99
    assert [one.results() for one in calls] == [[{float(number)}] * ex.parallelism for number in range(5)]


def test_an_argument_that_changes_is_the_same_when_the_call_is_made_again(
    begin: Callable[..., Executor], tmp_path: Path
) -> None:
    def die_once(array: Any, mark: str, env: Environment) -> float:
        if env.rank == 0 and not os.path.exists(mark):
            open(mark, "w").close()
            time.sleep(0.2)
            os._exit(1)
        env.barrier()
        return float(array.max())

    executor = begin(2, max_restarts=1)
    array = np.zeros(1000)
    futures = executor.run(die_once, array, str(tmp_path / "mark"))
    array[:] = 5
    assert futures.results(60) == [0.0, 0.0]
