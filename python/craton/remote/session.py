"""Where functions run: the workers of the session; without one, of a hidden local one.

The hidden session is started when the first function would run for long, has as many workers of one thread as there are
cores, and is kept until the program ends. While it starts, the program goes on with the rows here.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from craton.schedule.tasks import Runner

__all__ = ["Session", "inside_worker", "start", "use"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """Workers, and the event loop that speaks with them.

    Parameters
    ----------
    runner
        Runs tasks.
    loop
        Runs in another thread.
    """

    runner: Runner
    loop: asyncio.AbstractEventLoop

    @property
    def workers(self) -> int:
        """How many tasks of one thread run beside each other."""
        return max(sum(band.threads for band in self.runner.bands), 1)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)


_lock = threading.Lock()
_starting: tuple[int, Future[Session]] | None = None
_make: Callable[[], Session] | None = None
_worker = threading.local()


def inside_worker() -> bool:
    """Whether this thread runs a piece of a function for another process."""
    return bool(getattr(_worker, "depth", 0))


class serving:
    """A block of a thread that runs a piece: functions in it are not spread further."""

    def __enter__(self) -> None:
        _worker.depth = getattr(_worker, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        _worker.depth -= 1


def use(make: Callable[[], Session] | None) -> Callable[[], Session] | None:
    """Have sessions made by a function; return what made them before.

    Parameters
    ----------
    make
        Called in a thread of its own when a session is first needed; ``None`` for what is usual.
    """
    global _make, _starting
    with _lock:
        before, _make, _starting = _make, make, None
    return before


def start() -> Future[Session]:
    """The session, when it is there: a future that has it, or tells why it could not be started."""
    global _starting
    with _lock:
        if _starting is None or _starting[0] != os.getpid() or _broken(_starting[1]):
            future: Future[Session] = Future()
            _starting = os.getpid(), future
            threading.Thread(target=_start, args=(future, _make), name="craton-session", daemon=True).start()
        return _starting[1]


def _broken(future: Future[Session]) -> bool:
    if not future.done():
        return False
    return future.exception() is not None or future.result().loop.is_closed()


def _start(future: Future[Session], make: Callable[[], Session] | None) -> None:
    try:
        session = (make or _local)()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(session)


def _local() -> Session:
    raise NotImplementedError
