"""Running plans: interrupts and progress."""

from __future__ import annotations

import io
import multiprocessing.process
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

import craton
from craton.kernel import progress as module
from craton.kernel.run import run_all

INTERRUPTED = """
import os, signal, sys, threading, time
import polars as pl
from craton.kernel.run import run_all
n = 3_000_000
frame = pl.LazyFrame({"k": range(n)}).with_columns(k=pl.col("k") % 97)
slow = frame.join(frame, on="k").group_by("k").agg(pl.len())
print("ready", flush=True)
try:
    run_all([slow], expected_rows=10**9, describe=lambda: "a join")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # A pending second interrupt would end this loop.
    total = sum(range(1000))
    print("still here", total, flush=True)
    os._exit(0)
print("finished", flush=True)
"""


def test_ctrl_c_ends_a_running_query():
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == "ready"
        while _cpu_seconds(process.pid) < 1.5:  # until the query runs
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out.splitlines() == ["interrupted", "still here 499500"]


def _cpu_seconds(pid: int) -> float:
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def test_several_frames_in_one_run():
    frame = pl.LazyFrame({"a": [1, 2, 3]})
    sums, rows = run_all(
        [frame.select(pl.col("a").sum()), frame.filter(pl.col("a") > 1)], expected_rows=10**9, describe=lambda: ""
    )
    assert sums.item() == 6
    assert rows["a"].to_list() == [2, 3]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown_automatically():
    with craton.option_context(progress="auto"):
        return module._watched()


def test_progress_is_shown_in_terminals(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert shown_automatically()
    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: object())
    assert not shown_automatically()  # several children would draw over each other


@pytest.mark.parametrize("stream", [io.StringIO(), None], ids=["file", "closed"])
def test_progress_is_not_written_to_files(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    assert not shown_automatically()


@pytest.mark.parametrize(("delay", "shown"), [(0.0, True), (30.0, False)])
def test_progress_shows_long_runs_only(monkeypatch, delay, shown):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "DELAY", delay)
    with craton.option_context(progress="on"), module.progress(lambda: "7 operators"):
        deadline = time.monotonic() + 20
        while shown and "7 operators" not in stream.getvalue() and time.monotonic() < deadline:
            os.sched_yield()
    assert ("7 operators" in stream.getvalue()) is shown
    assert stream.getvalue().endswith("\x1b[2K") is shown
