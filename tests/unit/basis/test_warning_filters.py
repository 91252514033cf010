"""Raising or ignoring warnings in one thread does not affect other threads, nor the process afterwards."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import craton
import craton.pandas as pd
from craton import warning_filters


def test_blocks() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with warning_filters.raising():
            with pytest.raises(FutureWarning, match="one"):
                warnings.warn("one", FutureWarning, stacklevel=1)
            with warning_filters.ignoring():
                warnings.warn("two", FutureWarning, stacklevel=1)
            with pytest.raises(UserWarning, match="three"):
                warnings.warn("three", UserWarning, stacklevel=1)
        warnings.warn("four", UserWarning, stacklevel=1)
    assert [str(one.message) for one in told] == ["four"]


@pytest.mark.parametrize(
    "spoil", [warnings.resetwarnings, lambda: warnings.simplefilter("ignore")], ids=["reset", "ignored"]
)
def test_filters_of_the_user_in_front(spoil: Callable[[], None]) -> None:
    with warnings.catch_warnings():
        with warning_filters.raising():
            pass
        spoil()
        with warning_filters.raising(), pytest.raises(UserWarning):
            warnings.warn("one", UserWarning, stacklevel=1)


def test_filters_that_are_sent_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(warning_filters._OWN))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filters[:0] = sent  # type: ignore[attr-defined]
        with warning_filters.raising(), pytest.raises(UserWarning):
            warnings.warn("one", UserWarning, stacklevel=1)
        warnings.warn("two", UserWarning, stacklevel=1)
    assert [str(one.message) for one in told] == ["two"]
    assert [one[1].pattern for one in sent] == [one[1].pattern for one in warning_filters._OWN]


def _meanwhile(block: Callable[[], None], other: Callable[[], None]) -> None:
    """Run `other` while another thread is inside the context `block`; that thread leaves the context last."""
    inside, left = threading.Event(), threading.Event()

    def first() -> None:
        with block():  # type: ignore[attr-defined]
            inside.set()
            left.wait(30)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(30)
    try:
        other()
    finally:
        left.set()
        thread.join(30)


@pytest.mark.parametrize("block", [warning_filters.raising, warning_filters.ignoring])
def test_another_thread_warns_as_ever(block: Callable[[], None]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _meanwhile(block, lambda: warnings.warn("one", UserWarning, stacklevel=1))
        assert [str(one.message) for one in told] == ["one"]
        warnings.warn("two", UserWarning, stacklevel=1)
        assert len(told) == 2


def test_programs_in_several_threads_leave_the_filters() -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            start.wait(30)
            for i in range(30):
                frame = pd.DataFrame({"k": np.arange(50) % (number + 2), f"x{number}_{i}": np.arange(50.0)})
                frame.groupby("k").agg(["sum", "max"]).sum().sum()
                frame.rename(columns=str).astype({"k": "int32"})["k"].clip(1, 2).sum()
                warnings.warn("told", UserWarning, stacklevel=1)
        except BaseException as error:
            errors.append(error)

    with warnings.catch_warnings(record=True) as told, craton.option_context(small_rows=0):
        warnings.simplefilter("always")
        before = [one for one in warnings.filters if one not in warning_filters._OWN]
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one for one in warnings.filters if one not in warning_filters._OWN] == before
    assert not errors
    assert sum(str(one.message) == "told" for one in told) == 120
