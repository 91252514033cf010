"""A process makes tables, hands their memory over to a store and ends; the store has them, without a copy where that was possible."""

from __future__ import annotations

import doctest
import itertools
import os
import pickle
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from craton.pipeline import handover, preload
from craton.store import Store

pytestmark = pytest.mark.skipif(not preload.LIBRARY.exists(), reason="the allocator exists on Linux only")

CHILD = """
import array, os, pickle, socket, sys
import numpy as np, pandas as pd, pyarrow as pa
pa.set_memory_pool(pa.system_memory_pool())
from craton.pipeline.handover import hand_over
{body}
given = hand_over(tables)
channel = socket.socket(fileno=int(sys.argv[1]))
said = pickle.dumps(([(length, blocks) for _, length, blocks in given.memfds], given.pages, given.new, given.copied, given.shared))
channel.sendall(len(said).to_bytes(8, "little"))
socket.send_fds(channel, [b"."], [fd for fd, *_ in given.memfds])
channel.sendall(said)
"""


def run(body: str, store: Store, *, allocator: bool = True) -> tuple[Any, Any]:
    """Run a program that makes ``tables`` in another process; return the set that has them, and the bytes: new, copied, shared."""
    here, there = socket.socketpair()
    code = CHILD.format(body=textwrap.dedent(body))
    environment = preload.environment() if allocator else None
    command = [sys.executable, "-c", code, str(there.fileno())]
    with here, subprocess.Popen(command, pass_fds=[there.fileno()], env=environment) as process:
        there.close()
        size = int.from_bytes(here.recv(8, socket.MSG_WAITALL), "little")
        _, fds, _, _ = socket.recv_fds(here, 1, 16)
        memfds, pages, *counts = pickle.loads(here.recv(size, socket.MSG_WAITALL))
    assert process.returncode == 0
    made = store.create_set()
    store.adopt(made, [(fd, *one) for fd, one in zip(fds, memfds, strict=True)], pages)
    for fd in fds:
        os.close(fd)
    return made, counts


def tables_of(made: Any) -> list[pa.Table]:
    return [pa.table(made.pin(info).batch()) for info in made.pages()]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(1 << 30, directory=tmp_path) as opened:
        yield opened


def test_numpy_pandas_and_arrow_tables_are_handed_over(store: Store) -> None:
    body = """
    n = 300_000
    frame = pd.DataFrame({"k": np.arange(n) % 7, "x": np.sqrt(np.arange(n)), "s": pd.Series([f"row {i}" for i in range(n)])})
    grouped = frame.groupby("k", as_index=False)["x"].sum()
    tables = [pa.Table.from_pandas(frame.sort_values("x", ascending=False)), pa.Table.from_pandas(grouped)]
    tables += [pa.table({"n": np.arange(n), "part": pa.array(np.arange(n) * 2).cast("int32")})]
    """
    made, (new, copied, shared) = run(body, store)
    assert shared == 0
    assert copied < 0.02 * new
    tables = tables_of(made)
    assert [table.num_rows for table in tables] == [300_000, 7, 300_000]
    first = tables[0].to_pandas()
    assert np.array_equal(first["x"].to_numpy(), np.sqrt(np.arange(300_000))[::-1])
    assert first["s"].tolist() == [f"row {i}" for i in reversed(range(300_000))]
    assert tables[1]["k"].to_pylist() == list(range(7))
    counters = store.counters()
    assert counters["adopted"] == new + copied
    assert counters["copied"] == counters["shared"] == 0


def test_without_the_allocator_all_is_copied_once(store: Store) -> None:
    made, (new, copied, shared) = run("tables = [pa.table({'x': np.arange(100_000)})]", store, allocator=False)
    assert (new, copied, shared) == (0, 800_000, 0)
    assert tables_of(made)[0]["x"].to_numpy().sum() == 99_999 * 50_000


def test_overlapping_slices_empty_tables_nulls_and_small_ones(store: Store) -> None:
    body = """
    whole = np.arange(400_000)
    column = pa.array(whole)
    tables = [
        pa.table({"a": column[:300_000], "b": column[100_000:]}),
        pa.table({"a": column[7:8], "c": pa.array([None], pa.string())}),
        pa.table({"a": pa.array([], pa.int64())}),
        pa.table({"flags": pa.array([True, None, False] * 200_000), "d": pa.array(["x", "y", None] * 200_000).dictionary_encode()})[3:],
    ]
    """
    made, _ = run(body, store)
    tables = tables_of(made)
    assert tables[0]["b"].to_numpy()[0] == 100_000
    assert tables[0]["a"].to_numpy()[-1] == 299_999
    assert tables[1].to_pylist() == [{"a": 7, "c": None}]
    assert tables[2].num_rows == 0
    assert tables[3]["flags"].to_pylist()[:3] == [True, None, False]
    assert tables[3]["d"].to_pylist()[-3:] == ["x", "y", None]


def test_memory_that_no_table_uses_is_returned(store: Store) -> None:
    body = """
    large = [np.ones(4_000_000) for _ in range(8)]
    tables = [pa.table({"x": large[3][:100_000]})]
    """
    made, _ = run(body, store)
    assert store.counters()["slab_used"] < 1_000_000
    assert tables_of(made)[0]["x"].to_numpy().sum() == 100_000


def test_pages_outlive_eviction_and_are_dropped_with_their_set(tmp_path: Path) -> None:
    with Store.open(8 << 20, directory=tmp_path) as small:
        made, _ = run("tables = [pa.table({'x': np.arange(300_000) * 3})]", small)
        others = small.create_set()
        for _ in range(6):
            others.append(pa.table({"y": np.random.default_rng(1).random(300_000)}))
        assert small.counters()["written"] > 0
        assert tables_of(made)[0]["x"].to_numpy()[-1] == 299_999 * 3
        del others, made
        assert small.counters()["page_memory"] == 0


def test_joined() -> None:
    assert doctest.testmod(handover).failed == 0
    ranges = [(int(a), int(b)) for a, b in np.random.default_rng(0).integers(1, 5_000, (300, 2))]
    blocks = handover.joined(ranges)
    assert all(first[0] + first[1] <= second[0] for first, second in itertools.pairwise(blocks))
    for offset, length in ranges:
        assert any(start <= offset and offset + length <= start + size for start, size in blocks)
