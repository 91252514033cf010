"""The process that ranks are forked from, so that each begins with its libraries imported.

::

    executor's process ── requests ──> server ── fork ──> rank 0, rank 1, …
          └──────────────── channel and output of each rank ───┘

The server has one thread and runs no plans. When the process that started it ends, the socket closes, and the server ends all ranks. If the
server itself is killed, the system ends the ranks (parent-death signal). The server adopts the orphans of its ranks (it is a
subreaper), and ends them, so that nothing that a rank started outlives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import time
import warnings
from typing import Any, NoReturn

from craton.pipeline.processes import children, close_all_but, kill
from craton.spmd import rank

#: The most bytes of a request.
REQUEST = 1 << 16
_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
_C = ctypes.CDLL(None, use_errno=True)
#: What programs of ranks may need, besides what the rank itself imports. None of these starts a thread that must live in a forked process.
_IMPORTED = ("craton.pandas", "craton.spmd.environment", "craton.comm.own", "pyarrow.compute")
#: Imported one after another while nothing is asked for.
_IMPORTED_LATER = (
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
#: Milliseconds without a request after which one of them is imported.
_IDLE = 20


def main(requests: int) -> None:
    """Fork a rank for each request that comes through the socket `requests`, until it is closed."""
    channel = socket.socket(fileno=requests)
    starter = os.getppid()
    _C.prctl(_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for name in _IMPORTED:
        _import(name)
    gc.collect()
    gc.freeze()
    later = list(reversed(_IMPORTED_LATER))
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    channel.send(b"r")
    ranks: set[int] = set()
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(woken, select.POLLIN)
    while True:
        ready = dict(poller.poll(_IDLE if later else 1000))
        if not ready and later:
            _import(later.pop())
            gc.freeze()
        if os.getppid() != starter:  # a forked child of the starter may hold the socket
            _end_all()
        if woken in ready:
            os.read(woken, 4096)
        _report(channel, ranks)
        if orphans := [pid for pid in children() if pid not in ranks]:
            kill(orphans)
        if channel.fileno() in ready:
            request, fds, _, _ = socket.recv_fds(channel, REQUEST, 2)
            if not request:
                _end_all()
            _do(channel, pickle.loads(request), fds, ranks)


def _do(channel: socket.socket, request: tuple[Any, ...], fds: list[int], ranks: set[int]) -> None:
    """Fork a rank, or kill one."""
    if request[0] == "kill":
        if request[1] in ranks:  # else it has ended, and its number may be that of another process
            kill([request[1]])
        return
    _, number, arguments = request
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _C.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == server:
                close_all_but((0, 1, 2, *fds))
                rank.main(arguments, fds)
        finally:
            exit_now(1)
    ranks.add(pid)
    for fd in fds:
        os.close(fd)
    _say(channel, ("started", number, pid))


def _report(channel: socket.socket, ranks: set[int]) -> None:
    """Report the ranks that have ended, and remove ended processes from the system's table."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in ranks:
                ranks.discard(pid)
                _say(channel, ("ended", pid, os.waitstatus_to_exitcode(status)))


def _say(channel: socket.socket, said: tuple[Any, ...]) -> None:
    with contextlib.suppress(OSError):  # the starter has ended; the next poll says so
        channel.send(pickle.dumps(said))


def _import(name: str) -> None:
    with contextlib.suppress(Exception):
        importlib.import_module(name)


def _end_all() -> NoReturn:
    """End all ranks and what they started, and this process."""
    until = time.monotonic() + 5
    while (left := children()) and time.monotonic() < until:
        kill(left)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.001)
    exit_now(0)


def exit_now(status: int) -> NoReturn:
    """End this process without the exit handlers, which belong to the process that it was forked from."""
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    os._exit(status)
