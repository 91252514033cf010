"""Background tasks that are cancelled at any moment, fail, or raise ignored exceptions."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import pytest

from craton.actor.waiting import in_background


@pytest.mark.parametrize("steps", range(4))
def test_cancelled_at_any_step_it_leaves_nothing_unawaited(steps: int) -> None:
    unraised: list[Any] = []
    begun: list[int] = []

    async def message() -> None:
        begun.append(0)
        await asyncio.sleep(0)
        begun.append(1)
        await asyncio.sleep(60)

    async def main() -> None:
        tasks: set[asyncio.Task[Any]] = set()
        task = in_background(asyncio.get_running_loop(), message(), tasks)
        assert tasks == {task}
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        await asyncio.sleep(0)
        assert not tasks

    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        asyncio.run(main())
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert len(begun) == min(steps, 2)
    assert not unraised


def test_ignored_and_reported_exceptions() -> None:
    told: list[BaseException] = []

    async def fails(error: Exception) -> None:
        raise error

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        tasks: set[asyncio.Task[Any]] = set()
        for error in (ConnectionResetError("gone"), KeyError("x"), ValueError("y")):
            in_background(loop, fails(error), tasks, (ConnectionError, KeyError))
        await asyncio.wait(set(tasks))
        await asyncio.sleep(0)
        assert not tasks

    asyncio.run(main())
    assert [str(error) for error in told] == ["y"]
