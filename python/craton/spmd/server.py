"""The process that ranks are forked from, so that each begins with its libraries imported.

::

    executor's process ── requests ──> server ── fork ──> rank 0, rank 1, …
          └──────────────── channel and output of each rank ───┘

The server has one thread and runs no plans. When the process that started it ends, the socket closes, and the server ends all ranks. If the
server itself is killed, the system ends the ranks (parent-death signal). A rank that is stopped for seconds is killed, for the others
wait for it. The server adopts the orphans of its ranks (it is a subreaper), and ends them, so that nothing that a rank started outlives it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from typing import Any

from craton.fork_server.processes import close_all_but, end_with_parent, is_stopped, kill
from craton.fork_server.serving import ForkServer
from craton.spmd import rank

STOPPED = 4
"""Seconds after which a rank that was stopped (SIGSTOP) is killed. Its exit code is then that of the signal, which ends no process."""
_LOOKS = 1.0


class _RankServer(ForkServer):
    imported = ("craton.pandas", "craton.spmd.environment", "craton.comm.own", "pyarrow.compute")
    imported_later = (
        "craton.spmd.frames",
        "craton.plan.functions",
        "craton.lower.single_node",
        "craton.engine.run",
        "craton.engine.choice",
        "craton.kernel.run",
        "craton.pandas.core.execute",
        "craton.pandas.groupby.groupby",
        "craton.pandas.io.parquet",
    )

    def __init__(self, requests: int) -> None:
        super().__init__(requests)
        self._stopped: dict[int, int] = {}
        self._killed: set[int] = set()
        self._looked = 0.0

    def looked(self) -> None:
        """Kill ranks that have been stopped for a while: the others wait for them."""
        now = time.monotonic()
        if now - self._looked < _LOOKS:
            return
        self._looked = now
        # Looks are counted, not seconds: if this process was stopped with its ranks, by Ctrl-Z, it looks anew.
        self._stopped = {pid: self._stopped.get(pid, 0) + 1 for pid in self.running if is_stopped(pid)}
        hopeless = {pid for pid, looks in self._stopped.items() if looks * _LOOKS > STOPPED}
        self._killed |= hopeless
        kill(hopeless)

    def requested(self, request: bytes, fds: list[int]) -> None:
        """Fork a rank, or kill one."""
        what, *given = pickle.loads(request)
        if what == "kill":
            kill(self.running.intersection(given))  # the number of one that has ended may be that of another process
            return
        number, arguments = given
        server = os.getpid()

        def run() -> None:
            end_with_parent()
            if os.getppid() == server:
                close_all_but((0, 1, 2, *fds))
                rank.main(arguments, fds)

        self._say("started", number, self.fork(run, fds))

    def ended(self, pid: int, status: int) -> None:
        was_stopped = pid in self._killed
        self._killed.discard(pid)
        self._say("ended", pid, -signal.SIGSTOP if was_stopped else os.waitstatus_to_exitcode(status))

    def _say(self, *said: Any) -> None:
        with contextlib.suppress(OSError):  # the starter has ended; the next poll says so
            self.channel.send(pickle.dumps(said))


def main(requests: int) -> None:
    """Fork a rank for each request that comes through the socket `requests`, until it is closed."""
    _RankServer(requests).serve()
