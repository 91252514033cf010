"""Executors that the tests of a module share."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from waiting import COMMUNICATOR

from craton.spmd import Executor


@pytest.fixture(scope="module")
def ex() -> Iterator[Executor]:
    """Three ranks."""
    with Executor(3, communicator=COMMUNICATOR) as executor:
        yield executor


@pytest.fixture
def begin() -> Iterator[Callable[..., Executor]]:
    """A function that starts an executor, which ends with the test."""
    begun: list[Executor] = []

    def begin_one(parallelism: int, **more: object) -> Executor:
        begun.append(Executor(parallelism, **{"communicator": COMMUNICATOR, **more}))  # type: ignore[arg-type]
        return begun[-1]

    yield begin_one
    for executor in begun:
        executor.shutdown()
