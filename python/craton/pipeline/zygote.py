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
import os
import select
import signal
import struct
from typing import NoReturn

import pandas as pd
import pyarrow as pa

from craton.fork_server.processes import adopt_orphans, close_all_but, end_children, end_with_parent, exit_now
from craton.fork_server.serving import ForkServer
from craton.pipeline import conversion, worker
from craton.pipeline.handover import hand_over

#: A report: the status that ``waitpid`` returned for the worker, its processor time in seconds, and the most memory that it had, in bytes.
REPORT = struct.Struct("<idq")


class _Zygote(ForkServer):
    imported = ("pyarrow.compute", "craton.pandas")
    # What steps need whose functions use Craton.
    imported_later = (
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

    def prepare(self) -> None:
        _rehearse()

    def requested(self, request: bytes, fds: list[int]) -> None:
        self.fork(lambda: _keep(*fds), fds)

    def closed(self) -> NoReturn:
        exit_now(0)  # processes that run belong to their keepers


def main(requests: int) -> None:
    """Fork a keeper for each request that comes through the socket `requests`, until it is closed."""
    os.environ.pop("LD_PRELOAD", None)  # programs that a step starts do not need the allocator
    if previous := os.environ.pop("CRATON_LD_PRELOAD", None):
        os.environ["LD_PRELOAD"] = previous
    _Zygote(requests).serve()


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
    adopt_orphans()
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(control)
            end_with_parent()
            if os.getppid() == keeper:
                worker.main(channel, output)
        finally:
            exit_now(1)
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
    end_children(but=pid, pause=0.0005)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(OSError):
        os.write(control, REPORT.pack(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024))
    exit_now(0)
