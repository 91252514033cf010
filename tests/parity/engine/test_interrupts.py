"""Ctrl-C stops a program in any of its waits and computations."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import craton.pandas
from craton.kernel.interrupts import InterruptGuard
from craton.pandas.core import execute

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")

BEGIN = """
import os, sys, threading, time
import craton, craton.pandas as pd
PATH = sys.argv[1]
frame = pd.read_parquet(PATH)
some = frame[frame["v"] > -1]
told = []

def running():
    if not told:
        told.append(True)
        print("running", flush=True)

def endless(*_):
    running()
    while True:
        pass
"""

PROGRAMS = {
    "a function for each cell of what is chosen": "some['s'].map(endless)",
    "for each row": "some.apply(endless, axis=1)",
    "for each group": "some.groupby('v').apply(endless)",
    "for a group as an aggregate": "some.groupby('s')['v'].agg(endless)",
    "for each window": "some['v'].rolling(3).apply(endless)",
    "for each match": "some['s'].str.replace('1', endless, regex=True).sum()",
    "a function that sleeps": "some['s'].map(lambda s: (running(), time.sleep(1000)))",
    "a lock": "len(some); running(); lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "a queue": "len(some); running(); import queue; queue.Queue().get()",
    "a pipe": "len(some); running(); os.read(os.pipe()[0], 1)",
    "a thread": "len(some); thread = threading.Thread(target=endless, daemon=True); thread.start(); thread.join()",
    "the kernel": """
many = frame.head(20_000)[["v"]]
running()
while True:
    pairs = many.merge(many, how="cross")
    pairs[(pairs["v_x"] * pairs["v_y"]) % 7 == 3]["v_x"].sum()
    craton.clear_memory()
""",
    "the kernel, after a handler was set": """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # as notebooks do before each cell
many = frame.head(60_000)[["v"]]
running()
pairs = many.merge(many, how="cross")
pairs[(pairs["v_x"] * pairs["v_y"]) % 7 == 3]["v_x"].sum()
""",
    "a call in a worker": """
def asleep(path):
    open(path, "w").close()
    time.sleep(1000)

call = craton.remote.spawn(asleep, PATH + ".sleeps")
while not os.path.exists(PATH + ".sleeps"):
    time.sleep(0.01)
running()
call.result()
""",
    "calls in workers": """
def slow(s):
    time.sleep(0.001)
    while int(s) > 50_000:
        time.sleep(1)
    return s

from craton.remote import parallel_calls
spread = parallel_calls._Run.in_workers
def in_workers(*arguments):
    running()
    return spread(*arguments)
parallel_calls._Run.in_workers = in_workers
some["s"].map(slow)
""",
    "a plan of a forked process": """
len(some)
pid = os.fork()
if pid == 0:
    from craton.engine import kernel_process
    running()
    kernel_process.call_in_kernel_process(time.sleep, 1000)
    os._exit(0)
os.waitpid(pid, 0)
""",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interrupts") / "rows.parquet"
    rows = 150_000
    pd.DataFrame({"v": np.arange(float(rows)), "s": np.arange(rows).astype(str)}).to_parquet(path)
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c_stops(file: Path, name: str) -> None:
    command = [sys.executable, "-c", BEGIN + PROGRAMS[name], str(file)]
    # The whole process group gets the signal, as from a terminal.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(
            timeout=60
        )  # returns only when every process has closed the pipes, so none is left
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == -signal.SIGINT, said
    assert said.rstrip().endswith("KeyboardInterrupt"), said


LOST = """
import signal, sys, weakref
import craton.pandas

class Thing:
    def __del__(self):
        if sys.argv[1] == "a finaliser":
            signal.raise_signal(signal.SIGINT)

thing = Thing()
reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT) if sys.argv[1] != "a finaliser" else None)
try:
    del thing
    while True:
        pass
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize("where", ["a weak reference", "a finaliser"])
def test_an_interrupt_while_an_object_goes_is_raised_again(where: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOST, where], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


SWALLOWED = """
import signal
import numpy as np, numpy._core._internal as internal
import craton, craton.pandas as pd

def npy_ctypes_check(cls):
    import signal
    signal.raise_signal(signal.SIGINT)
    return False

craton.options.small_rows = 0
frame = pd.DataFrame({"s": ["a", "b"]})
code, internal.npy_ctypes_check.__code__ = internal.npy_ctypes_check.__code__, npy_ctypes_check.__code__
try:
    frame["s"].map(lambda text: np.dtype("int64") == pd.CategoricalDtype())
    print("lost")
except KeyboardInterrupt:
    internal.npy_ctypes_check.__code__ = code
    print("stopped")
"""


def test_an_interrupt_that_numpy_takes_for_an_answer_is_raised_again() -> None:
    """NumPy checks whether a type is a ``ctypes`` type, and clears any error that this raises."""
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_an_interrupt_that_a_look_loses_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = execute.to_arrays

    def losing(*args: Any) -> Any:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return whole(*args)

    monkeypatch.setattr(craton.options, "small_rows", 0)
    made = craton.pandas.DataFrame({"v": [1, 2, 3]}) * 2
    with monkeypatch.context() as patched:
        patched.setattr(execute, "to_arrays", losing)
        with pytest.raises(KeyboardInterrupt):
            str(made)
    assert made["v"].tolist() == [2, 4, 6]


def test_a_panic_over_an_interrupt_is_one() -> None:
    with pytest.raises(KeyboardInterrupt), InterruptGuard():
        raise pl.exceptions.PanicException("called `Result::unwrap()` on PyErr { type: <class 'KeyboardInterrupt'> }")
    with pytest.raises(pl.exceptions.PanicException, match="index out of bounds"), InterruptGuard():
        raise pl.exceptions.PanicException("index out of bounds")


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "the program's"])
def test_an_interrupt_that_the_program_handles_is_not_raised(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        frame = craton.pandas.DataFrame({"v": [1, 2, 3]})
        assert frame["v"].map(lambda v: (signal.raise_signal(signal.SIGINT), v)[1]).sum() == 6
    finally:
        signal.signal(signal.SIGINT, before)
