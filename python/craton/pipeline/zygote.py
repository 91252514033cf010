"""The process that the processes of steps are forked from, so that each begins with its libraries imported.

::

    supervisor ── requests ──> zygote
        │                        │ fork
        ├──── control ───────> keeper       waits for the step's process, ends what it leaves behind, and reports how it ended
        │                        │ fork
        └──── channel ───────> worker       runs the step's function (``worker.py``)

The zygote has one thread, and the allocator of ``preload.py``, which it does not use itself. A keeper adopts orphaned descendants of its
worker (it is a subreaper), so no process of a step outlives it, not even one that made a session of its own. If the supervisor ends, the
sockets close, and keepers end their workers. If a keeper ends, the system ends its worker (parent-death signal), and the zygote adopts
what is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import time
import warnings
from typing import NoReturn

import pandas as pd
import pyarrow as pa

from craton.pipeline import conversion, worker
from craton.pipeline.handover import hand_over
from craton.pipeline.processes import children, close_all_but, kill, reap

#: A report: the status that ``waitpid`` returned for the worker, its processor time in seconds, and the most memory that it had, in bytes.
REPORT = struct.Struct("<idq")
#: What a step may need, besides what its process needs. None of these starts a thread that must live in a forked process.
_IMPORTED = ("pyarrow.compute", "craton.pandas")
#: What steps need whose functions use Craton: imported one after another while no process is asked for.
_IMPORTED_LATER = (
    "craton.plan.functions",
    "craton.lower.single_node",
    "craton.lower.decoded",
    "craton.lower.remote",
    "craton.engine.run",
    "craton.engine.choice",
    "craton.engine.repeated_runs",
    "craton.engine.result_cache",
    "craton.kernel.run",
    "craton.pandas.core.execute",
    "craton.pandas.groupby.groupby",
    "craton.pandas.groupby.moving",
    "craton.pandas.io.parquet",
    "craton.pandas.io.parquet_filters",
    "craton.pandas.values.times.fixed_dates",
    "craton.pandas.values.text.regexes",
    "craton.pandas.window.moving",
)
#: Milliseconds without a request after which one of them is imported.
_IDLE = 20

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
_C = ctypes.CDLL(None, use_errno=True)


def main(requests: int) -> None:
    """Fork a keeper for each request that comes through the socket `requests`, until it is closed."""
    channel = socket.socket(fileno=requests)
    supervisor = os.getppid()
    os.environ.pop("LD_PRELOAD", None)  # programs that a step starts do not need the allocator
    if previous := os.environ.pop("CRATON_LD_PRELOAD", None):
        os.environ["LD_PRELOAD"] = previous
    _C.prctl(_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for name in _IMPORTED:
        _import(name)
    with contextlib.suppress(Exception):
        _rehearse()
    gc.collect()
    gc.freeze()
    later = list(reversed(_IMPORTED_LATER))
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    channel.sendall(b"r")
    keepers: set[int] = set()
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(woken, select.POLLIN)
    while True:
        ready = dict(poller.poll(_IDLE if later else 1000))
        if not ready and later:
            _import(later.pop())
            gc.freeze()
        if os.getppid() != supervisor:  # a forked child of the supervisor may hold the socket
            _end_all()
        if woken in ready:
            os.read(woken, 4096)
        for pid in reap():
            keepers.discard(pid)
        if orphans := [pid for pid in children() if pid not in keepers]:
            kill(orphans)
        if channel.fileno() in ready:
            data, fds, _, _ = socket.recv_fds(channel, 1, 3)
            if not data:
                _exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    _keep(*fds)
                finally:
                    _exit(1)
            keepers.add(pid)
            for fd in fds:
                os.close(fd)


def _import(name: str) -> None:
    """Import a module. In an environment of its own with other packages that may fail, and is an error only in a step that needs it."""
    with contextlib.suppress(Exception):
        importlib.import_module(name)


def _end_all() -> NoReturn:
    """End all keepers, and with them their workers and what those started, and this process."""
    until = time.monotonic() + 5
    while (left := children()) and time.monotonic() < until:
        kill(left)
        reap()
        time.sleep(0.001)
    _exit(0)


def _rehearse() -> None:
    """Convert and describe small tables, so that what libraries do at first use is done before the forks."""
    table = pa.table({"n": [1, 2], "t": ["a", None]})
    frame = pd.DataFrame({"n": [1, 2], "x": [0.5, None], "t": ["a", None]})
    for value, form in ((table, "pandas"), (frame, "pandas"), (frame, "arrow"), (frame["x"].to_numpy(), "numpy")):
        output = conversion.outputs_of(value)[None]
        conversion.given(pa.table(output.tables[0]), output.form, form)  # type: ignore[arg-type]
        given = hand_over(output.tables)
        for fd, *_ in given.memfds:
            os.close(fd)


def _keep(control: int, channel: int, output: int) -> None:
    """Fork the worker, wait for its end or for the supervisor's, end all other descendants, and report."""
    close_all_but((0, 1, 2, control, channel, output))
    _C.prctl(_SUBREAPER, 1, 0, 0, 0)
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(control)
            _C.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == keeper:
                worker.main(channel, output)
        finally:
            _exit(1)
    os.close(channel)
    os.close(output)
    poller = select.poll()
    ended = os.pidfd_open(pid)
    poller.register(ended, select.POLLIN)
    poller.register(control, select.POLLIN)
    with contextlib.suppress(OSError):
        os.write(control, struct.pack("<i", pid))
    while True:
        ready = dict(poller.poll())
        if ended in ready:
            break
        # The supervisor has closed the socket, or has ended.
        os.kill(pid, signal.SIGKILL)
        poller.unregister(control)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while (left := [one for one in children() if one != pid]) and time.monotonic() < until:
        kill(left)
        for one in left:
            with contextlib.suppress(OSError):
                os.waitpid(one, os.WNOHANG)
        time.sleep(0.0005)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(OSError):
        os.write(control, REPORT.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024))
    _exit(0)


def _exit(status: int) -> NoReturn:
    """End this process without the exit handlers, which belong to the process that it was forked from."""
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    os._exit(status)
