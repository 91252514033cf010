"""The profile: recorded calls, the lines that they are attributed to, and the summary."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas
import pytest

import craton
import craton.pandas as pd
from craton import events
from craton.profiling import Profile, profile

PYTHON = Path(pd.__file__).parents[2]


def call(name: str = "DataFrame.head", seconds: float = 0.0, **fields: Any) -> None:
    """Emit the event of a call, as the engine does."""
    events.emit("call", **({"name": name, "native": True, "reason": None, "seconds": seconds, "rows": None} | fields))


def test_a_call_is_recorded_with_the_line_that_made_it() -> None:
    with profile() as report:
        call("DataFrame.merge", 0.25, native=False, reason="validate=", rows=7)
    (record,) = report.records
    assert (record.name, record.native, record.reason, record.seconds, record.rows) == (
        "DataFrame.merge",
        False,
        "validate=",
        0.25,
        7,
    )
    assert record.file == __file__
    lines = Path(__file__).read_text().splitlines()
    assert record.line is not None
    assert "events.emit(" in lines[record.line - 1]


def test_nothing_is_recorded_outside() -> None:
    report = profile()
    call()
    with report:
        call()
    call()
    assert len(report.records) == 1
    with report:
        call()
    assert len(report.records) == 2
    assert report.seconds > 0


def test_calls_within_a_call_are_nested_and_not_added_twice() -> None:
    with profile() as report:
        call("DataFrame.head")
        started = time.perf_counter()
        call("Series.sum")
        events.emit("run", seconds=0.0, rows=1, operators=3)
        call("DataFrame.describe", started=started, native=False, reason="percentiles")
        call("DataFrame.tail")
    assert [(record.name, record.nested) for record in report.records] == [
        ("DataFrame.head", False),
        ("Series.sum", True),
        ("(run)", True),
        ("DataFrame.describe", False),
        ("DataFrame.tail", False),
    ]
    assert set(report.summary()["method"]) == {"DataFrame.head", "DataFrame.describe", "DataFrame.tail"}
    assert report.native_share == pytest.approx(2 / 3)


def test_nesting_goes_any_depth() -> None:
    with profile() as report:
        outer = time.perf_counter()
        inner = time.perf_counter()
        call("c")
        call("b", started=inner)
        call("a", started=outer)
    assert [(record.name, record.nested) for record in report.records] == [("c", True), ("b", True), ("a", False)]


def test_the_summary_adds_up_by_line_method_and_kind_slowest_first() -> None:
    with profile() as report:
        for rows in (1, None, 3):
            call("Series.sum", 0.25, rows=rows, started=time.perf_counter())
        call("Series.sum", 1.0, native=False, reason="object dtype", started=time.perf_counter())
    summary = report.summary()
    assert summary["calls"].tolist() == [1, 3]
    assert summary["native"].tolist() == [False, True]
    assert summary["seconds"].tolist() == [1.0, 0.75]
    assert summary["rows"].tolist() == [pandas.NA, 4]
    assert all(place.startswith(f"{Path(__file__).name}:") for place in summary["place"])


def test_an_empty_profile_has_the_same_columns_and_dtypes() -> None:
    empty = Profile()
    with profile() as report:
        call(rows=1)
    assert empty.calls().dtypes.equals(report.calls().dtypes)
    assert empty.summary().dtypes.equals(report.summary().dtypes)
    assert empty.native_share == 1.0
    assert "0 calls" in str(empty)


def test_the_text_shows_calls_runs_and_reasons() -> None:
    with profile() as report:
        events.emit("run", seconds=0.0, rows=1_234_567, operators=3)
        call("DataFrame.apply", native=False, reason="a Python function", rows=1_234_567)
    text = str(report)
    assert "1 calls, 0% native" in text
    assert "1 plans ran" in text
    assert "fallback: a Python function" in text
    assert "1,234,567" in text
    assert "DataFrame.apply" in report._repr_html_()


def test_the_engine_is_seen() -> None:
    frame = pd.DataFrame({"a": [3, 1, 2], "b": [1.5, 2.5, 3.5]})
    with craton.option_context(small_rows=0), craton.profile() as report:
        len(frame[frame["a"] > 1])
    methods = {record.name for record in report.records}
    assert "DataFrame.__getitem__" in methods
    assert any(record.name == "(run)" for record in report.records)
    assert all(record.file == __file__ for record in report.records)


def test_a_script_is_profiled(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import pandas as pd\n"
        "frame = pd.DataFrame({'a': [1, 2, 3]})\n"
        "print(len(frame[frame['a'] > 1]))\n"
        "raise SystemExit(4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "craton", "--profile", "--profile-to", "calls.csv", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(PYTHON), "CRATON_SMALL_ROWS": "0"},
    )
    assert (done.returncode, done.stdout) == (4, "2\n"), done.stderr
    assert "program.py:3" in done.stderr
    assert "DataFrame.__getitem__" in done.stderr
    kept = pandas.read_csv(tmp_path / "calls.csv")
    assert set(kept["line"]) <= {2, 3}
    assert (kept["file"] == str(script)).all()
