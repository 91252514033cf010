"""Errors, output, interrupts, and ends of processes at wrong moments."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import COMMUNICATOR, none_runs, runs, wait_until

from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.spmd import Environment, Executor, ExecutorClosed, ResultLost


def test_the_error_of_the_first_rank_is_raised_and_no_rank_hangs(ex: Executor) -> None:
    class Custom(Exception):
        def __init__(self, code: int) -> None:
            super().__init__(f"code {code}")
            self.code = code

    def fail(env: Environment) -> None:
        if env.rank == 1:
            raise Custom(7)
        env.barrier()

    futures = ex.run(fail)
    with pytest.raises(Exception, match="code 7") as raised:
        futures.results()
    assert raised.value.code == 7
    text = "".join(traceback.format_exception(raised.value))
    assert "raise Custom(7)" in text  # the line in the rank
    assert "This is the error of rank 1 of 3" in text
    assert "Rank 0: Traceback" in text
    assert "Rank 2: Traceback" in text
    first, second, third = futures.exceptions()
    assert second is raised.value
    assert isinstance(first, (CommunicatorClosed, RankFailed))
    assert isinstance(third, (CommunicatorClosed, RankFailed))
    # The communicator is connected again.
    assert ex.run(lambda env: env.comm.allgather(env.rank)).results() == [[0, 1, 2]] * 3


def test_ranks_that_do_not_communicate_are_not_disturbed(ex: Executor) -> None:
    def fail_once(env: Environment) -> int:
        return 1 // (env.rank - 1)

    futures = ex.run(fail_once)
    with pytest.raises(ZeroDivisionError):
        futures.results()
    assert futures[0].result() == -1
    assert futures[2].result() == 1
    later = [ex.run(fail_once), ex.run(lambda env: env.comm.allreduce(1))]
    assert later[1].results() == [3] * 3


def test_errors_that_cannot_be_pickled(ex: Executor) -> None:
    def fail() -> None:
        error = ValueError("not picklable")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(ValueError, match="not picklable"):
        ex.run(fail).results()
    with pytest.raises(SystemExit):
        ex.run(lambda: sys.exit(3)).results()
    assert ex.run(lambda: 1).results() == [1] * 3


def test_functions_that_cannot_be_unpickled(ex: Executor) -> None:
    class Bad:
        def __reduce__(self) -> object:
            return eval, ("1 // 0",)

    with pytest.raises(ZeroDivisionError):
        ex.run(lambda bad: bad, Bad()).results()
    futures = ex.run(lambda: Bad())
    with pytest.raises(ZeroDivisionError):
        futures.results()
    assert ex.run(lambda: 1).results() == [1] * 3


def test_calls_with_the_results_of_a_call_that_raised_raise_its_error(ex: Executor) -> None:
    def fail(env: Environment) -> int:
        if env.rank == 1:
            raise KeyError("no such column")
        env.barrier()
        return 1

    failed = ex.run(fail)
    later = ex.run(lambda value: value, failed)
    with pytest.raises(KeyError, match="no such column"):
        failed.results()
    with pytest.raises(KeyError, match="no such column"):
        later.results()
    with pytest.raises(KeyError, match="no such column"):
        ex.run(lambda value: value, later).results()
    assert ex.run(lambda: 1).results() == [1] * 3
    cancelled = ex.run(lambda: time.sleep(60))
    cancelled.cancel()
    with pytest.raises(LookupError, match="was cancelled"):
        ex.run(lambda value: value, cancelled).results()


def test_output_is_shown_in_order_with_the_rank(ex: Executor, capfd: pytest.CaptureFixture[str]) -> None:
    def talk(env: Environment) -> None:
        for line in range(50):
            print("line", line)
        print("to stderr", file=sys.stderr)
        os.write(1, b"raw\n")
        subprocess.run(["echo", "from a program"], check=True)
        env.logger.info("logged by %d", env.rank)
        print("zero \0 byte, no end", end="")

    ex.run(talk).results()
    shown = capfd.readouterr()
    for rank in range(3):
        own = [
            line.removeprefix(f"[rank {rank}] ") for line in shown.out.split("\n") if line.startswith(f"[rank {rank}]")
        ]
        lines = [f"line {line}" for line in range(50)]
        assert own == [*lines, "raw", "from a program", "zero \0 byte, no end"]
        assert f"[rank {rank}] to stderr\n" in shown.err
        assert f"[rank {rank}] INFO logged by {rank}\n" in shown.err


def test_output_of_a_call_comes_before_its_result(ex: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        ex.run(lambda n, env: print(n) if env.rank == 0 else None, number).results()
        assert capsys.readouterr().out == f"[rank 0] {number}\n"


def test_a_cancelled_call_ends_on_all_ranks(ex: Executor) -> None:
    started = ex.run(lambda env: env.comm.barrier() or time.sleep(60))
    queued = ex.run(lambda: 1)
    with pytest.raises(TimeoutError):
        started.results(timeout=0.05)
    begun = time.monotonic()
    assert queued.cancel()
    assert started.cancel()
    assert ex.run(lambda env: env.comm.allreduce(env.rank)).results() == [3] * 3
    assert time.monotonic() - begun < 10
    for one in (started, queued):
        with pytest.raises(concurrent.futures.CancelledError):
            one.results()


def test_one_ranks_cancelled_call_ends_those_that_wait_for_it(ex: Executor) -> None:
    def wait(env: Environment) -> None:
        if env.rank == 2:
            time.sleep(60)
        env.barrier()

    futures = ex.run(wait)
    assert futures[2].cancel()
    assert isinstance(futures[0].exception(10), (CommunicatorClosed, RankFailed))
    with pytest.raises(concurrent.futures.CancelledError):
        futures[2].result()
    assert ex.run(lambda env: env.comm.allreduce(env.rank)).results() == [3] * 3


def _interrupt_soon(futures: object) -> threading.Timer:
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("waits", ["results", "first"])
def test_ctrl_c_cancels_the_calls_and_the_executor_can_be_used(ex: Executor, waits: str) -> None:
    def wait(env: Environment) -> None:
        if env.rank == 0:
            while True:
                time.sleep(0.001)
        env.barrier()

    futures = ex.run(wait)
    queued = ex.run(lambda: 1)
    timer = _interrupt_soon(futures)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        futures.results() if waits == "results" else futures[1].result()
    took = time.monotonic() - begun
    timer.join()
    assert took < 0.3 + 5  # a second; the machine that tests run on may be busy
    assert all(one.done() for one in (*futures, *queued))
    assert not ex.closed
    assert ex.run(lambda env: env.comm.allreduce(env.rank)).results() == [3] * 3


def test_ctrl_c_closes_an_executor_whose_ranks_do_not_stop(begin: Callable[..., Executor]) -> None:
    executor = begin(2)
    pids = executor.pids

    def never_stop(env: Environment) -> None:
        while True:
            try:
                time.sleep(60)
            except BaseException:
                continue

    futures = executor.run(never_stop)
    timer = _interrupt_soon(futures)
    with pytest.raises(KeyboardInterrupt):
        futures.results()
    timer.join()
    assert executor.closed
    assert none_runs(pids)
    with pytest.raises(ExecutorClosed, match="did not stop"):
        executor.run(lambda: 1)


def test_the_end_of_a_rank_ends_its_executor(begin: Callable[..., Executor]) -> None:
    executor, other = begin(3), begin(2)
    pids = executor.pids
    kept = executor.run(lambda: bytes(1 << 20))

    def die(env: Environment) -> None:
        if env.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        env.barrier()

    kept.wait()
    futures = executor.run(die)
    with pytest.raises(RankFailed, match="rank 1 has failed: its process was ended by SIGKILL"):
        futures.results()
    wait_until(lambda: none_runs(pids))
    with pytest.raises(ExecutorClosed, match="SIGKILL"):
        executor.run(lambda: 1)
    with pytest.raises(ResultLost):
        kept.results()
    assert other.run(lambda env: env.comm.allreduce(1)).results() == [2, 2]


@pytest.mark.parametrize("how", ["exit", "idle"])
def test_other_ends_of_ranks(begin: Callable[..., Executor], how: str) -> None:
    executor = begin(2)
    pids = executor.pids
    if how == "exit":
        with pytest.raises(RankFailed, match="exit code 3"):
            executor.run(lambda env: os._exit(3) if env.rank == 0 else None).results()
    else:
        os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: executor.closed)
    wait_until(lambda: none_runs(pids))


def test_a_stopped_rank_is_given_up(begin: Callable[..., Executor]) -> None:
    executor = begin(3)
    assert executor.run(lambda env: env.comm.allreduce(1)).results() == [3] * 3
    stopped = executor.pids[1]
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(2)  # a while does no harm
    os.kill(stopped, signal.SIGCONT)
    assert executor.run(lambda env: env.comm.allreduce(1)).results(10) == [3] * 3
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(RankFailed, match="rank 1 has failed: its process was stopped by a signal"):
        executor.run(lambda env: env.comm.allreduce(1)).results(20)
    assert time.monotonic() - began < 10
    wait_until(lambda: none_runs([stopped]))


def test_a_stopped_rank_is_started_again(begin: Callable[..., Executor]) -> None:
    executor = begin(2, max_restarts=1)
    os.kill(executor.pids[0], signal.SIGSTOP)
    assert executor.run(lambda env: env.comm.allreduce(1)).results(20) == [2] * 2


def test_what_ranks_have_started_ends_with_them(begin: Callable[..., Executor]) -> None:
    executor = begin(2)
    started = executor.run(lambda: subprocess.Popen(["sleep", "600"], start_new_session=True).pid).results()
    assert all(runs(pid) for pid in started)
    executor.shutdown()
    wait_until(lambda: none_runs(started))


_PROGRAM = """
import os, sys, time
from craton.spmd import Executor
ex = Executor(2, communicator="COMMUNICATOR")
print(*ex.pids, os.getpid(), flush=True)
futures = ex.run(HOW)
ex.run(print)
HERE
futures.results()
"""


@pytest.mark.parametrize(
    "how", ["lambda: __import__('time').sleep(600)", "lambda env: env.comm.barrier() or [0 for _ in iter(int, 1)]"]
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_the_program_is_killed(how: str, number: signal.Signals, tmp_path: Path) -> None:
    text = _PROGRAM.replace("COMMUNICATOR", COMMUNICATOR).replace("HOW", how).replace("HERE", "")
    program = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert program.stdout is not None
    pids = [int(one) for one in program.stdout.readline().split()]
    server = _parent(pids[0])
    assert all(runs(pid) for pid in [*pids, server])
    program.send_signal(number)
    program.wait(20)
    program.stdout.close()
    wait_until(lambda: none_runs([*pids, server]))


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_a_program_ends_by_itself(tmp_path: Path) -> None:
    text = _PROGRAM.replace("COMMUNICATOR", COMMUNICATOR).replace("HOW", "lambda env: env.rank")
    done = subprocess.run(
        [sys.executable, "-c", text.replace("HERE", "print(ex.run(lambda env: env.world_size).results())")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[2, 2]"
    assert done.stderr == ""
    pids = [int(one) for one in done.stdout.splitlines()[0].split()]
    wait_until(lambda: none_runs(pids))


def test_the_server_of_ranks_ends(begin: Callable[..., Executor]) -> None:
    executor = begin(2)
    pids = executor.pids
    os.kill(_parent(pids[0]), signal.SIGKILL)
    wait_until(lambda: executor.closed)
    wait_until(lambda: none_runs(pids))
    assert begin(2).run(lambda env: env.comm.allreduce(1)).results() == [2, 2]
