"""Ctrl-C at random moments of random programs: each ends soon, and leaves no process behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = 1_000_000
#: Seconds after the interrupt at which a program counts as hanging. The actual times are printed (``pytest -s``).
HANGS = 20

#: The steps that programs repeat until they are interrupted.
STEPS = [
    "frame.groupby('k')['v'].mean().sort_values().head(3).sum()",
    "frame.sort_values(['s', 'v'])['v'].shift().mean()",
    "frame.merge(frame.groupby('k', as_index=False)['v'].sum(), on='k')['v_x'].cumsum().max()",
    "len(frame[frame['v'] > frame['v'].mean()].drop_duplicates(['k', 's']))",
    "frame['s'].str.upper().value_counts().sum()",
    "memory.assign(w=memory['v'].rank()).groupby('s')['w'].transform('sum').sum()",
    "memory['v'].rolling(50).mean().sum()",
    "memory.head(100_000)['v'].map(lambda v: v + 1).sum()",
    "memory.head(50_000).apply(lambda row: row['v'] * 2, axis=1).sum()",
    "memory.head(200_000).groupby('k').apply(lambda group: group['v'].max()).sum()",
    "frame.to_parquet(PATH + f'.{os.getpid()}')",
    "pd.read_csv(TEXT).groupby('k')['v'].std().sum()",
    "frame.pivot_table(values='v', index='k', columns='s', aggfunc='sum').sum().sum()",
    "sum(craton.map(lambda n: sum(range(n)), range(2000)))",
    "pickle.loads(pickle.dumps(frame[frame['k'] < 5]))['v'].sum()",
    "list(frame.head(20_000).itertuples())[:1]",
    "repr(frame[frame['v'] > 0])",
]

PROGRAM = """
import faulthandler, os, pickle, random, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes inherit that SIGINT is ignored
import craton, craton.pandas as pd
faulthandler.register(signal.SIGUSR1, all_threads=True)  # shows where a hanging program is
PATH, TEXT = sys.argv[1:3]
steps = sys.argv[4:]
frame = pd.read_parquet(PATH)
memory = pd.read_parquet(PATH).head(400_000).copy()
len(memory)
craton.options.small_rows = int(sys.argv[3])
if "SESSION" in os.environ:
    craton.init("local", workers=2)
print("running", flush=True)
while True:
    for step in steps:
        craton.clear_memory()
        eval(step)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    numbers = np.random.default_rng(5)
    frame = pandas.DataFrame(
        {
            "k": numbers.integers(0, 1000, ROWS),
            "v": numbers.normal(size=ROWS),
            "s": numbers.choice(["a", "b", "c", None], ROWS),
        }
    )
    frame.to_parquet(folder / "rows.parquet")
    frame.head(200_000).to_csv(folder / "rows.csv", index=False)
    return folder


@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_ctrl_c_at_random_moments(folder: Path, times: int) -> None:
    seed = random.SystemRandom().randrange(10**9)
    drawn = random.Random(seed)
    took: list[float] = []
    for number in range(times):
        steps = drawn.sample(STEPS, 3)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        if drawn.random() < 0.25:
            environment["SESSION"] = "1"
        command = [sys.executable, "-c", PROGRAM, str(folder / "rows.parquet"), str(folder / "rows.csv")]
        process = subprocess.Popen(
            [*command, drawn.choice(["0", "1000"]), *steps],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        what = f"seed {seed}, number {number}: {steps}"
        assert process.stdout is not None
        if process.stdout.readline().strip() != "running":
            raise AssertionError(f"{what}: {process.communicate()[1]}")
        time.sleep(drawn.random() * 3)  # the random moment
        children = psutil.Process(process.pid).children(recursive=True)
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            process.kill()
            raise AssertionError(f"{what}: it did not end within {HANGS} s; {process.communicate()[1]}") from None
        took.append(time.perf_counter() - began)
        assert process.returncode not in (0, None), what
        assert "KeyboardInterrupt" in errors, (what, errors)
        _, alive = psutil.wait_procs(children, timeout=HANGS)
        assert not alive, (what, alive)
    took.sort()
    print(
        f"\n{times} programs interrupted (seed {seed}): median {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s, "
        f"{sum(one > 1 for one in took)} over 1 s, {sum(one > 2 for one in took)} over 2 s"
    )
