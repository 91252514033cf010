"""Programs in a control group with less memory than their data: they complete, with correct results."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas
import polars as pl
import pyarrow.parquet as pq
import pytest

from bench.store.machine import ControlGroup, why_not

ROOT = Path(__file__).resolve().parents[2]
ROWS = 8_000_000
LIMIT = 450_000_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}"),
]

PROGRAM = """
    import sys

    import craton
    import craton.pandas as pd

    folder = sys.argv[1]
    assert craton.options.memory_limit < {limit}
    left, right = pd.read_parquet(folder + "/left.parquet"), pd.read_parquet(folder + "/right.parquet")
    joined = left.merge(right, on="k")
    joined.to_parquet(folder + "/joined.parquet")
    sums = joined.groupby("x").agg(y=("y", "sum"), rows=("k", "count"))
    print(len(sums), int(sums["y"].sum()), int(sums["rows"].sum()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    numbers = np.random.default_rng(3)
    for name, value in (("left", "x"), ("right", "y")):
        keys = numbers.permutation(ROWS)
        frame = pl.DataFrame({"k": keys, value: keys % 3_000_000 if name == "left" else keys // 2, "z" + value: keys})
        frame.write_parquet(folder / f"{name}.parquet", row_group_size=250_000)
    return folder


def test_a_join_larger_than_the_limit(folder: Path) -> None:
    program = textwrap.dedent(PROGRAM).format(limit=LIMIT)
    with ControlGroup(f"craton-test-{os.getpid()}", LIMIT) as group:
        done = subprocess.run(
            group.command(sys.executable, "-c", program, str(folder)),
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    keys = np.arange(ROWS)
    assert done.stdout.split() == [str(3_000_000), str(int((keys // 2).sum())), str(ROWS)]
    expected = pq.read_table(folder / "left.parquet", columns=["k"]).column("k").to_numpy()
    joined = pq.read_table(folder / "joined.parquet", columns=["k", "y"])
    assert np.array_equal(joined.column("k").to_numpy(), expected)
    assert np.array_equal(joined.column("y").to_numpy(), expected // 2)
    assert sorted(os.listdir(folder)) == ["joined.parquet", "left.parquet", "right.parquet"]
    assert isinstance(pandas.read_parquet(folder / "joined.parquet", columns=["x"]).index, pandas.RangeIndex)
