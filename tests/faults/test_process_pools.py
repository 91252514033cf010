"""Process pools that are started after plans have run: results are correct, and no pool hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import multiprocessing, os, random, sys, time
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import pandas
import craton, craton.pandas as pd

PATH, TIMES, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
craton.options.small_rows = 0
lazy, memory, plain = pd.read_parquet(PATH), pd.DataFrame(pandas.read_parquet(PATH)), pandas.read_parquet(PATH)
chosen = lazy[lazy["v"] > 10]


def of_file(n):
    return float(chosen[chosen["k"] == n]["v"].sum())


def of_memory(n):
    return float(memory[memory["k"] == n].sort_values("v")["v"].shift().max())


def of_argument(frame):
    return float(frame.groupby("k")["v"].sum().max())


def wanted(work):
    if work is of_file:
        return [float(plain[(plain["v"] > 10) & (plain["k"] == n)]["v"].sum()) for n in range(4)]
    if work is of_memory:
        return [float(plain[plain["k"] == n].sort_values("v")["v"].shift().max()) for n in range(4)]
    return [float(plain[plain["k"] < n + 2].groupby("k")["v"].sum().max()) for n in range(4)]


if __name__ == "__main__":
    drawn, slowest = random.Random(SEED), 0.0
    assert np.isclose(lazy["v"].sum(), plain["v"].sum())
    for number in range(TIMES):
        method = drawn.choice(["fork", "fork", "fork", "spawn", "forkserver"] if number % 10 == 0 else ["fork"])
        work = drawn.choice([of_file, of_memory, of_argument])
        given = [memory[memory["k"] < n + 2] for n in range(4)] if work is of_argument else list(range(4))
        context, began = multiprocessing.get_context(method), time.perf_counter()
        if drawn.random() < 0.5:
            with context.Pool(2) as pool:
                got = pool.map(work, given)
        else:
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                got = list(pool.map(work, given))
        slowest = max(slowest, time.perf_counter() - began)
        assert np.allclose(got, wanted(work), rtol=1e-9, atol=0), (number, method, work.__name__, got)
        if drawn.random() < 0.3:  # the parent process runs plans too
            assert np.isclose(chosen["v"].sum(), plain[plain["v"] > 10]["v"].sum())
            craton.clear_memory()
    print(f"{TIMES} pools, slowest {slowest:.1f} s")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.parametrize("times", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_many_pools(tmp_path: Path, times: int) -> None:
    numbers = np.random.default_rng(3)
    rows = 20_000
    frame = pandas.DataFrame({"k": numbers.integers(0, 7, rows), "v": numbers.normal(20, 30, rows)})
    frame.to_parquet(tmp_path / "rows.parquet")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    seed = int.from_bytes(os.urandom(3), "big")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "rows.parquet"), str(times), str(seed)],
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, (seed, done.stderr)
    print(done.stdout)
