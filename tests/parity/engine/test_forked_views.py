"""Views that a forked child has of the store's memory do not change, whatever the parent does with the store afterwards."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import pytest

import craton
import craton.pandas as pd
from craton.store import close_store

LIMIT = 64 << 20
ROWS = 1 << 20  # 8 MB per column: large enough to be read as a view; few of them fit into the store


@pytest.fixture
def store() -> Iterator[None]:
    close_store()
    with craton.option_context(memory_limit=LIMIT, small_rows=0):
        yield
    close_store()


def _filled(number: int) -> np.ndarray:
    return np.full(ROWS, float(number))


def _use_memory_again() -> None:
    """Drop all objects, and write twice as many bytes of other numbers as the store can hold."""
    gc.collect()
    for number in range(1000, 1000 + 2 * LIMIT // (8 * ROWS)):
        kept = craton.get(craton.put(_filled(number)))
        assert kept[7] == number
        del kept


def _sums(values: Any, seen: Any, go_on: Any, told: Any) -> None:
    told.put(float(values.sum()))
    seen.set()
    go_on.wait(60)
    told.put(float(values.sum()))


def _started(values: Any) -> tuple[Any, ...]:
    """A forked process that sums the values, waits, and sums them again."""
    context = multiprocessing.get_context("fork")
    seen, go_on, told = context.Event(), context.Event(), context.Queue()
    child = context.Process(target=_sums, args=(values, seen, go_on, told))
    child.start()
    assert seen.wait(60)
    return child, go_on, told


def test_a_view_that_only_a_child_has_is_not_written_over(store: None) -> None:
    values = craton.get(craton.put(_filled(3)))
    child, go_on, told = _started(values)
    del values
    _use_memory_again()
    go_on.set()
    assert (told.get(timeout=60), told.get(timeout=60)) == (3.0 * ROWS, 3.0 * ROWS)
    child.join()


def test_the_rows_of_a_plan_that_only_a_child_has(store: None) -> None:
    frame = pd.DataFrame({"x": _filled(2), "k": np.arange(ROWS) % 7})
    kept = frame[frame["k"] < 5].persist()
    column = kept["x"]
    expected = float(column.to_numpy().sum())
    child, go_on, told = _started(column)
    kept.unpersist()
    del frame, kept, column
    _use_memory_again()
    go_on.set()
    assert (told.get(timeout=120), told.get(timeout=120)) == (expected, expected)
    child.join()


def test_memory_is_used_again_when_the_last_child_has_ended(store: None) -> None:
    before = {thread.name for thread in threading.enumerate()}
    values = craton.get(craton.put(_filled(5)))
    started = [_started(values) for _ in range(3)]
    threads = [thread for thread in threading.enumerate() if thread.name == "craton-fork"]
    assert len(threads) == 3
    del values
    _use_memory_again()
    for child, go_on, told in started:
        go_on.set()
        assert [told.get(timeout=60) for _ in range(2)] == [5.0 * ROWS] * 2
        child.join()
    for thread in threads:  # each thread ends after its process has ended
        thread.join(60)
        assert not thread.is_alive()
    assert {thread.name for thread in threading.enumerate() if "craton" in thread.name} <= before | {"craton-fork"}
    # The store has room for as many views as before the forks.
    views = [craton.get(craton.put(_filled(number))) for number in range(LIMIT // (8 * ROWS) - 2)]
    assert [view[3] for view in views] == list(range(len(views)))


def test_a_child_of_a_child_keeps_what_it_sees(store: None) -> None:
    values = craton.get(craton.put(_filled(4)))
    ready, go_on = os.pipe(), os.pipe()
    told = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.fork() == 0:
                os.write(ready[1], b"x")
                os.read(go_on[0], 1)
                os.write(told[1], str(float(values.sum())).encode())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    os.read(ready[0], 1)
    del values
    _use_memory_again()
    os.write(go_on[1], b"x")
    assert float(os.read(told[0], 100)) == 4.0 * ROWS
    for end in (*ready, *go_on, *told):
        os.close(end)


def test_threads_that_fork_at_the_same_time(store: None) -> None:
    views = [craton.get(craton.put(_filled(number))) for number in range(4)]
    wrong: list[int] = []

    def fork(number: int) -> None:
        child = os.fork()
        if child == 0:
            os._exit(0 if views[number][5] == number else 1)
        if os.waitpid(child, 0)[1] != 0:
            wrong.append(number)

    for _ in range(10):
        threads = [threading.Thread(target=fork, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_nothing_is_held_for_a_child_where_nothing_is_read(store: None) -> None:
    craton.put(_filled(1))
    gc.collect()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert pandas.Series([1]).sum() == 1
