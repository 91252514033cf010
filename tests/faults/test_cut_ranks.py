"""Executors on machines of which one is cut off, or dies, at a random moment: the right answer, or a clear error in time."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import networks
from bench.harness.networks import Network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(networks.unavailable()), reason=str(networks.unavailable())),
]

RUNS = int(os.environ.get("CRATON_TEST_CUTS", "30"))
#: Seconds from a fault to the answer, or to the error.
IN_TIME = 10.0

_DRIVER = """
import sys
import craton
from craton.comm.errors import CommunicatorClosed, RankFailed
from craton.spmd import Executor, ExecutorClosed
from tests.unit.spmd.rank_programs import PROGRAMS

address, restarts = sys.argv[1], int(sys.argv[2])
for line in sys.stdin:
    ranks, which = map(int, line.split())
    program, given, right = PROGRAMS[which]
    with craton.init("dask", address=address, workers=2, threads=1):
        with Executor(ranks, max_restarts=restarts, min_parallelism=1) as executor:
            assert all(executor.run(lambda env: env.spans_machines).results(30))
            futures = executor.run(program, *given)
            print("= runs", flush=True)
            answers, errors = [], []
            for future in futures:
                try:
                    answers.append(future.result(40))
                except (RankFailed, CommunicatorClosed, ExecutorClosed) as error:
                    errors.append(" ".join(str(error).split())[:500])
            assert all(found == right for found in answers), answers
            # Restarted, there may be fewer ranks: those of the machine that is left.
            if len(answers) == ranks or (restarts and answers):
                print("= answer of", len(answers), "ranks", flush=True)
            else:
                print("= error", errors, flush=True)
    print("= closed", flush=True)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Network, str]]:
    """Three machines: a Dask scheduler on the first, whose address is returned, and a worker on each of the others."""
    with Network(3, rate="1gbit") as made, (tmp_path / "dask.log").open("w") as log:
        yield made, made.dask((1, 2), log)


@pytest.mark.parametrize("restarts", [3, 0], ids=["restarts", "no restarts"])
def test_random_cuts(cluster: tuple[Network, str], restarts: int) -> None:
    """A machine is cut off for some seconds, or until the run is over; its worker then connects again."""
    chance = random.Random(restarts)
    network, address = cluster
    process = network.python(
        0, "-c", _DRIVER, address, str(restarts), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def said(*starts: str) -> str:
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("= "):
                assert text[2:].startswith(starts), text
                return text[2:].strip()
        pytest.fail(f"the program has ended with exit code {process.wait(10)}")

    seen = {"answer": 0, "error": 0}
    for number in range(RUNS // 2):
        ranks, which = chance.choice([2, 3, 4]), chance.randrange(3)
        process.stdin.write(f"{ranks} {which}\n")
        process.stdin.flush()
        said("runs")
        time.sleep(chance.random() * 0.5)
        seconds = chance.choice([0.5, 5.0, 1e9])
        network.connect(2, False)
        began = time.monotonic()
        try:
            if seconds < 60:
                time.sleep(seconds)
                network.connect(2, True)
            answer = said("answer", "error")
        finally:
            network.connect(2, True)
        took = time.monotonic() - began
        what = f"run {number}: program {which} on {ranks} ranks, cut for {seconds:g} s: {answer} after {took:.1f} s"
        print(what, flush=True)
        kind = answer.split()[0]
        seen[kind] += 1
        assert took < IN_TIME + (10 if kind == "answer" else 0), what
        assert kind == "answer" or (not restarts and ("rank" in answer or "closed" in answer)), what
        said("closed")
    process.stdin.close()
    assert process.wait(30) == 0
    assert seen["answer"] > 0
