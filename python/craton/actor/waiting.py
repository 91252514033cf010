"""A limit of time that does not wait for what it limits, and tasks that nobody awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["in_background", "wait_for"]


async def wait_for(fut: Any, timeout: float | None = None) -> Any:
    """Await something for at most some seconds; then it is cancelled, and `TimeoutError` raised at once.

    Unlike `asyncio.wait_for`, it does not wait for the cancellation to be done.
    """
    task = asyncio.ensure_future(fut)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        _give_up(task)
        raise
    if not done:
        _give_up(task)
        raise TimeoutError(f"nothing within {timeout} s")
    return task.result()


def _give_up(task: asyncio.Future[Any]) -> None:
    task.cancel()
    task.add_done_callback(lambda late: None if late.cancelled() else late.exception())


def in_background(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    tasks: set[asyncio.Task[Any]],
    passed_over: tuple[type[BaseException], ...] = (),
) -> asyncio.Task[Any]:
    """Run a coroutine as a task that nobody awaits.

    The coroutine itself is the task. Within another that awaits it, it would stay without its first step where the task is
    cancelled before its own, and CPython warns of that.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        The running loop, or one that runs in this thread.
    work : Coroutine
        What is to be done.
    tasks : set of asyncio.Task
        Where the task is kept until it has ended: the loop holds tasks by weak references only.
    passed_over : tuple of exception classes
        Exceptions that mean nothing. Any other goes to the loop's exception handler.
    """
    task = loop.create_task(work)
    tasks.add(task)

    def ended(task: asyncio.Task[Any]) -> None:
        tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, passed_over):
            loop.call_exception_handler(
                {"message": "a task in the background failed", "exception": error, "task": task}
            )

    task.add_done_callback(ended)
    return task
