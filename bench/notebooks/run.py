"""Notebooks: ten programs written as users write them, under pandas and under Craton.

    python -m bench notebooks --rows 1000000
    python -m bench notebooks --notebooks flights,taxi --repeat 1

Each run of a notebook is a fresh process. After the table, the cells that take longer under Craton are listed. A plan runs where
its result is used, so the time of a call may be part of a later cell.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.harness import command
from bench.harness.measure import Benchmark, Case, Report
from bench.notebooks.cells import NOTEBOOKS
from bench.notebooks.contestants import CONTESTANTS
from bench.notebooks.data import make

__all__ = ["main", "slow_cells"]


def slow_cells(report: Report) -> list[tuple[float, float, str]]:
    """List the cells that take longer under Craton than under pandas.

    Returns
    -------
    list
        The seconds that are lost, the ratio to pandas' seconds, and the names of notebook and cell; the largest loss first.
    """
    found = []
    for name, results in report["cases"].items():
        ours, theirs = (results.get(contestant, {}).get("parts", {}) for contestant in ("craton", "pandas"))
        for cell in ours.keys() & theirs.keys():
            if ours[cell] > theirs[cell]:
                found.append((ours[cell] - theirs[cell], ours[cell] / theirs[cell], f"{name}: {cell}"))
    return sorted(found, reverse=True)


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if one of Craton's runs failed or printed something else."""
    parser = argparse.ArgumentParser(prog="python -m bench notebooks", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the largest tables (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder of the generated files (default: under build/)")
    parser.add_argument("--notebooks", default=",".join(NOTEBOOKS), help="comma-separated (default: all)")
    command.add_options(parser, contestants=CONTESTANTS[::-1], repeat=3)
    parser.set_defaults(baseline="pandas", lifetime="run", warm_up=0)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    notebooks = command.chosen(parser, given.notebooks, NOTEBOOKS, "notebook")
    folders = {
        name: str(make(name, given.rows, given.data and given.data / f"{name}-{given.rows}").resolve())
        for name in notebooks
    }
    benchmark = Benchmark(
        name="notebooks",
        title=f"Notebooks over {given.rows / 1e6:g} million rows",
        module="bench.notebooks.contestants",
        cases=[Case(name) for name in notebooks],
        entries=command.entries(names, {"folders": folders}),
        reference="pandas",
        settings={"rows": given.rows},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, f"notebooks-{given.rows / 1e6:g}m")
    found = slow_cells(report)
    print(f"\ncells that take longer than with pandas: {len(found)}")
    for lost, ratio, cell in found:
        print(f"  {lost:7.3f} s lost  {ratio:6.2f} × {cell}")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
