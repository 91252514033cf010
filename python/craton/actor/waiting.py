"""A timeout that does not wait for cancellation to finish, and background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["in_background", "wait_for"]


async def wait_for(fut: Any, timeout: float | None = None) -> Any:
    """Await something with a timeout in seconds; when it expires, cancel it and raise `TimeoutError` immediately.

    Unlike `asyncio.wait_for`, it does not wait until the cancelled task has ended.
    """
    task = asyncio.ensure_future(fut)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        _give_up(task)
        raise
    if not done:
        _give_up(task)
        raise TimeoutError(f"not done within {timeout} s")
    return task.result()


def _give_up(task: asyncio.Future[Any]) -> None:
    task.cancel()
    task.add_done_callback(lambda late: None if late.cancelled() else late.exception())


def in_background(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    tasks: set[asyncio.Task[Any]],
    ignored: tuple[type[BaseException], ...] = (),
) -> asyncio.Task[Any]:
    """Run a coroutine as a task that is not awaited.

    The coroutine becomes the task directly, without a wrapper coroutine around it. If a wrapper were cancelled before its
    first step, the inner coroutine would never start, and CPython would warn that it was never awaited.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        The running loop, or one that runs in this thread.
    work : Coroutine
        The coroutine to run.
    tasks : set of asyncio.Task
        Holds the task until it has ended, because the event loop keeps only weak references to tasks.
    ignored : tuple of exception classes
        Exceptions to ignore. Any other goes to the loop's exception handler.
    """
    task = loop.create_task(work)
    tasks.add(task)

    def ended(task: asyncio.Task[Any]) -> None:
        tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ignored):
            loop.call_exception_handler(
                {"message": "a task in the background failed", "exception": error, "task": task}
            )

    task.add_done_callback(ended)
    return task
