"""Ctrl-C: a program stops wherever it is, whatever waits or computes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
    "a call in a worker": """
call = craton.remote.spawn(time.sleep, 1000)
running()
call.result()
""",
    "calls in workers": """
def slow(s):
    time.sleep(0.001)
    while int(s) > 50_000:
        time.sleep(1)
    return s

from craton.remote import jobs
spread = jobs._Run.in_workers
def in_workers(*arguments):
    running()
    return spread(*arguments)
jobs._Run.in_workers = in_workers
some["s"].map(slow)
""",
    "a plan of a forked process": """
len(some)
pid = os.fork()
if pid == 0:
    from craton.pandas import kernel_process
    running()
    kernel_process.elsewhere(time.sleep, 1000)
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
    # In a group of its own, all of which gets the signal, as from a terminal.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)  # which ends when nobody has its pipes: no process is left either
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
