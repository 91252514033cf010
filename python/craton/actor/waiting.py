"""A limit of time that does not wait for what it limits."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["wait_for"]


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
