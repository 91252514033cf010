"""Profiles of workers: their tasks and memory, as frames, plots and an HTML page."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas
import pytest

import craton
import craton.pandas as pd
from craton import events
from craton.engine.tiled import TiledEngine, using
from craton.lower.tiled import Settings
from craton.memory import clear_memory
from craton.profiling import Profile, drawing
from craton.profiling.activity import TaskRecord
from craton.profiling.drawing import _lanes
from craton.schedule.inline import InlineRunner
from craton.schedule.tasks import Output, PartSize
from craton.schedule.telemetry import SAMPLES_PER_MESSAGE, Sample, Sampler
from craton.store import Store

PYTHON = Path(pd.__file__).parents[2]


@pytest.fixture
def engine() -> Iterator[TiledEngine]:
    clear_memory()
    made = TiledEngine(InlineRunner(bands=2), settings=Settings(tiles=4, collapse_bytes=0), least_bytes=0)
    with craton.option_context(small_rows=0), using(made):
        yield made


def sums(folder: Path) -> Any:
    path = folder / "rows.parquet"
    pandas.DataFrame({"k": [i % 7 for i in range(4000)], "x": range(4000)}).to_parquet(path, row_group_size=500)
    return pd.read_parquet(path).groupby("k")["x"].sum()


def sampled(report: Profile) -> None:
    """Record samples of memory from the driver and from two workers on two machines."""
    now = report._epoch
    for worker, node, own in ((-1, 0, 90 << 20), (0, 0, 200 << 20), (1, 1, 300 << 20)):
        tells = worker != 0
        samples = [
            Sample(now + i * 0.05, own + (i << 20), (i << 22) if tells else -1, (i << 19) if tells else -1)
            for i in range(40)
        ]
        report._record("memory", {"worker": worker, "node": node, "samples": samples})


def test_tasks_are_recorded(engine: TiledEngine, tmp_path: Path) -> None:
    frame = sums(tmp_path)
    with craton.profile() as report:
        frame.to_numpy()
    tasks = report.tasks()
    (tiling,) = engine.last
    stages = tiling.stages
    names = [f"{tiling.number}.{stage.name}" for stage in stages]
    assert len(tasks) == sum(stage.tiles for stage in stages)
    assert set(tasks["stage"]) == set(names)
    assert set(tasks["worker"]) == {0, 1}
    assert tasks["started"].is_monotonic_increasing
    assert tasks["started"].between(0, report.seconds).all()
    assert (tasks["seconds"] > 0).all()
    assert tasks["rows"].sum() == sum(stage.rows for stage in stages)
    assert (tasks.loc[tasks["stage"] == names[-1], "read"] > 0).all()
    text = str(report)
    assert text.splitlines()[-len(stages) - 1].split()[:3] == ["stage", "tasks", "seconds"]
    assert names[0] in text


def test_nothing_is_recorded_outside(engine: TiledEngine, tmp_path: Path) -> None:
    frame = sums(tmp_path)
    report = craton.profile()
    frame.to_numpy()
    assert report.tasks().empty
    assert report.memory().empty
    with report:
        pass
    for plot in (report.plot_tasks, report.plot_memory):
        with pytest.raises(ValueError, match="session with workers"):
            plot()
    assert "stage" not in str(report)
    assert report.tasks().columns.tolist() == [
        "stage", "worker", "started", "seconds", "rows", "nbytes", "memory", "read", "foreign",
    ]  # fmt: skip


def test_a_run_that_fails_has_the_tasks_that_were_done(tmp_path: Path) -> None:
    from craton.schedule.tasks import Task, new_key

    runner = InlineRunner()

    class Works:
        def run(self, inputs: Any, sink: Any) -> None:
            return

    class Fails:
        def run(self, inputs: Any, sink: Any) -> None:
            raise ZeroDivisionError

    with craton.profile() as report, pytest.raises(ZeroDivisionError):
        asyncio.run(runner.run([Task(new_key(), Works(), stage="a"), Task(new_key(), Fails(), stage="b")]))
    assert report.tasks()["stage"].tolist() == ["a"]


def test_memory_over_time() -> None:
    with craton.profile() as report:
        sampled(report)
    memory = report.memory()
    assert memory.columns.tolist() == ["process", "machine", "seconds", "own", "pages", "disk"]
    assert memory["process"].unique().tolist() == ["driver", "worker 0", "worker 1"]
    first = memory.groupby("process").first()
    assert first["own"].tolist() == [90 << 20, 200 << 20, 300 << 20]
    assert memory.loc[memory["process"] == "worker 0", "pages"].isna().all()
    assert first.loc["worker 1", "pages"] == 0
    assert memory["seconds"].max() == pytest.approx(39 * 0.05, abs=1e-3)


def test_drawings(engine: TiledEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    frame = sums(tmp_path)
    with craton.profile() as report:
        frame.to_numpy()
        sampled(report)
    for name, plot in (("tasks", report.plot_tasks), ("memory", report.plot_memory)):
        drawn = plot()
        assert drawn._repr_svg_() == drawn
        root = ElementTree.fromstring(drawn)
        assert root.tag.endswith("svg")
        assert "worker 0" in drawn
        assert "worker 1" in drawn
        assert f"{Path(__file__).name}:" in drawn
        for kind, begins in ((".png", b"\x89PNG"), (".svg", b"<svg"), (".html", b"<!doctype html>")):
            plot(tmp_path / f"{name}{kind}")
            assert (tmp_path / f"{name}{kind}").read_bytes().startswith(begins)
        with pytest.raises(ValueError, match=r"cannot write .*tasks\.jpg.*must end with \.png, \.svg or \.html"):
            plot(tmp_path / "tasks.jpg")
    tiles = sum(stage.tiles for stage in engine.last[0].stages)
    assert report.plot_tasks().count("<title>") == tiles
    monkeypatch.setattr(drawing, "_MAX_TOOLTIPS", 0)  # as if there were more tasks than tooltips
    assert "<title>" not in report.plot_tasks()
    assert "store of machine 1: on disk" in report.plot_memory()
    report.save(tmp_path / "all.html")
    page = (tmp_path / "all.html").read_text()
    assert page.count("<svg") == 2
    assert "<h2>Stages</h2>" in page
    assert "<h2>Calls</h2>" in page


def test_tasks_that_overlap_have_lanes_of_their_own() -> None:
    def task(worker: int, started: float, seconds: float) -> TaskRecord:
        return TaskRecord.of("a", Output(1, (PartSize(1, 8),), None, seconds, 0, worker, started))

    ran = [
        task(0, 0.0, 1.0),
        task(0, 0.5, 1.0),
        task(1, 0.6, 1.0),
        task(0, 1.0, 0.2),
        task(0, 1.1, 0.2),
        task(0, 2.0, 1.0),
    ]
    assert _lanes(ran) == [0, 1, 0, 0, 2, 0]


def test_a_sampler_tells_until_it_is_stopped() -> None:
    told: list[list[Sample]] = []

    async def go(store: Store) -> int:
        loop = asyncio.get_running_loop()
        enough: asyncio.Future[None] = loop.create_future()

        def tell(samples: list[Sample]) -> None:
            told.append(samples)
            if len(told) == 2:
                enough.set_result(None)

        sampler = Sampler(loop, tell)
        sampler.start(store)
        sampler.start(store)  # the second start has no effect
        await asyncio.wait_for(enough, 20)
        assert sampler.on
        sampler.stop()
        assert not sampler.on
        return len(told)

    began = time.time()
    with Store.open(1 << 20) as store:
        assert asyncio.run(go(store)) == 2
    samples = [sample for some in told for sample in some]
    assert len(samples) == 2 * SAMPLES_PER_MESSAGE
    assert [sample.when for sample in samples] == sorted(sample.when for sample in samples)
    assert samples[0].when >= began
    assert all(sample.own > 0 and sample.pages == 0 and sample.disk == 0 for sample in samples)


def test_a_store_that_ends_ends_no_sampling() -> None:
    async def go(store: Store, told: Callable[[list[Sample]], None]) -> None:
        sampler = Sampler(asyncio.get_running_loop(), told)
        sampler.start(store)
        for _ in range(SAMPLES_PER_MESSAGE - 1):
            assert sampler._timer is not None
            sampler._timer.cancel()
            sampler._sample()
        sampler.stop()

    found: list[Sample] = []
    with Store.open(1 << 20) as store:
        pass
    asyncio.run(go(store, found.extend))
    assert [sample.pages for sample in found] == [-1] * SAMPLES_PER_MESSAGE


def test_nobody_is_told_while_nobody_listens(
    engine: TiledEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("told")

    monkeypatch.setattr(events, "emit", refuse)
    sums(tmp_path).to_numpy()
    assert engine.runs


def test_a_script_leaves_a_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sums(tmp_path)
    script = tmp_path / "program.py"
    script.write_text("import pandas as pd\nprint(pd.read_parquet('rows.parquet').groupby('k')['x'].sum().sum())\n")
    done = subprocess.run(
        [sys.executable, "-m", "craton", "--profile-to=report.html", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PYTHON)},
    )
    assert (done.returncode, done.stdout) == (0, f"{sum(range(4000))}\n"), done.stderr
    page = (tmp_path / "report.html").read_text()
    assert "program.py:2" in page
    assert "DataFrame.groupby" in page
