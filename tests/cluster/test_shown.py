"""Plans that run on workers, as users see them: `explain`, profiles, and progress."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
from jobs import Sleeps

import craton
import craton.pandas as pd
from craton import events
from craton.cluster.sessions import ClusterSession
from craton.engine.tiled import TiledEngine, current_engine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.schedule.tasks import RunProgress, Task, new_key

ROWS = 200_000


@pytest.fixture
def engine(session: ClusterSession) -> Iterator[TiledEngine]:
    """The session's engine, set up to run small plans in small tiles."""
    own = current_engine()
    assert own is not None
    assert own.where.startswith(f"on {session.host}: {len(session.runner.bands)} workers, ")
    settings = Settings(tiles=4, collapse_bytes=0, broadcast_bytes=1)
    made = TiledEngine(own.runner, own.call, settings, least_bytes=0, where=own.where)
    clear_memory()
    with craton.option_context(small_rows=0), using(made):
        yield made
    clear_memory()


@pytest.fixture
def joined(tmp_path: Path) -> Any:
    """A join with unsorted keys, so that both sides are exchanged by the hash of the keys."""
    left, right = tmp_path / "left.parquet", tmp_path / "right.parquet"
    keys = [i * 7 % ROWS for i in range(ROWS)]
    pandas.DataFrame({"k": keys, "x": range(ROWS)}).to_parquet(left, row_group_size=ROWS // 8)
    pandas.DataFrame({"k": keys, "y": range(ROWS)}).to_parquet(right, row_group_size=ROWS // 8)
    frame = pd.read_parquet(left).merge(pd.read_parquet(right), on="k")
    return frame.groupby("k")[["x", "y"]].sum()


def test_a_plan_is_explained(session: ClusterSession, engine: TiledEngine, joined: Any) -> None:
    assert craton.explain(joined).startswith(f"tiled {engine.where}\n")
    assert joined.to_numpy().sum(axis=0).tolist() == [sum(range(ROWS))] * 2
    runs = engine.runs
    text = craton.explain(joined, stage="analyzed")
    assert text.startswith(f"tiled {engine.where}: ")
    assert engine.runs == runs
    (tiling,) = [one for one in engine.last if one.stages]
    assert "· both sides are hashed by the keys into 4 parts, read as 4 tiles" in text
    exchanged = [stage for stage in tiling.stages if stage.exchange.startswith("by the hash of k")]
    assert len(exchanged) >= 2
    bands = {output.band for stage in tiling.stages for output in stage.outputs}
    machines = {band.node for band in session.runner.bands}
    if len(bands) > 1:
        assert sum(stage.foreign for stage in tiling.stages) > 0
    sent = sum(stage.moved.sent for stage in tiling.stages)
    assert (sent > 0) == (len(machines) > 1)
    if sent:
        assert re.search(r"[\d.]+ [KM]iB sent between machines", text.splitlines()[0])
    for stage in tiling.stages:
        assert all(output.started > 0 and output.seconds > 0 for output in stage.outputs)


def test_a_profile_has_tasks_and_memory(
    session: ClusterSession, engine: TiledEngine, joined: Any, tmp_path: Path
) -> None:
    workers = range(-1, len(session.runner.bands))
    heard: set[int] = set()
    all_heard = threading.Event()

    def listen(kind: str, fields: dict[str, Any]) -> None:
        if kind == "memory":
            heard.add(fields["worker"])
            if heard >= set(workers):
                all_heard.set()

    with craton.profile() as report:
        events.subscribe(listen)
        try:
            joined.to_numpy()
            assert all_heard.wait(30), heard
        finally:
            events.unsubscribe(listen)
    tasks = report.tasks()
    assert len(tasks) == sum(stage.tiles for one in engine.last for stage in one.stages)
    assert tasks["worker"].isin(workers).all()
    assert tasks["started"].between(-0.05, report.seconds).all()
    memory = report.memory()
    assert memory["process"].unique().tolist() == ["driver", *(f"worker {number}" for number in workers[1:])]
    assert (memory["own"] > 0).all()
    nodes = {band.node for band in session.runner.bands} | {0}
    assert set(memory.loc[memory["pages"].notna(), "machine"]) == nodes
    report.plot_tasks(tmp_path / "tasks.png")
    report.plot_memory(tmp_path / "memory.png")
    report.save(tmp_path / "report.html")


def test_sampling_ends_with_the_profile(session: ClusterSession, engine: TiledEngine, joined: Any) -> None:
    with craton.profile():
        joined.to_numpy()
    end = time.monotonic() + 20
    while session.runner.observation.sampler.on:
        assert time.monotonic() < end, "sampling has not stopped"
        time.sleep(0.02)


def test_progress_of_a_run(session: ClusterSession) -> None:
    tasks = [Task(new_key(), Sleeps(0.2), stage="7 Sleep") for _ in range(6)]

    async def go() -> None:
        await session.runner.run(tasks)
        session.runner.release([task.key for task in tasks])

    thread = threading.Thread(target=lambda: session.call(go()))
    thread.start()
    seen: list[RunProgress] = []
    while thread.is_alive():
        seen += [one for one in session.runner.progress() if not seen or seen[-1] != one]
        thread.join(0.005)
    assert {(one.stage, one.tasks) for one in seen} == {("7 Sleep", 6)}
    done = [one.done for one in seen]
    assert done == sorted(done)
    assert len(set(done)) > 1
    assert session.runner.progress() == []
