"""Start-up: ``import craton.pandas`` against ``import pandas, polars``, in turns, each in a fresh interpreter.

    python -m bench.import_time --repeat 25

The interpreter measures only the import, not its own start. The result is the difference of the medians.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.harness import command, conditions, machine
from bench.harness.measure import summarise

__all__ = ["STATEMENTS", "main", "measure"]

ROOT = Path(__file__).resolve().parents[1]

STATEMENTS = {
    "craton": "import craton.pandas",
    "pandas+polars": "import pandas, polars",
    "pandas": "import pandas",
    "polars": "import polars",
}
"""Contestant to import statement."""

TIMED = "import time; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"


def measure(statements: Mapping[str, str], repeat: int, *, baseline: str, warm_up: int = 1) -> dict[str, Any]:
    """Time imports in fresh interpreters.

    Parameters
    ----------
    statements : mapping
        Contestant to import statement.
    repeat, warm_up : int
        Timed and untimed turns of each contestant.
    baseline : str
        The contestant to whose times ratios and differences are computed.

    Returns
    -------
    dict
        A report in the format of `bench.harness.measure.measure`, with a ``difference`` in seconds for each median.
    """
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    failures: dict[str, str] = {}
    for turn in range(warm_up + repeat):
        for name, statement in statements.items():
            if name in failures:
                continue
            took = _import(statement)
            if isinstance(took, str):
                failures[name] = took
            elif turn >= warm_up:
                seconds[name].append(took)
    results: dict[str, dict[str, Any]] = {}
    for name, taken in seconds.items():
        if name in failures:
            results[name] = {"status": "failed", "message": failures[name], "seconds": taken}
            continue
        results[name] = {"status": "ok", "seconds": taken, "median": statistics.median(taken)}
        results[name].update(min=min(taken), max=max(taken))
    if baseline in results and "median" in results[baseline]:
        for result in results.values():
            if "median" in result:
                result["difference"] = result["median"] - results[baseline]["median"]
    report: dict[str, Any] = {
        "benchmark": "import",
        "title": "Start-up: the import alone, in a fresh interpreter",
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "conditions": conditions.describe(warm_up=warm_up, fresh_process=True),
        "settings": {"repeat": repeat, "warm_up": warm_up, "statements": dict(statements)},
        "baseline": baseline,
        "contestants": {name: {"status": result["status"]} for name, result in results.items()},
        "cases": {"import": results},
        "summary": {},
    }
    report["baseline"] = summarise(report)
    return report


def _import(statement: str) -> float | str:
    """Return the seconds that an import took, or the error message."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED.format(statement=statement)],
        capture_output=True,
        text=True,
        check=False,
        env=conditions.process_environment(),
        cwd=ROOT,
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return float(done.stdout)


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.import_time", description=__doc__.splitlines()[0])
    command.add_options(parser, contestants=tuple(STATEMENTS), repeat=15)
    parser.set_defaults(baseline="pandas+polars")
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, tuple(STATEMENTS), "contestant")
    statements = {name: STATEMENTS[name] for name in names}
    report = measure(statements, given.repeat, baseline=given.baseline, warm_up=given.warm_up)
    command.finish(given, report, "import_time")
    results = report["cases"]["import"]
    for name, result in results.items():
        if name != report["baseline"] and "difference" in result:
            print(f"{name}: {result['difference']:+.3f} s against {report['baseline']}")
    return 1 if any(result["status"] != "ok" for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
