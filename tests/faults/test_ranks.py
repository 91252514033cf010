"""Executors whose ranks are killed or stopped at random moments: the right answer, or a clear error in time, and nothing left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.spmd import Executor, ExecutorClosed

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "spmd"))

from rank_programs import PROGRAMS
from waiting import none_runs, ranks_of_servers, wait_until

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("CRATON_TEST_KILLS", "200"))
#: Seconds from a fault to the answer, or to the error.
IN_TIME = 10.0
#: Errors that say that a rank is gone.
CLEAR = (RankFailed, CommunicatorClosed, ExecutorClosed)


@pytest.mark.parametrize("restarts", [True, False], ids=["restarts", "no restarts"])
def test_random_faults(restarts: bool) -> None:
    """Half of the runs each; a fault may also come while the ranks start, or when the call has ended."""
    chance = random.Random(int(restarts))
    seen = {"answer": 0, "error": 0}
    for number in range(RUNS // 2):
        ranks = chance.choice([2, 3, 4])
        program, given, right = chance.choice(PROGRAMS)
        how = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        what = f"run {number}: {program.__name__} on {ranks} ranks, {how.name}"
        executor = Executor(ranks, max_restarts=3 if restarts else 0)
        try:
            pids = executor.pids
            futures = executor.run(program, *given)
            time.sleep(chance.random() * 0.5)
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(pids), how)
            began, text = time.monotonic(), ""
            try:
                assert futures.results(IN_TIME + 20) == [right] * ranks, what
                seen["answer"] += 1
                in_time = IN_TIME + 10  # the work is done again, from the last checkpoint
            except CLEAR as error:
                text, in_time = str(error), IN_TIME
                seen["error"] += 1
            assert time.monotonic() - began < in_time, what
            assert text == "" or (not restarts and ("rank" in text or "closed" in text)), (what, text)
            pids = [*pids, *executor.pids]
        finally:
            executor.shutdown()
        wait_until(lambda pids=pids: none_runs(pids))
        wait_until(lambda: not ranks_of_servers())
        print(what, "answered in", round(time.monotonic() - began, 2), "s", flush=True)
    assert seen["answer"] > 0
    assert bool(seen["error"]) != restarts
