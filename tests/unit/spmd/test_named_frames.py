"""Frames by name, between executors of different parallelism."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from craton.spmd import Environment, Executor
from craton.spmd.named import rows_for

FRAME = pd.DataFrame(
    {
        "n": np.arange(1000),
        "x": np.where(np.arange(1000) % 7 == 0, np.nan, np.arange(1000) / 3),
        "t": pd.array([None if n % 5 == 0 else f"t{n}" for n in range(1000)], dtype="str"),
        "c": pd.Categorical([["a", "b", None][n % 3] for n in range(1000)]),
        "d": pd.date_range("2020", periods=1000, tz="UTC"),
    },
    index=pd.Index(np.arange(1000)[::-1], name="label"),
)


def put_part(name: str, bounds: list[int], frame: Any, env: Environment) -> None:
    """Put the rows of a frame between two bounds."""
    env.store.put(name, frame[bounds[env.rank] : bounds[env.rank + 1]])


def take(name: str, env: Environment) -> Any:
    return env.store.get(name, timeout=20)


@pytest.mark.parametrize(("makers", "takers"), [(1, 1), (1, 3), (3, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "numpy"])
def test_frames_are_divided_among_those_that_take_them(
    begin: Callable[..., Executor], makers: int, takers: int, kind: str
) -> None:
    bounds = {1: [0, 1000], 2: [0, 0, 1000], 3: [0, 100, 700, 1000]}[makers]
    whole: Any = {
        "pandas": lambda: FRAME,
        "polars": lambda: pl.from_pandas(FRAME),
        "arrow": lambda: pa.Table.from_pandas(FRAME),
        "numpy": lambda: np.arange(3000.0).reshape(1000, 3),
    }[kind]()
    maker, taker = begin(makers), begin(takers)
    waiting = taker.run(take, f"frame {kind} {makers} {takers}")  # before it is put
    maker.run(put_part, f"frame {kind} {makers} {takers}", bounds, whole).results()
    parts = waiting.results()
    lengths = [len(part) for part in parts]
    expected = (
        np.diff(bounds) if makers == takers else [1000 * (r + 1) // takers - 1000 * r // takers for r in range(takers)]
    )
    assert lengths == list(expected)
    if kind == "pandas":
        pd.testing.assert_frame_equal(pd.concat(parts), whole)
    elif kind == "polars":
        assert pl.concat(parts).equals(whole)
    elif kind == "arrow":
        assert pa.concat_tables(parts).equals(whole)
    else:
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_parts_are_not_copied(begin: Callable[..., Executor]) -> None:
    maker, taker = begin(2), begin(1)
    maker.run(lambda env: env.store.put("large", np.full(1 << 20, env.rank))).results()

    def is_view(env: Environment) -> tuple[bool, int]:
        (part,) = [env.store.get("large", timeout=10)]
        return bool(part.flags.owndata), int(part.sum())

    assert taker.run(is_view).results() == [(True, 1 << 20)]  # of two parts one array is made
    assert maker.run(is_view).results() == [(False, 0), (False, 1 << 20)]


def test_a_later_frame_replaces_the_earlier_one(begin: Callable[..., Executor]) -> None:
    maker, taker = begin(2), begin(1)
    views = []
    for number in range(5):
        maker.run(lambda n, env: env.store.put("again", np.full(10, n)), number).results()
        views.append(taker.run(take, "again").results()[0])
    assert [int(one.sum()) for one in views] == [0, 20, 40, 60, 80]


def test_a_frame_that_nobody_puts(begin: Callable[..., Executor]) -> None:
    executor = begin(1)
    with pytest.raises(TimeoutError, match="no frame named 'missing' was put within 0"):
        executor.run(lambda env: env.store.get("missing", timeout=0.1)).results()
    executor.run(lambda env: env.store.put("there", np.zeros(3))).results()
    executor.run(lambda env: env.store.drop("there")).results()
    with pytest.raises(TimeoutError):
        executor.run(lambda env: env.store.get("there", timeout=0.1)).results()


def test_a_wait_for_a_frame_can_be_cancelled(begin: Callable[..., Executor]) -> None:
    executor = begin(2)
    waiting = executor.run(lambda env: env.store.get("never"))
    time.sleep(0.05)
    waiting.cancel()
    assert executor.run(lambda env: env.comm.allreduce(1)).results() == [2, 2]


def test_auxiliary_data_are_prepared_beside_the_program(begin: Callable[..., Executor]) -> None:
    """The example of the paper: two executors of different sizes work at the same time."""

    def process_auxiliary(env: Environment) -> None:
        keys = np.arange(env.rank, 50, env.world_size)
        env.store.put("auxiliary", pd.DataFrame({"k": keys, "weight": keys * 2}))

    def main(env: Environment) -> int:
        data = pd.DataFrame({"k": np.arange(100) % 50, "v": env.rank})
        auxiliary = pd.concat(env.comm.allgather(env.store.get("auxiliary", timeout=20)))
        return int(data.merge(auxiliary, on="k")["weight"].sum())

    first, second = begin(4), begin(2)
    running = second.run(main)
    first.run(process_auxiliary).results()
    assert running.results() == [2 * sum(range(0, 100, 2))] * 2


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("lengths", [[0], [3, 0, 4], [1, 1], [0, 0, 0], [10, 1, 2, 3]], ids=str)
def test_rows_are_divided_without_loss(size: int, lengths: list[int]) -> None:
    rows = [(part, row) for part, length in enumerate(lengths) for row in range(length)]
    found = [
        (part, row)
        for rank in range(size)
        for part, start, stop in rows_for(rank, size, lengths)
        for row in range(start, stop)
    ]
    assert found == rows
