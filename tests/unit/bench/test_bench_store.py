"""The benchmarks of the store, in small: the contestants read what they wrote, and wrong or missing results are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psutil", reason="the harness describes the machine with psutil, of the bench extra")

from bench.harness import report
from bench.store import paging_work as work
from bench.store.turns import Turn, bar, measure, new_report, ratio

PAGING, PASSING = "bench.store.paging_work", "bench.store.passing_work"


def small(folder: Path, **options: Any) -> dict[str, Any]:
    """Return the options of repeated scans of three small pages."""
    common = {"scenario": "looping", "folder": str(folder), "page_bytes": 1 << 16, "pages": 3, "scans": 2}
    return {**common, "durable": False, **options}


def test_the_systems_contestants_read_what_they_wrote(tmp_path: Path) -> None:
    result = new_report("paging", "In small", {"repeat": 2}, "plain file")
    turns = [
        Turn("swap", PAGING, small(tmp_path, kind="swap", huge=True)),
        Turn("mapped file", PAGING, small(tmp_path, kind="mapped", advice="sequential", durable=True)),
        Turn("plain file", PAGING, small(tmp_path, kind="file", durable=True)),
        Turn("unheard of", PAGING, small(tmp_path, kind="swap")),
    ]
    measure(result, "transient", turns, repeat=2, warm_up=0, timeout=60)
    assert list(result["cases"]) == ["transient write", "transient scan ×2"]
    for results in result["cases"].values():
        assert [found["status"] for found in results.values()] == ["ok", "ok", "ok", "failed"]
        assert "'huge'" in results["unheard of"]["message"]
    (first, second) = result["contestants"]["swap"]["details"]["transient"]
    assert len(first["parts"]["scan ×2"]) == len(second["parts"]["scan ×2"]) == 2
    assert ratio(result, "transient write", "swap", "plain file") is not None
    assert ratio(result, "transient write", "unheard of", "plain file") is None
    assert "unheard of" in report.table(result)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_changed_are_refused() -> None:
    source = work.Source(1 << 12)
    expected = source.expected(range(2))
    page = source.scratch()
    source.fill(1, page)
    work.agree([expected[0], work.checksum(page)], expected, "a scan")
    page.view("u8")[7] ^= 1
    with pytest.raises(ValueError, match="a scan read other numbers"):
        work.agree([expected[0], work.checksum(page)], expected, "a scan")


@pytest.mark.parametrize(("contestant", "shared"), [("arrow stream", False), ("arrow file", True)])
def test_a_table_is_passed(contestant: str, shared: bool) -> None:
    result = new_report("passing", "In small", {"repeat": 1}, contestant)
    turn = Turn(contestant, PASSING, {"contestant": contestant, "rows": 5000})
    measure(result, "pass", [turn], repeat=1, warm_up=0, timeout=60)
    assert list(result["cases"]) == ["pass shared table", "pass shared table, again", "pass new table"]
    assert {found[contestant]["status"] for found in result["cases"].values()} == {"ok"}
    (details,) = result["contestants"][contestant]["details"]["pass"]
    one = details["passes"]["shared table"]
    assert one["shared"] == (one["size"] if shared else 0)


def test_a_bar_is_met_or_missed_and_missed_when_it_was_not_measured() -> None:
    result = new_report("any", "Any", {}, "a")
    for value in (2.5, 1.5, None):
        bar(result, "b to a", value, lambda r: r >= 2, "≥ 2")
    assert [line["met"] for line in result["bars"]] == [True, False, False]
