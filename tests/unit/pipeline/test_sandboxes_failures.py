"""Functions that misbehave: each gives an error that says so, harms no other step, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sandboxed import Steps, descendants, needs_linux, wait_for

from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import Limits, StepError, StepTask
from craton.store import Store

pytestmark = needs_linux


def test_an_exception_is_shown_with_its_traceback(steps: Steps) -> None:
    def broken(n: int) -> pa.Table:
        def inner() -> None:
            print("before")
            raise KeyError("no such column")

        if n:
            inner()
        return pa.table({})

    error = steps.failing(broken, n=1)
    assert error.cause == "raised"
    assert error.message == "KeyError: 'no such column'"
    assert error.printed == "before\n"
    assert "in broken" in error.traceback
    assert "in inner" in error.traceback
    assert "worker.py" not in error.traceback
    assert str(error).startswith("step 'broken': KeyError")
    assert pickled(error).traceback == error.traceback


def pickled(error: StepError) -> StepError:
    import pickle

    return pickle.loads(pickle.dumps(error))


def test_exceptions_of_all_kinds(steps: Steps) -> None:
    def leaves(how: str) -> None:
        import sys

        class Odd(Exception):
            def __str__(self) -> str:
                raise ValueError("no text")

        if how == "exit":
            sys.exit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "stop":
            raise StopIteration
        if how == "odd":
            raise Odd
        raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])

    assert steps.failing(leaves, how="exit").message == "SystemExit: 3"
    assert steps.failing(leaves, how="interrupt").message == "KeyboardInterrupt"
    assert steps.failing(leaves, how="stop").cause == "raised"
    assert "Odd" in steps.failing(leaves, how="odd").message
    assert "TypeError: two" in steps.failing(leaves, how="group").traceback


def test_a_process_that_ends_without_an_answer(steps: Steps) -> None:
    def ends(how: str) -> pa.Table:
        import ctypes
        import os
        import signal

        print("still here", flush=True)
        if how == "exit":
            os._exit(0)
        if how == "crash":
            ctypes.string_at(0)
        if how == "abort":
            os.abort()
        os.kill(os.getpid(), signal.SIGKILL)
        return pa.table({})

    exited = steps.failing(ends, how="exit")
    assert exited.cause == "ended"
    assert "exit code 0" in exited.message
    assert exited.printed == "still here\n"
    crashed = steps.failing(ends, how="crash")
    assert crashed.cause == "ended"
    assert "SIGSEGV" in crashed.message
    assert "SIGABRT" in steps.failing(ends, how="abort").message
    assert "SIGKILL" in steps.failing(ends, how="kill").message


def test_signals_to_itself_and_its_parent(steps: Steps) -> None:
    def signals(number: int, parent: bool) -> pa.Table:
        import os
        import time

        os.kill(os.getppid() if parent else os.getpid(), number)
        time.sleep(30)
        return pa.table({})

    assert "SIGTERM" in steps.failing(signals, number=signal.SIGTERM, parent=False).message
    assert steps.failing(signals, number=signal.SIGINT, parent=False).message == "KeyboardInterrupt"
    stopped = steps.failing(signals, number=signal.SIGSTOP, parent=False, limits=Limits(seconds=0.5))
    assert stopped.cause == "time"
    results: list[int] = []

    def other() -> pa.Table:
        import time

        time.sleep(1)
        return pa.table({"n": [1]})

    beside = threading.Thread(target=lambda: results.append(steps.one(other).rows))
    beside.start()
    assert steps.failing(signals, number=signal.SIGKILL, parent=True).cause == "ended"
    beside.join()
    assert results == [1]


def test_a_step_that_hangs_is_killed(steps: Steps) -> None:
    def hangs(how: str) -> Any:
        import signal
        import time

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        if how == "sleep":
            time.sleep(1000)
        if how == "loop":
            while True:
                pass

        def batches() -> Any:
            while True:
                time.sleep(0.01)
                yield pa.record_batch({"n": [1]})

        return batches()

    for how in ("sleep", "loop", "generator"):
        error = steps.failing(hangs, how=how, limits=Limits(seconds=0.4))
        assert error.cause == "time"
        assert "0.4 seconds" in error.message


def test_memory_beyond_the_limit(steps: Steps) -> None:
    def needs(how: str) -> Any:
        import os
        import time

        if how == "array":
            return np.ones(1 << 27)
        if how == "zeros":
            values = np.zeros(1 << 27)
            values += 1
            return values
        if how == "objects":
            return pd.DataFrame({"x": [str(i) * 50 for i in range(30_000_000)]})
        if how == "arrow":
            return pa.concat_tables([pa.table({"x": np.arange(1 << 22)})] * 20).combine_chunks()
        if how == "child":
            if os.fork() == 0:
                kept = [bytes([i % 255]) * 100_000 for i in range(10_000)]
                time.sleep(60)
                os._exit(len(kept) * 0)
            time.sleep(60)
        import polars as pl

        frame = pl.DataFrame({"x": np.arange(1 << 20)})
        return pl.concat([frame] * 200).with_columns(y=pl.col("x") * 2)

    for how in ("array", "zeros", "objects", "arrow", "polars", "child"):
        error = steps.failing(needs, how=how, limits=Limits(memory=200 << 20))
        assert error.cause == "memory", how
        assert "200.0 MiB" in error.message, error.message

    def modest() -> Any:
        first = np.ones(10 << 20)
        del first
        return pa.table({"x": np.ones(15 << 20)})

    outcome = steps.run(modest, limits=Limits(memory=200 << 20))
    assert outcome.outputs[None].rows == 15 << 20
    assert 120_000_000 < outcome.peak_memory < 240_000_000  # with freed blocks
    inputs = {"table": (outcome.outputs[None], "arrow")}

    def doubles(table: pa.Table) -> pa.Table:  # inputs are not counted
        import pyarrow.compute as pc

        return pa.table({"y": pc.multiply(table["x"], 2)})

    assert steps.run(doubles, inputs, limits=Limits(memory=150 << 20)).shared == 0


def test_what_is_no_table(steps: Steps) -> None:
    def returns(number: int) -> Any:
        return [None, 3, [1], "text", {}, {"a": None}, {1: 2}, np.array([object()]), iter(()), object()][number]

    def schemas() -> Any:
        yield pa.record_batch({"a": [1]})
        yield pa.record_batch({"b": [1.5]})

    for number in range(10):
        error = steps.failing(returns, number=number)
        assert error.cause == "output", error
        assert error.message.startswith(("the function", "the iterator"))
    assert "no return statement" in steps.failing(returns, number=0).message
    error = steps.failing(schemas)
    assert error.cause == "output"
    assert "b: double" in error.message

    def raises() -> Any:
        yield pa.record_batch({"a": [1]})
        raise ValueError("in the generator")

    assert steps.failing(raises).cause == "raised"


def test_functions_and_inputs_that_cannot_be_had(steps: Steps) -> None:
    def table() -> pa.Table:
        return pa.table({"c": [1 + 0]})

    with pytest.raises(StepError, match="ModuleNotFoundError") as caught:
        steps.sandboxes.run(StepTask("lost", b"cno_such_module\nf\n.", {}, {}))
    assert caught.value.cause == "environment"
    with pytest.raises(StepError, match="pickled") as caught:
        steps.run(table, argument=threading.Lock())
    assert caught.value.cause == "environment"
    stored = steps.one(table)
    stored.pages.drop()

    def takes(one: Any) -> Any:
        return one

    error = steps.failing(takes, {"one": (stored, "arrow")})
    assert error.cause == "environment"
    assert "inputs" in error.message
    assert "unexpected keyword" in steps.failing(table, {"other": (steps.one(table), "arrow")}).message


def test_children_and_threads_end_with_the_step(steps: Steps, tmp_path: Path) -> None:
    def spreads(place: str) -> pa.Table:
        import os
        import subprocess
        import threading
        import time

        subprocess.Popen(["sleep", "1000"])
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        if os.fork() == 0:  # a daemon: its parent ends, and it has a session of its own
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        os.wait()
        threading.Thread(target=time.sleep, args=(1000,)).start()
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        with open(place, "w") as file:
            file.write("done")
        return pa.table({"n": [1]})

    assert steps.run(spreads, place=str(tmp_path / "file")).outputs[None].rows == 1
    assert (tmp_path / "file").read_text() == "done"


def test_a_forked_child_does_not_answer(steps: Steps) -> None:
    def forks(parent_waits: bool, raises: bool) -> pa.Table:
        import os

        values = np.arange(200_000)
        pid = os.fork()
        if pid == 0 and raises:
            raise ValueError("in the child")
        if pid != 0 and parent_waits:
            os.waitpid(pid, 0)
        values[0] = 0 if pid == 0 else 7
        return pa.table({"n": values, "child": np.full(200_000, pid == 0)})

    for parent_waits in (True, False):
        for raises in (True, False):
            table = steps.one(forks, parent_waits=parent_waits, raises=raises).pages.to_arrow()
            assert table["n"][0].as_py() == 7
            assert not any(table["child"].to_pylist())


def test_descriptors_that_are_closed(steps: Steps, tmp_path: Path) -> None:
    def closes(last: int, place: str) -> pa.Table:
        import os

        table = pa.table({"n": np.arange(100_000)})
        os.closerange(0, last)
        kept = [os.open(f"{place}/{number}", os.O_RDWR | os.O_CREAT) for number in range(min(last, 600))]
        for fd in kept:
            os.write(fd, b"content")
        more = np.zeros(200_000)
        del more
        print("printed")  # into a file, as its author deserves
        return table

    for last in (400, 1024):
        place = tmp_path / str(last)
        place.mkdir()
        if last == 400:
            assert steps.one(closes, last=last, place=str(place)).pages.to_arrow()["n"][-1].as_py() == 99_999
        else:
            error = steps.failing(closes, last=last, place=str(place))
            assert error.cause == "ended"
            assert "closed the connection" in error.message
        contents = [file.read_bytes() for file in place.iterdir()]
        assert sorted(contents)[-1] == b"contentprinted\n"
        assert set(contents) == {b"content", b"contentprinted\n"}

    def standard() -> pa.Table:
        import os
        import sys

        sys.stdout.close()
        for fd in (0, 1, 2):
            os.close(fd)
        return pa.table({"n": np.arange(100_000)})

    assert steps.one(standard).rows == 100_000


def test_rubbish_on_the_socket(steps: Steps) -> None:
    def writes(data: bytes) -> pa.Table:
        import os
        import stat

        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, data)
        return pa.table({"n": [1]})

    import pickle
    import struct

    evil = pickle.dumps(os.getcwd)
    for data in (
        b"\xff" * 100,
        struct.pack("<Q", 3) + b"abc",
        struct.pack("<Q", len(evil)) + evil,
        struct.pack("<Q", 2) + b"N.",
    ):
        error = steps.failing(writes, data=data)
        assert error.cause in ("output", "ended")


def test_output_without_end(steps: Steps) -> None:
    def fills() -> pa.Table:
        import os

        line = b"y" * 65_536
        while True:
            os.write(1, line)

    error = steps.failing(fills, limits=Limits(seconds=0.5, memory=100 << 20))
    assert error.cause == "time"
    assert len(error.printed) < 500_000


def test_a_lost_zygote_is_replaced(steps: Steps) -> None:
    with Sandboxes(steps.store) as sandboxes:
        own = Steps(steps.store, sandboxes)
        before = set(descendants())
        own.works()
        assert wait_for(lambda: len(set(descendants()) - before) == 1)
        (zygote,) = set(descendants()) - before
        os.kill(zygote, signal.SIGKILL)
        own.works()
        assert wait_for(lambda: len(set(descendants()) - before) == 1)
        assert zygote not in descendants()


PROGRAM = """
import os, sys, threading, time
import cloudpickle, pyarrow as pa
from craton.store import Store
from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import StepTask

def busy():
    import subprocess
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("up", flush=True)
    open(sys.argv[1] if len(sys.argv) > 1 else PLACE, "w").close()
    time.sleep(1000)

PLACE = sys.argv[1]
if __name__ == "__main__":
    store = Store.open(1 << 28)
    sandboxes = Sandboxes(store)
    sandboxes.run(StepTask("busy", cloudpickle.dumps(busy), {}, {}))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_supervisor_dies(tmp_path: Path, number: int) -> None:
    place = tmp_path / "started"
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), str(place)], stderr=subprocess.PIPE)
    try:
        assert wait_for(place.exists)
        left = descendants(process.pid)
        assert len(left) >= 4  # zygote, keeper, worker, sleep
        process.send_signal(number)
        process.wait(30)
        assert wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/fd/0") for pid in left))
    finally:
        process.kill()
        process.communicate()


def test_the_store_has_nothing_of_a_step_that_failed(tmp_path: Path) -> None:
    def many(fail: bool) -> Any:
        yield pa.record_batch({"n": np.arange(200_000)})
        yield pa.record_batch({"n": np.arange(200_000)})
        if fail:
            raise ValueError

    with Store.open(1 << 28, directory=tmp_path) as store, Sandboxes(store) as sandboxes:
        here = Steps(store, sandboxes)
        kept = here.one(many, fail=False)
        used = store.counters()["slab_used"]
        sets = len(store.describe())
        for _ in range(5):
            here.failing(many, fail=True)
        assert store.counters()["slab_used"] == used
        assert len(store.describe()) == sets
        assert kept.rows == 400_000
        del kept
        assert wait_for(lambda: store.counters()["page_memory"] == 0)
