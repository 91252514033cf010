"""Forked processes: the kernel is marked as unusable if it had threads, and locks of other threads are free."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from craton import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")


def _run(program: str) -> None:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("make", ["lock", "reentrant_lock"])
def test_a_lock_that_another_thread_held_is_free_in_a_child(make: str) -> None:
    _run(f"""
import os, threading
from craton import forks
lock, held, go_on = forks.{make}(), threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        go_on.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
pid = os.fork()
if pid == 0:
    with lock:
        os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
go_on.set()
thread.join()
assert lock.acquire(timeout=10)
""")


def test_locks_are_let_go() -> None:
    before = len(forks._locks)
    made = [forks.lock() for _ in range(10)]
    assert len(forks._locks) == before + 10
    del made
    assert len(forks._locks) == before


def test_every_lock_that_outlives_a_call_is_one_of_these() -> None:
    """A lock that is not registered, and that another thread holds at the fork, would block the child for ever."""
    import importlib

    plain = (type(threading.Lock()), type(threading.RLock()))
    for name in ("events", "fallbacks", "engine.result_cache", "pandas.core.file_cache", "store.process", "cluster.sessions",
                 "remote.functions", "remote.side_output", "remote.session", "accelerate.install"):  # fmt: skip
        module = importlib.import_module(f"craton.{name}")
        own = [value for value in vars(module).values() if isinstance(value, plain)]
        own += [value._lock for value in vars(module).values() if isinstance(getattr(value, "_lock", None), plain)]
        assert own, name
        assert all(lock in forks._locks for lock in own), name


def test_the_kernel_is_lost_only_where_it_had_threads() -> None:
    _run("""
import os
import polars as pl
from craton import forks
def child_of(check):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1] == 0
def runs():
    return not forks.kernel_lost() and pl.DataFrame({"a": [1]}).lazy().select(pl.col("a").sum()).collect().item() == 1
assert child_of(runs)
assert runs()
assert child_of(forks.kernel_lost)
assert child_of(lambda: child_of(forks.kernel_lost))
assert not forks.kernel_lost()
""")


def test_the_kernel_says_that_it_is_lost() -> None:
    _run("""
import os
import polars as pl
from craton.errors import Unsupported
from craton.kernel.run import run_all
def collect():
    return run_all([pl.DataFrame({"a": [1]}).lazy().select(pl.col("a").sum())], expected_rows=1, describe=str)
collect()
pid = os.fork()
if pid == 0:
    try:
        collect()
    except Unsupported as refusal:
        os._exit(0 if "forked" in str(refusal) else 1)
    os._exit(2)
assert os.waitpid(pid, 0)[1] == 0
""")
