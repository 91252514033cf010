"""Output of ``explain`` and the progress line for plans that run as tiles: before, during and after the run."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plans import OTHER, col, compare, scan, total

import craton
import craton.pandas as pd
from craton.engine.tiled import TiledEngine, using
from craton.kernel import progress as progress_module
from craton.lower.tiled import Settings, Tiling, single_task
from craton.lower.tiled.report import printable, table
from craton.lower.tiled.single_task import single_task_note
from craton.memory import clear_memory
from craton.plan import build
from craton.plan.expr import Call, Literal, WindowCall
from craton.plan.functions.strategies import AllRows, HashPartitioned
from craton.plan.names import HIDDEN
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, SortKey, Window
from craton.plan.visit import topological
from craton.schedule.inline import InlineRunner
from craton.schedule.tasks import Output, RunProgress, Task, Traffic, new_key
from craton.store import Store

ROWS = 4000


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.parquet"
    frame = pandas.DataFrame({"k": [i % 7 for i in range(ROWS)], "x": [i * 0.5 for i in range(ROWS)]})
    frame.to_parquet(path, row_group_size=500)
    return str(path)


@pytest.fixture
def engine() -> Iterator[TiledEngine]:
    clear_memory()
    made = TiledEngine(InlineRunner(bands=2), settings=Settings(tiles=4, collapse_bytes=0), least_bytes=0)
    with craton.option_context(small_rows=0), using(made):
        yield made


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


# ---- before ----


def test_explain_shows_the_engine(file: str, engine: TiledEngine) -> None:
    frame = pd.read_parquet(file)
    assert lines(craton.explain(frame))[0] == "tiled in this process"
    assert "tiled" not in craton.explain(frame, stage="logical")
    engine.where = "on local: 2 workers, 2 threads"
    assert lines(craton.explain(frame))[0] == "tiled on local: 2 workers, 2 threads"
    engine.least_bytes = 32 << 20
    assert lines(craton.explain(frame))[0] == (
        "single node, in this process: it reads about 62.5 KiB, and plans are cut into tiles from 32.0 MiB on"
    )
    engine.least_bytes = 0
    means = frame.groupby("k").mean()
    means.to_numpy()
    again = pd.read_parquet(file).groupby("k").mean()
    assert lines(craton.explain(again))[0] == "result cache: it has the result of this plan, so nothing has to run"
    assert engine.runs


def test_explain_shows_no_engine_without_workers(file: str) -> None:
    with using(None), craton.option_context(small_rows=0):
        assert re.match(r"\w+ ", craton.explain(pd.read_parquet(file)))
        assert "this process" not in craton.explain(pd.read_parquet(file))


def test_explain_notes_operators_of_a_single_task(file: str, engine: TiledEngine, tmp_path: Path) -> None:
    frame = pd.read_parquet(file)
    assert "runs on one worker" not in craton.explain(frame.groupby("k")["x"].sum())
    frame.to_csv(tmp_path / "rows.csv", index=False)
    rows = tmp_path / "rows.csv"
    note = "· runs on one worker: csv is read from its first row to the last"
    assert note in lines(craton.explain(pd.read_csv(rows)))
    assert note in craton.explain(pd.read_csv(rows), format="svg")
    assert "one worker" not in craton.explain(pd.read_csv(rows), stage="pushed")


def rank(base: Any, *partition: Any) -> WindowCall:
    return WindowCall("rank", (col(base, "x"),), pl.Float64(), partition, (("method", "average"),))


def test_single_task_windows_are_found_in_every_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_task, "strategy_of", lambda window: HashPartitioned() if window.partition else AllRows())
    base = scan()
    over = Call("gt", (rank(base), Literal(1.0, pl.Float64())), pl.Boolean())
    plans = [
        build.project(base, (("r", rank(base)),)),
        build.project(base, (("r", Call("add", (rank(base), col(base, "x")), pl.Float64())),)),
        build.filter(base, over),
        build.sort(base, (SortKey(rank(base)),)),
        build.join(base, scan(OTHER), "inner", (rank(base),), (col(scan(OTHER), "y"),)),
        build.aggregate(base, (), (("n", AggregateCall("sum", (rank(base),), pl.Float64())),)),
        build.aggregate(base, (("r", rank(base)),), (("n", total(base, "p")),)),
    ]
    notes = [[note for op in topological(plan) if (note := single_task_note(op))] for plan in plans]
    assert notes == [["rank of all rows"]] * len(plans)
    assert single_task_note(Window(base, (("r", rank(base, col(base, "k"))),))) is None
    assert single_task_note(base) is None
    assert single_task_note(Filter(base, compare(base, "k", "gt", 0))) is None


def test_single_task_notes_agree_with_the_run(file: str, engine: TiledEngine) -> None:
    frame = pd.read_parquet(file)
    found = [frame["x"].rank(), frame["x"].cumsum(), frame["x"].shift(), frame["x"] / frame["x"].sum()]
    for lazy in found:
        notes = "runs on one worker" in craton.explain(lazy)
        assert notes == ("by one task" in craton.explain(lazy, stage="analyzed"))


# ---- after ----


def join() -> Aggregate:
    left, right = scan(), scan(OTHER)
    joined = Join(left, right, "inner", (col(left, "k"),), (col(right, "rk"),))
    return Aggregate(joined, (("q", col(joined, "q")),), (("y", total(joined, "y")),))


def ran(plan: Any, runner: InlineRunner | None = None, **settings: Any) -> Tiling:
    given = Settings(**{"tiles": 2, "collapse_bytes": 0, **settings})
    engine = TiledEngine(runner or InlineRunner(bands=2), settings=given)
    engine.collect([plan], ordered=True)
    (tiling,) = engine.last
    return tiling


def test_stages_and_decisions_are_noted_at_their_operators() -> None:
    tiling = ran(join())
    (joined,) = [op for op in tiling.notes if isinstance(op, Join)]
    assert tiling.notes[joined] == ["the right side, 3 rows, goes to each of 2 tiles of the left"]
    assert [what for _, what in tiling.decisions] == [what for notes in tiling.notes.values() for what in notes]
    assert {type(stage.operator).__name__ for stage in tiling.stages} <= {"Aggregate", "Join", "Scan", "Project"}
    assert tiling.rows == 3
    assert tiling.seconds is not None
    ends = [0.0, *(stage.ended for stage in tiling.stages), tiling.seconds]
    assert ends == sorted(ends)
    for stage in tiling.stages:
        assert 0 <= stage.began <= stage.ended
        assert stage.longest <= stage.seconds
        assert stage.tiles == len(stage.outputs)
        assert {output.band for output in stage.outputs} <= {0, 1}
    text = table(tiling.stages)
    assert len(text.splitlines()) == 1 + len(tiling.stages)
    assert "by the hash of q into 2" in text


def test_a_plan_that_ran_is_not_run_again(file: str, engine: TiledEngine) -> None:
    sums = pd.read_parquet(file).groupby("k")["x"].sum()
    text = craton.explain(sums, stage="analyzed")
    assert engine.runs == 1
    assert re.match(
        r"tiled in this process: \d+\.\d{3} s, (\d+) stages, \d+ tiles, \d+\.\d{3} s of tasks, 0 B spilled, 0 B sent",
        text,
    )
    assert "\x01" not in text
    assert craton.explain(sums, stage="analyzed") == text
    sums.to_numpy()
    assert engine.runs == 1
    other = pd.read_parquet(file)["x"].max()
    assert other == (ROWS - 1) * 0.5
    assert engine.runs == 2
    again = pd.read_parquet(file).groupby("k")["x"].sum()
    assert "· stage" in craton.explain(again, stage="analyzed", format="svg")
    assert engine.runs == 3


def test_the_run_of_a_result_is_analyzed_afterwards(file: str, engine: TiledEngine) -> None:
    sums = pd.read_parquet(file).groupby("k")["x"].sum()
    assert sums.to_numpy().sum() == sum(range(ROWS)) * 0.5
    runs = engine.runs
    head, *rest = lines(craton.explain(sums, stage="analyzed"))
    assert engine.runs == runs
    assert head.startswith("tiled in this process")
    at = rest.index("")
    assert rest[at + 1].split()[:4] == ["stage", "for", "tiles", "rows"]
    assert len(rest) == at + 2 + len(engine.last[0].stages)


def test_a_single_node_run_shows_its_reason(file: str, engine: TiledEngine) -> None:
    engine.least_bytes = 1 << 30
    sums = pd.read_parquet(file).groupby("k")["x"].sum()
    text = craton.explain(sums, stage="analyzed")
    assert re.match(r"single node, in this process: it reads about .* from 1\.0 GiB on; \d+\.\d{3} s, 7 rows\n", text)
    with using(None):
        assert re.match(r"single node, in this process; \d+\.\d{3} s, 7 rows\n", craton.explain(sums, stage="analyzed"))
    assert engine.runs == 0


def test_an_unknown_stage_is_refused(file: str) -> None:
    with pytest.raises(ValueError, match="'lowered', 'analyzed'"):
        craton.explain(pd.read_parquet(file), stage="executed")


def test_hidden_column_names_are_printable() -> None:
    assert printable(f"by {HIDDEN}12 and q") == "by #12 and q"


def test_spilled_bytes_are_attributed_to_stages(tmp_path: Path) -> None:
    n = 200_000
    frame = pl.DataFrame({"k": range(n), "x": range(n), "y": range(n)})
    left, right = scan(frame), scan(pl.DataFrame({"rk": range(n), "z": range(n)}))
    joined = Join(left, right, "inner", (col(left, "k"),), (col(right, "rk"),))
    with Store.open(20 << 20, directory=tmp_path) as store:
        tiling = ran(joined, InlineRunner(store), broadcast_bytes=1)
        counted = store._native.counters()
        assert sum(stage.moved.spilled for stage in tiling.stages) <= counted["written"]
        assert sum(stage.moved.spilled for stage in tiling.stages) > 0
        assert sum(stage.moved.sent for stage in tiling.stages) == 0
        assert "MiB" in table(tiling.stages)


def test_traffic_counts_up() -> None:
    before, now = Traffic(10, 20, 30), Traffic(15, 5, 31)
    assert now.since(before) == Traffic(5, 0, 1)


# ---- meanwhile ----


class Watched(InlineRunner):
    """A runner that records the engine's progress line at each task."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = TiledEngine(self, settings=Settings(tiles=3, collapse_bytes=0), least_bytes=0)
        self.lines: list[str] = []
        self.wait: threading.Event | None = None

    def _run_one(self, task: Task, number: int) -> Output:
        self.lines.append(self.engine._describe_progress())
        if self.wait is not None:
            assert self.wait.wait(20)
        return super()._run_one(task, number)


def test_progress_shows_running_stages(file: str) -> None:
    runner = Watched()
    clear_memory()
    with craton.option_context(small_rows=0), using(runner.engine):
        pd.read_parquet(file)["x"].sum()
    (tiling,) = runner.engine.last
    assert runner.lines[:3] == [
        f"{tiling.number}.1 Aggregate {done}/3 tiles · 0 stages done · in this process" for done in range(3)
    ]
    assert " 0/1 tiles · 1 stage done · " in runner.lines[3]
    assert runner.progress() == []


def test_a_failed_run_is_not_shown_as_running() -> None:
    class Fails:
        def run(self, inputs: Any, sink: Any) -> None:
            seen.append(runner.progress())
            raise ZeroDivisionError

    runner = InlineRunner()
    seen: list[list[RunProgress]] = []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(runner.run([Task(new_key(), Fails(), stage="a")]))
    assert seen == [[("a", 0, 1)]]
    assert runner.progress() == []


@pytest.mark.parametrize("shown", ["on", "off", "auto"])
def test_the_progress_line_follows_the_option(shown: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Watched()
    screen = io.StringIO()
    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    monkeypatch.setattr(progress_module, "_INTERVAL", 0.001)
    monkeypatch.setattr(sys, "stderr", screen)
    clear_memory()
    drawn = threading.Event()
    if shown == "on":
        runner.wait = drawn
        draw = progress_module._Terminal.draw
        monkeypatch.setattr(progress_module._Terminal, "draw", lambda self, line: (draw(self, line), drawn.set()))
    with craton.option_context(small_rows=0, progress=shown), using(runner.engine):  # type: ignore[arg-type]
        assert pd.read_parquet(file)["x"].sum() > 0
    if shown == "on":
        assert re.search(
            r"craton: \d+\.1 Aggregate 0/3 tiles · 0 stages done · in this process · \d+\.\d s", screen.getvalue()
        )
        assert screen.getvalue().endswith("\r\x1b[2K")
    else:
        assert screen.getvalue() == ""
