"""Everyday calls of pandas in twelve families, and a session of thirty steps: Craton against pandas, and against Polars.

    python -m bench pandas --rows 1000000 --source memory
    python -m bench pandas --rows 5000000 --source file --families joins,sorting

A call returns when its result is in memory. With ``--source memory`` the frames are in memory before the call; with
``--source file`` each call reads them from Parquet. Craton's cached results are dropped before each call.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.calls.contestants import CALLS, CONTESTANTS, SESSION
from bench.calls.data import make
from bench.calls.heat_map import draw
from bench.calls.registry import FAMILIES
from bench.harness import command
from bench.harness.measure import Benchmark, Case, Report

__all__ = ["main", "shares"]

DEFAULT = ("craton", "pandas", "polars")
#: A call is slow if its time divided by pandas' time is more than SLOW, or more than SLOW_AND_SHORT if pandas' call takes
#: less than SHORT seconds.
SLOW, SLOW_AND_SHORT, SHORT = 1.1, 1.25, 0.005


def shares(report: Report) -> dict[str, Any]:
    """List the calls that are slower or need more memory in Craton than in pandas, and compute the median ratio.

    Returns
    -------
    dict
        ``slow`` and ``large``: the calls with their ratios of time and of memory, the largest ratio first. ``median``: the
        median of pandas' seconds divided by Craton's, over the calls that both ran.
    """
    slow, large, faster = {}, {}, []
    for name, results in report["cases"].items():
        ours, theirs = results.get("craton", {}), results.get("pandas", {})
        if "median" not in ours or "median" not in theirs:
            continue
        ratio = ours["median"] / theirs["median"]
        if name != SESSION:
            faster.append(1 / ratio)
        if ratio > (SLOW_AND_SHORT if theirs["median"] < SHORT else SLOW):
            slow[name] = ratio
        if ours["peak_memory"] > theirs["peak_memory"]:
            large[name] = ours["peak_memory"] / max(theirs["peak_memory"], 1)  # the call may need no measurable memory
    return {
        "slow": dict(sorted(slow.items(), key=_second, reverse=True)),
        "large": dict(sorted(large.items(), key=_second, reverse=True)),
        "median": statistics.median(faster) if faster else None,
    }


def _second(item: tuple[str, float]) -> float:
    return item[1]


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if one of Craton's calls failed or was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench pandas", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large frame (default: %(default)s)")
    parser.add_argument("--source", choices=("memory", "file"), default="memory", help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder of the generated files (default: under build/)")
    every = [family.name for family in FAMILIES]
    parser.add_argument("--families", default=",".join(every), help="comma-separated (default: all)")
    parser.add_argument("--calls", help="comma-separated calls of these families, such as 'rank' (default: all)")
    command.add_options(parser, contestants=DEFAULT, repeat=3)
    parser.set_defaults(baseline="pandas")
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    families = command.chosen(parser, given.families, every, "family")
    calls = [
        name
        for name, call in CALLS.items()
        if call.family in families and (call.rows is None or given.rows <= call.rows)
        if given.calls is None or call.name in given.calls.split(",")
    ]
    whole = given.calls is None and families == every
    benchmark = Benchmark(
        name="pandas",
        title=f"Everyday calls of pandas on {given.rows / 1e6:g} million rows, from {given.source}",
        module="bench.calls.contestants",
        cases=[*map(Case, calls), *([Case(SESSION)] if whole else [])],
        entries=command.entries(names, {"folder": str(make(given.rows, given.data).resolve()), "source": given.source}),
        reference="pandas",
        settings={"rows": given.rows, "source": given.source},
        **command.limits(given),
    )
    stem = f"pandas-{given.rows / 1e6:g}m-{given.source}"
    report = command.execute(given, benchmark, stem)
    found = shares(report)
    print(f"\nCraton is {found['median']:.2f} times as fast in the median" if found["median"] else "")
    for title, ones in (("slower than pandas", found["slow"]), ("more memory than pandas", found["large"])):
        print(f"{title}: {len(ones)}" + "".join(f"\n  {ratio:6.2f} × {name}" for name, ratio in ones.items()))
    if whole and not given.no_save:
        print(f"written: {draw(report, given.output / f'{stem}-map.png')}")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
