"""The README's claims about speed match the stored results, and every claim was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "bench" / "results"


def stored(stem: str) -> dict[str, Any]:
    """Return the stored result of a benchmark."""
    result: dict[str, Any] = json.loads((RESULTS / f"{stem}.json").read_text(encoding="utf-8"))
    return result


def total(stem: str, other: str) -> float:
    """Return Craton's total time divided by another contestant's; both must have correct results in all cases."""
    summary = stored(stem)["summary"]
    ours, theirs = summary["craton"], summary[other]
    assert ours["compared"] == theirs["compared"] == ours["cases"]
    return float(ours["total"] / theirs["total"])


def case(stem: str, name: str, other: str) -> float:
    """Return Craton's time divided by another contestant's in one case."""
    results = stored(stem)["cases"][name]
    return float(results["craton"]["median"] / results[other]["median"])


def cases(stem: str, names: Sequence[str], other: str) -> list[float]:
    """Return :func:`case` for several cases."""
    return [case(stem, name, other) for name in names]


def claimed(row: str, against: str) -> list[float]:
    """Return the ratios in a row of the README's table, such as ``1/12``. Rows without a name continue the row above."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {row}"))
    for line in lines[begin:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith(f"| {row}") or not cells[0]:
            if against in cells[1]:
                text = re.sub(r"\([^)]*\)", "", cells[2])
                found = re.findall(r"1/([\d.]+)|([\d.]+) ×", text)
                return [1 / float(part) if part else float(ratio) for part, ratio in found]
        else:
            break
    raise AssertionError(f"no row of {row} against {against}")


OPERATORS = ("join", "groupby", "sort")


@pytest.mark.parametrize(
    ("row", "against", "measured"),
    [
        ("TPC-H, 22 queries, SF10", "Polars", lambda: [total("tpch-sf10", "polars")]),
        ("TPC-H, 22 queries, SF10", "DuckDB", lambda: [total("tpch-sf10", "duckdb")]),
        ("TPC-H, 22 queries, SF1 ", "pandas", lambda: [total("tpch-sf1", "pandas")]),
        ("join, group-by, sort of 20", "Polars", lambda: cases("cylon-20m", OPERATORS, "polars")),
        ("join, group-by, sort of 20", "pandas", lambda: cases("cylon-20m", OPERATORS, "pandas")),
        ("join → group-by → sort", "Polars", lambda: [case("cylon-20m", "pipeline", "polars")]),
        ("TPC-H Q2, the query", "Polars", lambda: [case(f"tpch-sf{scale}", "q02", "polars") for scale in (10, 1)]),
        ("`Series.map`", "pandas", lambda: [case("functions", "map", "pandas")]),
        ("1,000 operations", "pandas", lambda: [total("small", "pandas")]),
        ("a new table of 1 GB", "Arrow", lambda: [case("passing", "pass new table", "arrow stream")]),
    ],
)
def test_the_readme_says_what_was_measured(row: str, against: str, measured: Any) -> None:
    assert claimed(row, against) == pytest.approx(measured(), rel=0.06)


@pytest.mark.parametrize("stem", ["tpch-sf10", "cylon-20m", "functions"])
def test_the_readme_shows_the_case_that_loses_most(stem: str) -> None:
    shown = {"tpch-sf10": "q02", "cylon-20m": "pipeline", "functions": "map"}
    other = "pandas" if stem == "functions" else "polars"
    found = {name: case(stem, name, other) for name in stored(stem)["cases"]}
    worst = max(found, key=found.__getitem__)
    assert worst == shown[stem], f"{worst}: {found[worst]:.2f} ×"


@pytest.mark.parametrize(
    "page", ["README.md", "docs/index.md", "docs/guide.md", "docs/clusters.md", "docs/architecture.md"]
)
def test_nothing_is_said_that_was_not_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").lower()
    assert not re.findall(r"fastest|nothing is approximate|never slower|blazing|unmatched", text)
