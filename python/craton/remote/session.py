"""The session whose workers call functions: the program's, or else a hidden local session.

The hidden session is started when a function is first expected to run for long. It has one single-threaded worker for each core,
and lives until the program ends. While it starts, the program goes on making calls in this process.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from craton import forks
from craton.cluster.sessions import ClusterSession, Session, complete_arguments, current
from craton.schedule.tasks import Runner, Task, new_key
from craton.store.process import current_store
from craton.store.store import Store

__all__ = ["FunctionSession", "inside_worker", "running_piece", "start", "use_session_factory"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FunctionSession:
    """A runner of tasks, and the event loop that its methods are called in.

    Parameters
    ----------
    runner
        Runs tasks.
    loop
        The event loop; it runs in another thread.
    """

    runner: Runner
    loop: asyncio.AbstractEventLoop

    @property
    def workers(self) -> int:
        """The number of single-threaded tasks that run concurrently."""
        return max(sum(band.threads for band in self.runner.bands), 1)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def release(self, *keys: int) -> None:
        """Drop outputs, without waiting for it."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.runner.release, keys)


@dataclass(slots=True)
class _Hidden:
    """The hidden session of a process; `future` is done when it has started."""

    pid: int
    future: Future[FunctionSession]
    session: ClusterSession | None = None
    #: The store that its workers use.
    store: Store | None = None


_lock = forks.lock()
_hidden: _Hidden | None = None
_make: Callable[[], FunctionSession] | None = None
_worker = threading.local()


def inside_worker() -> bool:
    """Return whether this thread is running a piece."""
    return bool(getattr(_worker, "depth", 0))


class running_piece:
    """A context manager around the calls of a piece: functions that they call in turn are not sent to workers."""

    def __enter__(self) -> None:
        _worker.depth = getattr(_worker, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        _worker.depth -= 1


def use_session_factory(make: Callable[[], FunctionSession] | None) -> None:
    """Set the function that creates the hidden session, for tests; it is called in a new thread. ``None`` restores the default."""
    global _make, _hidden
    with _lock:
        _make, _hidden = make, None


def start(module: str = __name__) -> Future[FunctionSession]:
    """Return a future of the session; start the hidden session if there is no other. A failed start sets the future's exception.

    Parameters
    ----------
    module
        A module that the workers of a new hidden session import before their first piece.
    """
    global _hidden
    if _make is None:
        session = current()
        if session is not None and session.host != "embedded":
            return _done(session)
    with _lock:
        if _hidden is None or _hidden.pid != os.getpid() or _broken(_hidden):
            if _hidden is not None and _hidden.pid == os.getpid() and _hidden.session is not None:
                threading.Thread(target=_hidden.session.shutdown, name="craton-session-end", daemon=True).start()
            _hidden = _Hidden(os.getpid(), Future())
            thread = threading.Thread(target=_start, args=(_hidden, _make, module), name="craton-session", daemon=True)
            thread.start()
        return _hidden.future


def _done(session: Session) -> Future[FunctionSession]:
    future: Future[FunctionSession] = Future()
    future.set_result(FunctionSession(session.runner, session.call(_running_loop())))
    return future


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _broken(hidden: _Hidden) -> bool:
    if not hidden.future.done():
        return False
    if hidden.future.exception() is not None:
        return True
    if hidden.session is None:
        return hidden.future.result().loop.is_closed()
    return hidden.session.closed or hidden.store is not current_store()  # workers keep the store that they connected to


def _start(hidden: _Hidden, make: Callable[[], FunctionSession] | None, module: str) -> None:
    try:
        if make is not None:
            found = make()
        else:
            hidden.session = ClusterSession("local", complete_arguments(workers=_cores(), threads=1))
            atexit.register(_end, hidden)  # registered last, to run before the exit handler that kills processes
            found = _done(hidden.session).result()
            hidden.store = current_store()
            found.submit(_prepared(found.runner, module)).result()
    except BaseException as error:
        hidden.future.set_exception(error)
    else:
        hidden.future.set_result(found)


@dataclass(frozen=True, slots=True)
class _Preparation:
    """Work that imports the module of the pieces' body in a worker: the import takes longer than a piece."""

    module: str

    def run(self, inputs: Any, sink: Any) -> None:
        importlib.import_module(self.module)


async def _prepared(runner: Runner, module: str) -> None:
    tasks = [Task(new_key(), _Preparation(module), stage="imports") for _ in runner.bands]
    await runner.run(tasks)
    runner.release(task.key for task in tasks)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end(hidden: _Hidden) -> None:
    if hidden.pid == os.getpid() and hidden.session is not None:
        hidden.session.shutdown()
