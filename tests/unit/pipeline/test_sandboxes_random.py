"""Steps that fail at random, several at a time: each ends as it should, and nothing is left behind."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sandboxed import Steps, descendants, memfds, needs_linux, wait_for

from craton.pipeline.sandboxes import Sandboxes
from craton.pipeline.tasks import Limits, StepError, Stored
from craton.store import Store

pytestmark = needs_linux

EXPECTED = {
    "fine": None,
    "frames": None,
    "shared": None,
    "killed": "ended",
    "crash": "ended",
    "leaves": "ended",
    "hangs": "time",
    "memory": "memory",
    "wrong": "output",
    "raises": "raised",
    "late": "raised",
    "spreads": None,
}


def step(table: pa.Table, kind: str, rows: int) -> Any:
    import ctypes
    import os
    import signal
    import subprocess
    import time

    column = np.arange(rows)
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "crash":
        ctypes.string_at(0)
    if kind == "leaves":
        os._exit(rows % 3)
    if kind == "hangs":
        time.sleep(1000)
    if kind == "memory":
        return pa.table({"n": np.ones(100_000_000)})
    if kind == "wrong":
        return [column]
    if kind == "raises":
        raise ValueError("at random")
    if kind == "late":
        return late(column)
    if kind == "spreads":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if kind == "frames":
        return {"one": pd.DataFrame({"n": column}), "two": table}
    if kind == "shared":
        return table.slice(rows % 100)
    return table.slice(0, 1000).append_column("more", pa.array(column[:1000]))


def late(column: Any) -> Iterator[Any]:
    yield pa.record_batch({"n": column})
    yield pa.record_batch({"n": column})
    raise ValueError("after two batches")


def run(tmp_path: Path, count: int, seed: int) -> None:
    before, threads, held = set(descendants()), threading.active_count(), memfds()
    chosen = random.Random(seed)
    kinds = [chosen.choice(list(EXPECTED)) for _ in range(count)]
    with Store.open(1 << 28, directory=tmp_path) as store, Sandboxes(store, size=3) as sandboxes:
        steps = Steps(store, sandboxes)

        def source() -> pa.Table:
            return pa.table({"n": np.arange(300_000), "m": np.arange(300_000) * 0.5})

        def one(number: int) -> str | None:
            kind = kinds[number]
            rows = 50_000 + number * 100
            limits = Limits(memory=400 << 20, seconds=0.3 if kind == "hangs" else 60)
            try:
                outcome = steps.run(local, {"table": (first[0], "arrow")}, kind=kind, rows=rows, limits=limits)
            except StepError as error:
                return error.cause
            for name, output in outcome.outputs.items():
                check(kind, name, output, rows)
            return None

        def local(**given: Any) -> Any:
            return step(**given)

        first = [steps.one(source)]
        with ThreadPoolExecutor(4) as pool:
            causes = list(pool.map(one, range(count)))
        wrong = Counter((kind, cause) for kind, cause in zip(kinds, causes, strict=True) if EXPECTED[kind] != cause)
        assert not wrong
        used = store.counters()
        assert used["page_memory"] == first[0].nbytes
        assert len(store.describe()) == 1
        first.clear()
        assert wait_for(lambda: store.counters()["slab_used"] == 0)
    assert wait_for(lambda: set(descendants()) <= before)
    assert len(memfds()) <= len(held)
    assert wait_for(lambda: threading.active_count() <= threads)


def check(kind: str, name: str | None, output: Stored, rows: int) -> None:
    table = output.pages.to_arrow()
    if name == "one":
        assert table["n"][-1].as_py() == rows - 1
    elif kind in ("shared", "frames"):
        assert table["m"][-1].as_py() == 299_999 * 0.5
    else:
        assert table["more"][-1].as_py() == 999


def test_a_hundred_steps(tmp_path: Path) -> None:
    import sys

    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        run(tmp_path, 100, 1)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.slow
def test_a_thousand_steps(tmp_path: Path) -> None:
    import sys

    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        run(tmp_path, 1000, 2)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
