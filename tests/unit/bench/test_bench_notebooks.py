"""The benchmark of notebooks: seconds and printed text of each cell, slow cells, fresh processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.command import entries
from bench.harness.measure import Benchmark, Case, measure
from bench.notebooks.cells import cells
from bench.notebooks.contestants import open_contestant
from bench.notebooks.data import make
from bench.notebooks.run import main, slow_cells


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("census", 500, tmp_path_factory.mktemp("notebooks") / "census-500")


def test_a_cell_has_seconds_and_text(folder: Path) -> None:
    contestant = open_contestant("pandas", {"folders": {"census": str(folder)}})
    outcome = contestant.run("census")
    titles = [cell.title for cell in cells("census")]
    assert list(contestant.parts()) == list(outcome.printed) == titles
    assert all(seconds > 0 for seconds in contestant.parts().values())
    answer = contestant.answer("census", outcome)
    assert answer["Imports"] == []
    assert answer["Reading"][:3] == ["age", "workclass", "weight"]
    assert {path.name for path in folder.iterdir()} == {"census.csv"}


def test_slow_cells_are_listed_by_lost_seconds() -> None:
    cases = {
        "a": {"craton": {"parts": {"x": 3.0, "y": 1.0}}, "pandas": {"parts": {"x": 1.0, "y": 2.0}}},
        "b": {"craton": {"parts": {"z": 4.0}}, "pandas": {"parts": {"z": 1.0}}},
        "c": {"craton": {"status": "failed"}},
    }
    assert slow_cells({"cases": cases}) == [(3.0, 4.0, "b: z"), (2.0, 3.0, "a: x")]


def test_each_run_is_a_process_of_its_own(folder: Path) -> None:
    benchmark = Benchmark(
        name="notebooks",
        title="Notebooks",
        module="bench.notebooks.contestants",
        cases=[Case("census")],
        entries=entries(["craton", "pandas"], {"folders": {"census": str(folder)}}),
        baseline="pandas",
        repeat=2,
        warm_up=0,
        lifetime="run",
    )
    report = measure(benchmark)
    results = report["cases"]["census"]
    assert [results[name]["status"] for name in ("craton", "pandas")] == ["ok", "ok"], results
    assert len(results["craton"]["seconds"]) == 2
    assert results["craton"]["parts"].keys() == results["pandas"]["parts"].keys()


def test_an_unknown_notebook_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--notebooks", "chess"])
    assert "chess" in capsys.readouterr().err
