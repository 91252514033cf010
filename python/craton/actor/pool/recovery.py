"""Supervises the process of a sub pool: detects its end, records how it ended, and restarts it with backoff."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from craton.actor.errors import ActorPoolNotStarted, ServerClosed
from craton.actor.pool.processes import Process

if TYPE_CHECKING:
    from craton.actor.pool.main import MainActorPool

logger = logging.getLogger("craton.actor")

# The first and the longest pause, in seconds, before starting again a process that failed to start.
_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# Attempts to start a process before its sub pool is given up.
_TRIES = 8
# Seconds to wait for the end of a process whose connections have ended.
_DYING = 0.5
# How many ended processes of one sub pool are remembered.
_REMEMBERED = 32


def raise_if_cancelled() -> None:
    """Raise if the current task was cancelled.

    Needed after a call of another pool: if its answer arrives although the caller was cancelled, the call returns that
    answer and does not raise.

    Raises
    ------
    asyncio.CancelledError
        The task was cancelled.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class SubPoolMonitor:
    """Supervises one sub pool.

    Attributes
    ----------
    lost : bool
        Whether its process has ended and will not be restarted.
    """

    def __init__(self, pool: MainActorPool, process: Process) -> None:
        self._pool, self._process, self.address = pool, process, process.address
        self.lost = False
        # A restarted process whose actors are still being recreated.
        self._starting: Process | None = None
        self._exit_reports: OrderedDict[int, tuple[str, int | None]] = OrderedDict()
        self._serves = asyncio.Event()
        self._serves.set()
        self._ended = asyncio.Event()
        self._expected = False
        self._task = pool.loop.create_task(self._supervise())

    @property
    def recovering(self) -> bool:
        """Whether its process has ended and is being restarted."""
        return not self.lost and not self._serves.is_set()

    async def _supervise(self) -> None:
        try:
            while True:
                await self._process.wait()
                self._record_exit()
                if not self._pool.auto_recover:
                    break
                try:
                    self._process = await self._restart()
                except Exception:
                    logger.exception("The sub pool at %s could not be restarted", self.address)
                    break
                self._ended.clear()
                # Start the user's callback before waking the callers of `recovered`.
                self._pool.notify(False, self.address)
                self._serves.set()
            self._pool.sub_processes.pop(self.address, None)
            self.lost = True
            self._serves.set()
        except asyncio.CancelledError:
            if not self._expected:
                self.abandon()
            self._ended.set()
            self._serves.set()
            raise

    def _record_exit(self) -> None:
        process = self._process
        self._remember(process)
        self._serves.clear()
        self._ended.set()
        process.close()
        self._pool.notify(True, self.address)

    def _remember(self, process: Process) -> None:
        if process.pid in self._exit_reports:
            return
        how = process.how_it_ended()
        self._exit_reports[process.pid] = (
            f"the process of the pool at {self.address} (pid {process.pid}) {how}",
            process.returncode,
        )
        while len(self._exit_reports) > _REMEMBERED:
            self._exit_reports.popitem(last=False)
        logger.warning("The process of the sub pool at %s (pid %d) %s", self.address, process.pid, how)

    async def _start_once(self) -> Process:
        process = self._starting = await self._pool.restart(self.address)
        self._exit_reports.pop(process.pid, None)  # that of an earlier process with the same pid
        try:
            await self._pool.recreate_actors(self.address)
        except BaseException:
            self._starting = None
            if not process.is_alive():
                self._remember(process)
            process.end()
            raise
        self._starting = None
        self._pool.sub_processes[self.address] = process
        return process

    async def _restart(self) -> Process:
        pause = _PAUSE
        for tried in range(1, _TRIES + 1):
            try:
                return await self._start_once()
            except (OSError, RuntimeError, ActorPoolNotStarted) as error:
                # The port may be taken only for a moment, and what killed the process may be transient.
                hopeless = isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.EACCES)
                if tried == _TRIES or hopeless:
                    raise
                logger.warning("The sub pool at %s will be restarted again in %g s: %s", self.address, pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError

    # ---- requests ----

    async def recovered(self) -> None:
        """Wait until the sub pool serves.

        Raises
        ------
        ServerClosed
            Its process has ended and will not be restarted.
        """
        while not (self.lost or self._expected):
            if not self._process.is_alive():
                await self._ended.wait()
            await self._serves.wait()
            if self._process.is_alive():
                return
        why, code = next(reversed(self._exit_reports.values()), (f"the pool at {self.address} has ended", None))
        raise ServerClosed(why, self.address, code)

    async def exit_report(self, pid: int | None) -> tuple[str, int | None] | None:
        """Return how the process with a pid ended, or for None the last one if none runs; None if it has not ended.

        Returns
        -------
        tuple or None
            A description for error messages, and the exit status.
        """
        starting = self._starting
        if starting is not None and pid == starting.pid:
            with contextlib.suppress(TimeoutError):
                await starting.wait(_DYING)
                self._remember(starting)
        elif pid in (None, self._process.pid) and not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _DYING)
        if pid is not None:
            return self._exit_reports.get(pid)
        return next(reversed(self._exit_reports.values())) if self._ended.is_set() else None

    async def kill(self) -> None:
        """Kill the process, and wait until its end has been recorded."""
        if self._starting is not None:
            starting = self._starting
            starting.kill()
            await starting.wait()
            return
        if self._ended.is_set():
            return
        self._process.kill()
        await self._ended.wait()

    async def stop_supervising(self) -> None:
        """Stop supervising: the caller is about to end the process, so its end is no failure."""
        self._expected = True
        self._task.cancel()
        await asyncio.wait({self._task})

    def abandon(self) -> None:
        """Stop supervising, and kill the process."""
        self._expected = True
        self._task.cancel()
        self._process.end()
