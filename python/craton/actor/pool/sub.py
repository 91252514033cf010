"""A sub pool: a fresh process, started by its main pool as ``python -m craton.actor.pool.sub``.

It reads what it shall be from its standard input, which its main pool keeps open for as long as it lives; when that
ends, so does this process, whatever it is doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import importlib
import logging
import logging.config
import os
import pickle
import signal
import sys
import threading
from typing import Any, BinaryIO

from craton.actor.pool.base import Pool, answers
from craton.actor.wire.peers import Peers

STOPPED = 0


class SubActorPool(Pool):
    """A pool in a process of its own."""

    reports: bool = False
    """Whether the main pool wants to know of every actor, to make it again."""

    async def create_in_group(self, uid: Any, spec: bytes, strategy: Any, told: bool = False) -> tuple[str, bytes]:
        """Create an actor here."""
        if strategy is not None:
            address = strategy.get_allocated_address(self.config, {})
            if address != self.external_address:
                return await Peers.here().ask(self.main_address, "create", (uid, spec, strategy))
        uid = await self.create(uid, spec)
        if not told:
            await self.created(self.external_address, {uid: spec})
        return self.external_address, uid

    async def created(self, address: str, specs: dict[bytes, bytes]) -> None:
        """Tell the main pool."""
        if self.reports:
            await Peers.here().ask(self.main_address, "created", (address, specs))

    async def destroyed(self, uid: bytes) -> None:
        """Tell the main pool."""
        if self.reports:
            await Peers.here().ask(self.main_address, "destroyed", (self.external_address, uid))

    async def find(self, uid: bytes) -> str | None:
        """Ask the main pool."""
        return await Peers.here().ask(self.main_address, "find elsewhere", (uid, self.external_address))


@answers("stop")
async def _stop(pool: Any, _: Any) -> None:
    pool.loop.call_soon(pool.close)


@answers("configure")
async def _configure(pool: Any, config: Any) -> None:
    pool.config = config


def _die_with(parent: BinaryIO) -> None:
    # The main pool never writes again: this ends when it has gone, also when this process is busy or its loop stuck.
    with contextlib.suppress(OSError, ValueError):
        parent.read(1)
    os._exit(1)


def _die_with_parent_thread(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
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


async def _serve(given: dict[str, Any], report: BinaryIO) -> None:
    pool = SubActorPool(given["config"], given["index"])
    pool.reports = given["reports"]
    pool.listen()
    for number in (signal.SIGTERM,):
        pool.loop.add_signal_handler(number, pool.close)
    with report:
        report.write(pickle.dumps(("ready", pool.external_address)))
    await pool.join()
    for actor in list(pool.actors.values()):
        with contextlib.suppress(Exception):
            await actor.__pre_destroy__()


def main() -> None:
    """Run the process."""
    parent = os.fdopen(os.dup(0), "rb", buffering=0)
    given = pickle.load(os.fdopen(os.dup(0), "rb", buffering=0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    faulthandler.enable()
    _die_with_parent_thread(given["parent"])
    threading.Thread(target=_die_with, args=(parent,), name="parent", daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main pool's to handle
    report = os.fdopen(given["report"], "wb")
    try:
        sys.path[:] = given["path"]
        for name in given["modules"] or ():
            importlib.import_module(name)
        _logging(given["logging"])
        runner = asyncio.Runner(loop_factory=_loop_factory(given["use_uvloop"]))
    except BaseException as error:
        with report:
            report.write(pickle.dumps(("failed", f"{type(error).__name__}: {error}", None)))
        raise
    with runner:
        try:
            runner.run(_serve(given, report))
        except OSError as error:
            if not report.closed:
                with report:
                    report.write(pickle.dumps(("failed", str(error), error.errno)))
            raise
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(STOPPED)  # threads of actors are not waited for


def _loop_factory(use_uvloop: bool) -> Any:
    if not use_uvloop:
        return None
    import uvloop  # type: ignore[import-not-found]

    return uvloop.new_event_loop


if __name__ == "__main__":
    # Under its own name, so that there is one copy of what `answers` declares.
    from craton.actor.pool.sub import main as run

    run()
