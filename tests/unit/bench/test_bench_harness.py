"""The benchmarks' harness, with contestants that are deliberately slow, wrong, broken or use too much memory."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil", reason="the harness watches memory with psutil, of the bench extra")

from bench.harness import answers, measure, report
from bench.harness.measure import Benchmark, Case, Entry
from bench.harness.process import Worker, WorkerError

CONTESTANTS = """
    import json
    import os
    import subprocess
    import sys
    import time
    from pathlib import Path

    class Contestant:
        def __init__(self, name, options):
            self.name = name
            self.options = options

        def versions(self):
            return {self.name: "1.0"}

        def run(self, case):
            print("noise that must not reach the harness")
            if "diary" in self.options:
                with open(self.options["diary"], "a") as diary:
                    diary.write(f"{case}:{self.name} ")
            if case == "breaks" and self.name == "broken":
                raise ValueError("no such operation")
            if case == "breaks" and self.name == "exits":
                os._exit(3)
            if case == "breaks" and self.name == "hangs":
                time.sleep(3600)
            if case == "breaks" and self.name == "greedy":
                return self.fill()
            if case == "breaks" and self.name == "greedy-child":
                hold = "held = bytearray(b'x') * (400 << 20); import time; time.sleep(3600)"
                subprocess.run([sys.executable, "-c", hold])
            return case

        def fill(self):
            held = []
            while True:
                held.append(bytearray(b"x") * (20 << 20))
                time.sleep(0.005)

        def answer(self, case, result):
            if self.name == "wrong":
                return {"columns": ["a"], "rows": [[1.0], [3.0]]}
            return {"columns": ["a"], "rows": [[1.0], [2.0 + 1e-12]]}

    def open_contestant(name, options):
        if name == "unopened":
            raise ImportError("its library is not there")
        return Contestant(name, options)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder from which a worker process can import the harness and the contestants above."""
    (tmp_path / "bench").symlink_to(Path(measure.__file__).resolve().parents[1])
    (tmp_path / "pretended.py").write_text(textwrap.dedent(CONTESTANTS), encoding="utf-8")
    return tmp_path


def run(root: Path, names: Sequence[str], cases: Sequence[str] = ("works",), **settings: Any) -> dict[str, Any]:
    options = settings.pop("options", {})
    benchmark = Benchmark(
        name="pretended",
        title="Pretended",
        module="pretended",
        cases=[Case(case) for case in cases],
        entries=[Entry(name, lambda: Path(sys.executable), options) for name in names],
        baseline=settings.pop("baseline", names[0]),
        **{"repeat": 1, "warm_up": 0, "timeout": 60, **settings},
    )
    return measure.measure(benchmark, root=root)


def test_contestants_take_turns_and_warm_ups_are_not_counted(root: Path) -> None:
    diary = root / "diary.txt"
    found = run(root, ["one", "two"], repeat=2, warm_up=1, options={"diary": str(diary)})
    assert diary.read_text().split() == ["works:one", "works:two"] * 3
    for name in ("one", "two"):
        result = found["cases"]["works"][name]
        assert result["status"] == "ok"
        assert len(result["seconds"]) == 2
        assert result["min"] <= result["median"] <= result["max"]
        assert result["peak_memory"] >= 0
    assert found["contestants"]["one"]["versions"]["one"] == "1.0"


@pytest.mark.parametrize(
    ("name", "settings", "status", "said"),
    [
        ("broken", {}, "failed", "ValueError: no such operation"),
        ("exits", {}, "failed", "ended with exit status 3"),
        ("hangs", {"timeout": 2}, "timeout", "gave no result within 2 s"),
        ("greedy", {"memory_limit": 200 << 20}, "memory", "limit of 0.195 GiB"),
        ("greedy-child", {"memory_limit": 200 << 20}, "memory", "limit of 0.195 GiB"),
    ],
)
def test_a_failure_is_reported_and_the_rest_goes_on(
    root: Path, name: str, settings: dict[str, Any], status: str, said: str
) -> None:
    found = run(root, ["good", name], ["breaks", "works"], **settings)
    broken = found["cases"]["breaks"]
    assert broken[name]["status"] == status
    assert said in broken[name]["message"]
    assert broken["good"]["status"] == "ok"
    # If the process was lost, the next case gets a new one.
    assert found["cases"]["works"][name]["status"] == "ok"
    assert found["summary"][name]["right"] == 1
    assert found["summary"][name]["compared"] == 1


def test_one_that_cannot_be_opened_is_reported_for_every_case(root: Path) -> None:
    found = run(root, ["good", "unopened"], ["works", "too"])
    assert found["contestants"]["unopened"]["status"] == "failed"
    for case in ("works", "too"):
        assert found["cases"][case]["unopened"]["message"] == "ImportError: its library is not there"
        assert found["cases"][case]["good"]["status"] == "ok"


def test_an_environment_that_cannot_be_made_is_reported(root: Path) -> None:
    def interpreter() -> Path:
        raise RuntimeError("pip found no such version")

    entries = [Entry("good", lambda: Path(sys.executable)), Entry("absent", interpreter)]
    found = measure.measure(
        Benchmark("p", "P", "pretended", [Case("works")], entries, baseline="good", repeat=1, warm_up=0), root=root
    )
    assert "pip found no such version" in found["cases"]["works"]["absent"]["message"]
    assert found["cases"]["works"]["good"]["ratio"] == 1.0


def test_a_wrong_answer_is_not_a_result(root: Path) -> None:
    found = run(root, ["good", "wrong"])
    wrong = found["cases"]["works"]["wrong"]
    assert wrong["status"] == "wrong"
    assert "[3.0] and should have [2.000" in wrong["message"]
    assert "ratio" not in wrong
    assert found["summary"]["wrong"]["right"] == 0


def test_a_lost_worker_leaves_no_process(root: Path) -> None:
    worker = Worker(
        "greedy-child", "pretended", {}, python=Path(sys.executable), root=root, timeout=60, memory_limit=200 << 20
    )
    with pytest.raises(WorkerError, match="memory"):
        worker.run("breaks", answer=False)
    tree = list(worker._watch._tree.values())
    worker.stop()
    assert len(tree) == 2
    for process in tree:
        process.wait(10)
        assert not process.is_running()


def test_a_paused_worker_goes_on(root: Path) -> None:
    worker = Worker("good", "pretended", {}, python=Path(sys.executable), root=root, timeout=60)
    worker.pause()
    worker.resume()
    assert worker.run("works", answer=False)["seconds"] >= 0
    worker.pause()
    worker.stop()
    assert not worker.alive


def made_up(**seconds: dict[str, float | None]) -> dict[str, Any]:
    """Return a report with these medians by contestant and case; None stands for a failure."""
    cases: dict[str, dict[str, Any]] = {}
    for name, medians in seconds.items():
        for case, median in medians.items():
            cases.setdefault(case, {})[name] = (
                {"status": "failed", "message": "no"}
                if median is None
                else {"status": "ok", "median": median, "min": median, "max": median, "seconds": [median]}
            )
    return {
        "benchmark": "made-up",
        "title": "Made up",
        "settings": {"repeat": 1},
        "baseline": "base",
        "contestants": {},
        "cases": cases,
        "summary": {},
    }


def test_ratios_and_totals() -> None:
    found = made_up(base={"a": 1.0, "b": 4.0, "c": 5.0}, other={"a": 2.0, "b": 2.0, "c": None})
    assert measure.summarise(found) == "base"
    assert found["cases"]["a"]["other"]["ratio"] == 2.0
    assert found["cases"]["b"]["other"]["ratio"] == 0.5
    assert "ratio" not in found["cases"]["c"]["other"]
    summary = found["summary"]["other"]
    # The totals include only the cases that both completed: 2 + 2 against 1 + 4.
    assert (summary["right"], summary["compared"], summary["cases"]) == (2, 2, 3)
    assert summary["total_ratio"] == pytest.approx(4 / 5)
    assert summary["geometric_mean_ratio"] == pytest.approx(1.0)
    assert (summary["worst_case"], summary["worst_ratio"]) == ("a", 2.0)
    assert found["summary"]["base"]["total"] == 10.0


def test_medians_are_of_the_timed_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = iter([9.0, 5.0, 1.0, 3.0])
    monkeypatch.setattr(
        Worker, "run", lambda worker, case, answer: {"seconds": next(pretended), "peak_memory": 7, "answer": 1}
    )
    result = run(root, ["good"], repeat=3, warm_up=1)["cases"]["works"]["good"]
    assert result["seconds"] == [5.0, 1.0, 3.0]
    assert (result["median"], result["min"], result["max"], result["peak_memory"]) == (3.0, 1.0, 5.0, 7)


def test_an_absent_baseline_gives_way_to_one_that_ran() -> None:
    found = made_up(other={"a": 2.0}, third={"a": 4.0})
    assert measure.summarise(found) == "other"
    assert found["cases"]["a"]["third"]["ratio"] == 2.0


def test_a_report_as_table_json_and_plot(tmp_path: Path) -> None:
    found = made_up(base={"a": 1.0, "b": 4.0}, other={"a": 2.0, "b": None})
    found["baseline"] = measure.summarise(found)
    text = report.table(found)
    assert "2.000   2.00×" in text
    assert "1/2: 2.000   2.00×" in text
    assert "other (b) failed: no" in text
    place = report.save(found, tmp_path, "made-up")
    assert json.loads(place.read_text(encoding="utf-8")) == found
    pytest.importorskip("matplotlib")
    assert report.plot(found, tmp_path, "made-up").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made-up.json", "made-up.png"]


TABLE = {"columns": ["k", "v"], "rows": [["a", 1.0], ["b", 2.0], ["c", 2.0]]}


@pytest.mark.parametrize(
    ("rows", "order_by", "said"),
    [
        ([["a", 1.0], ["b", 2.0], ["c", 2.0]], (1,), None),
        ([["a", 1.0], ["c", 2.0], ["b", 2.0 + 1e-9]], (1,), None),
        ([["b", 2.0], ["a", 1.0], ["c", 2.0]], (1,), "in row 0 v = 2.0"),
        ([["b", 2.0], ["a", 1.0], ["c", 2.0]], None, None),
        ([["a", 1.0], ["b", 2.0]], (1,), "2 rows and should have 3"),
        ([["a", 1.0], ["b", 2.0], ["c", 2.1]], (0,), "['c', 2.1]"),
        ([["a", 1.0], ["b", 2.0], ["d", 2.0]], (1,), "['d', 2.0]"),
        ([["a", 1.0], ["b", 2.0], ["c", None]], (0,), "['c', None]"),
    ],
)
def test_differences_of_tables(rows: list[list[Any]], order_by: tuple[int, ...] | None, said: str | None) -> None:
    found = answers.difference(TABLE, {"columns": ["k", "v"], "rows": rows}, order_by=order_by)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert said in found


def test_whole_floats_are_the_same_as_integers() -> None:
    ours = {"columns": ["k", "v"], "rows": [[2, 1.5], [10, 0.5], [3, 2.5]]}
    theirs = {"columns": ["k", "v"], "rows": [[10.0, 0.5], [3.0, 2.5], [2.0, 1.5]]}
    assert answers.difference(ours, theirs) is None


def test_columns_are_compared_by_name() -> None:
    found = answers.difference(TABLE, {"columns": ["k", "w"], "rows": TABLE["rows"]})
    assert found == "has the columns ['k', 'w'] and should have ['k', 'v']"
