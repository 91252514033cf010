"""A sub pool: a fresh process, started by its main pool as ``python -m craton.actor.pool.sub``.

It reads its configuration from its standard input, which the main pool's process keeps open for as long as it runs. At
the end of that input this process exits, even if it is busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import importlib
import importlib.util
import logging
import logging.config
import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from craton.actor.pool import forks  # noqa: F401 (for what it registers)
from craton.actor.pool.base import TIDY, Pool, request_handler
from craton.actor.pool.processes import LENGTH
from craton.actor.pool.recreation import PendingRecreation, recreating
from craton.actor.wire.peers import Peers

# Seconds that actors have for their `__pre_destroy__` when SIGTERM ends the process, and not the main pool.
_STOP_TIMEOUT = 3.0


class SubActorPool(Pool):
    """A pool in a separate process, supervised by the main pool."""

    reports: bool = False
    """Whether to report created and destroyed actors to the main pool, which recreates them after a crash."""
    end: Callable[[], None]
    """Start a graceful stop; the main pool kills the process if it takes too long."""

    async def create_in_group(self, uid: Any, spec: bytes, strategy: Any, recorded: bool = False) -> tuple[str, bytes]:
        """Create an actor: in this pool without a strategy, else through the main pool, which has the group's state."""
        if strategy is not None:
            return await Peers.here().ask(self.main_address, "create", (uid, spec, strategy))
        await self.wait_recreated(uid)
        uid = await self.create(uid, spec)
        if not recorded:
            await self.created(self.external_address, {uid: spec})
        return self.external_address, uid

    async def created(self, address: str, specs: dict[bytes, bytes]) -> None:
        """Report created actors to the main pool, if it recreates actors."""
        if self.reports:
            await Peers.here().ask(self.main_address, "created", (address, specs))

    async def destroyed(self, uid: bytes) -> None:
        """Report a destroyed actor to the main pool, if it recreates actors."""
        if self.reports:
            await Peers.here().ask(self.main_address, "destroyed", (self.external_address, uid))

    async def find(self, uid: bytes) -> str | None:
        """Return the address of the other pool of the group that has an actor, from the main pool; None if none has."""
        return await Peers.here().ask(self.main_address, "find elsewhere", (uid, self.external_address))

    async def recreate(self, uid: bytes, spec: bytes) -> None:
        """Recreate an actor of this process's predecessor."""
        recreating.set(True)
        try:
            await self.create(uid, spec)
        finally:
            if self.recreation is not None:
                self.recreation.recreated(uid)

    async def finish(self, timeout: float | None) -> None:
        """Destroy the actors, with a timeout in seconds, and stop serving."""
        self.stopped = True  # no more actors can be created
        await self.pre_destroy_all(timeout)
        running = [*self._running.values(), *self._tasks]
        self.close()
        if others := [task for task in running if task is not asyncio.current_task()]:
            await asyncio.wait(others, timeout=TIDY)


@request_handler("recreate")
async def _recreate(pool: Any, value: Any) -> None:
    await pool.recreate(*value)


@request_handler("all recreated")
async def _all_recreated(pool: Any, _: Any) -> None:
    if pool.recreation is not None:
        pool.recreation.all_recreated()


@request_handler("stop")
async def _stop(pool: Any, _: Any) -> None:
    pool.end()


@request_handler("configure")
async def _configure(pool: Any, config: Any) -> None:
    pool.config = config


def _die_with(parent: int, pipe: BinaryIO) -> None:
    """Make this process end when its main pool's process ends, even if this one is busy or its event loop is blocked.

    On Linux, the kernel kills it (parent-death signal). Besides, a thread waits for the end of the parent process and of
    the pipe to it; the pipe alone is not enough, because other children of the parent may have inherited it.
    """
    poller = select.poll()
    poller.register(pipe, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        try:
            poller.register(os.pidfd_open(parent), select.POLLIN)
        except ProcessLookupError:
            os._exit(1)
        except OSError:
            pass
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() == 1 != parent:
        os._exit(1)
    threading.Thread(target=_wait_for, args=(poller,), name="parent", daemon=True).start()


def _wait_for(poller: Any) -> None:
    poller.poll()  # the main pool has written everything, so this returns only at its end
    os._exit(1)


def _logging(conf: dict[str, Any] | None) -> None:
    if not conf:
        return
    if conf.get("file"):
        logging.config.fileConfig(conf["file"])
    elif conf.get("dict"):
        logging.config.dictConfig(conf["dict"])
    else:
        logging.basicConfig(level=conf.get("level"), format=conf.get("format"))  # type: ignore[arg-type]


def _import_path(path: list[str | None]) -> None:
    if path[:1] == [None]:
        sys.path.extend(entry for entry in path if entry is not None and entry not in sys.path)
    else:
        sys.path[:] = path  # type: ignore[assignment]


def _send_report(report: BinaryIO, *fields: Any) -> None:
    text = pickle.dumps(fields)
    with report:
        report.write(LENGTH.pack(len(text)) + text)


async def _serve(given: dict[str, Any], report: BinaryIO) -> None:
    pool = SubActorPool(given["config"], given["index"])
    pool.reports = given["reports"]
    pool.recreation = PendingRecreation(pool) if given["recreates"] else None
    try:
        pool.listen()
    except OSError as error:
        _send_report(report, "failed", str(error), error.errno)
        os._exit(1)
    Peers.here().home = pool.main_address
    ended: asyncio.Queue[float | None] = asyncio.Queue()
    pool.end = functools.partial(ended.put_nowait, None)
    pool.loop.add_signal_handler(signal.SIGTERM, ended.put_nowait, _STOP_TIMEOUT)
    _send_report(report, "ready", pool.external_address)
    await pool.finish(await ended.get())


def main() -> None:
    """Run the process."""
    # A terminal sends Ctrl-C (SIGINT) to all processes of the group; only the main pool's process handles it. The signal
    # was blocked when this process was started; see `ProcessThread`.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = os.fdopen(os.dup(0), "rb", buffering=0)
    with os.fdopen(os.dup(0), "rb") as text:  # buffered, because a pipe returns short reads
        given = pickle.load(text)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.set_inheritable(given["report"], False)
    faulthandler.enable(all_threads=False)
    _die_with(given["parent"], parent)
    report = os.fdopen(given["report"], "wb")
    try:
        _import_path(given["path"])
        for name in given["modules"] or ():
            importlib.import_module(name)
        _logging(given["logging"])
        runner = asyncio.Runner(loop_factory=_loop_factory(given["use_uvloop"]))
        runner.get_loop()
    except BaseException as error:
        _send_report(report, "failed", f"{type(error).__name__}: {error}", None)
        raise
    runner.run(_serve(given, report))
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)  # without waiting for threads that actors have started


def _loop_factory(use_uvloop: bool | str) -> Any:
    if not use_uvloop or (use_uvloop == "auto" and importlib.util.find_spec("uvloop") is None):
        return None
    import uvloop  # type: ignore[import-not-found]

    return uvloop.new_event_loop


if __name__ == "__main__":
    # Import this module under its own name: as `__main__`, it would be a second copy and register its handlers twice.
    from craton.actor.pool.sub import main as run

    run()
