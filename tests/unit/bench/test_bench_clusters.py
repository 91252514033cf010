"""The benchmarks of clusters, in small: comparisons of answers, counts of bytes, and generated tables."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="DuckDB comes with the bench extra")
pytest.importorskip("psutil", reason="psutil comes with the bench extra")

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import craton.pandas
from bench.clusters import contestants as clusters_contestants
from bench.clusters import kills as clusters_kills
from bench.clusters import limit as clusters_limit
from bench.clusters import moved as clusters_moved
from bench.clusters import turns as clusters_turns
from bench.clusters.contestants import digest_part, exact_table, merged
from bench.cylon.contestants import digest
from bench.harness import answers
from craton.demo import data
from craton.demo.queries import QUERIES
from craton.lower.tiled import Settings
from craton.schedule.tasks import Read, Task


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.ensure(0.02, tmp_path_factory.mktemp("tpch"))


FRAME = pd.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "z"], "c": [1.5, 2.5, 3.5]})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (FRAME, None),
        (FRAME.assign(c=FRAME["c"] * (1 + 1e-12)), None),
        (FRAME.assign(c=FRAME["c"] * (1 + 1e-7)), "row 0 c"),
        (FRAME.assign(a=FRAME["a"].astype("float64")), "a: float64"),
        (FRAME.set_index("b", drop=False), "'b'"),
        (FRAME.iloc[[0, 2, 1]].reset_index(drop=True), "row 1 b"),
        (FRAME.iloc[:2], "2 rows"),
    ],
)
def test_what_is_not_quite_equal_differs(other: pd.DataFrame, said: str | None) -> None:
    found = answers.difference(exact_table(FRAME), exact_table(other), order_by="every", tolerance=1e-9)
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize("ordered_by", [None, "key"])
def test_digests_of_parts_are_that_of_the_whole(ordered_by: str | None) -> None:
    random = np.random.default_rng(5)
    columns = {"key": np.sort(random.integers(0, 1 << 40, 1000)), "value": random.integers(0, 1 << 40, 1000)}
    cuts = [0, 10, 10, 600, 1000]
    parts = [{name: of[a:b] for name, of in columns.items()} for a, b in itertools.pairwise(cuts)]
    found = [json.loads(json.dumps(digest_part(part, ordered_by))) for part in parts]
    assert merged(found, ordered_by) == digest(columns, ordered_by)
    if ordered_by is not None:
        assert not merged(found[::-1], ordered_by)["in_order"]


def test_tiles_and_the_whole_are_compared(tables: Path) -> None:
    options: dict[str, Any] = {"work": "tpch", "folder": str(tables), "exact": True}
    whole = clusters_contestants.open_contestant("embedded", {**options, "engine": "embedded"})
    expected = whole.answer("q04", whole.run("q04"))
    from craton.engine.tiled import set_engine

    try:
        tiled = clusters_contestants.open_contestant(
            "tiles-3", {**options, "engine": "tiles", "tiles": 3, "every": True, "broadcast": 0}
        )
        tiled.forget()
        found = tiled.answer("q04", tiled.run("q04"))
    finally:
        set_engine(None)
    assert answers.difference(expected, found, order_by="every", tolerance=1e-9) is None


def test_a_part_of_a_read_is_a_part_of_the_bytes() -> None:
    recorded = clusters_moved.Recorded(sizes={1: ((10, 100), (0, 0)), 2: ((5, 50), (5, 500))})
    assert recorded.read_bytes(Read((1, 2), (0, 1))) == {1: 100, 2: 550}
    assert recorded.read_bytes(Read((1, 2), (0, 1), (8, 3))) == {1: 20, 2: 10}
    assert recorded.read_bytes(Read((1, 2), (0, 1), (10, 99))) == {2: 550}


def test_what_moves_is_counted(tables: Path) -> None:
    recorded = clusters_moved.record(2, QUERIES["q03"], str(tables), Settings(tiles=5, broadcast_bytes=0))
    assert sum(map(len, recorded.runs)) > 15
    every = sum(
        size
        for run in recorded.runs
        for task in run
        for read in task.inputs
        for size in recorded.read_bytes(read).values()
    )
    for way in clusters_moved.WAYS.values():
        moved = {policy: way(recorded, 2, policy) for policy in clusters_moved.POLICIES}
        assert 0 < min(moved.values()) <= max(moved.values()) < every
        assert way(recorded, 1, "random") == 0
    graph = clusters_moved.moved_in_graph(recorded, 2, "round-robin")
    assert clusters_moved.least_found(recorded, 2) <= graph
    assert clusters_moved.least_found(recorded, 1) == 0


def test_what_is_searched_is_found() -> None:
    """The search finds the smallest number of bytes that must move between two bands.

    It is none if each task reads one other task, and half of all bytes if every task reads every other.
    """
    read = [Task(key, None) for key in range(4)]  # type: ignore[arg-type]
    apart = [Task(4 + key, None, (Read(((key * 3 + 1) % 4,)),)) for key in range(4)]  # type: ignore[arg-type]
    every = [Task(8 + key, None, (Read((4, 5, 6, 7)),)) for key in range(4)]  # type: ignore[arg-type]
    sizes = dict.fromkeys(range(8), ((1, 10),))
    assert clusters_moved.least_found(clusters_moved.Recorded([read, apart], sizes), 2) == 0
    assert clusters_moved.least_found(clusters_moved.Recorded([read, apart, every], sizes), 2) == 80


def test_the_tables_are_as_they_are_said_to_be(tmp_path: Path) -> None:
    clusters_limit.make(tmp_path, 32 * 20_000)
    wide = pq.read_table(tmp_path / "wide.parquet")
    assert wide.num_rows == 20_000
    keys = wide["many"].to_numpy()
    assert len(set(keys)) == 18_000
    assert len(set(wide["few"].to_numpy())) == clusters_limit.FEW
    for name, share in clusters_limit.MATCHES.items():
        found = pq.read_table(tmp_path / f"{name}.parquet")["many"].to_numpy()
        assert len(set(found)) == len(found) == 5000
        assert np.isin(found, keys).mean() == pytest.approx(share)
    expected = clusters_limit._by_sql(tmp_path, 1 << 30)
    assert expected.keys() == clusters_turns.QUERIES.keys()
    for name, query in clusters_turns.QUERIES.items():
        found = exact_table(pd.DataFrame(query(craton.pandas, str(tmp_path))))
        assert answers.difference(expected[name], found, order_by="every") is None, name


@pytest.mark.slow
def test_workers_are_killed(tables: Path, tmp_path: Path) -> None:
    result: dict[str, Any] = {"title": "Kills", "bars": []}
    clusters_kills.measure(result, tables, kills=3, batch=2, workers=2, broadcast=1 << 16, hang=30, seed=1)
    assert sum(result["outcomes"].values()) == len(result["runs"]) == 3
    assert all(line["met"] for line in result["bars"]), result
    clusters_kills.plot(result, tmp_path / "kills.png")
    assert (tmp_path / "kills.png").stat().st_size > 1000
