"""The questions of H2O's db-benchmark: ten group-bys and five joins, on frames in memory.

    python -m bench h2o --rows 10000000 --contestants craton,polars,pandas
    python -m bench h2o --task join

The tables, the questions and the programs are those of the benchmark's pandas and Polars solutions. Only the questions are timed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.h2o.contestants import CONTESTANTS, QUESTIONS
from bench.h2o.data import make
from bench.harness import command
from bench.harness.measure import Benchmark, Case

__all__ = ["main"]

DEFAULT = ("craton", "polars", "pandas")


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a question failed in Craton or had a wrong answer."""
    parser = argparse.ArgumentParser(prog="python -m bench h2o", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the largest table (default: %(default)s)")
    parser.add_argument("--task", choices=tuple(QUESTIONS), default="groupby", help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder of the generated files (default: under build/)")
    parser.add_argument("--questions", help="comma-separated numbers, such as q1,q5 (default: all)")
    command.add_options(parser, contestants=DEFAULT, repeat=2)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    every = {question.split()[0]: question for question in QUESTIONS[given.task]}
    numbers = command.chosen(parser, given.questions or ",".join(every), list(every), "question")
    folder = make(given.task, given.rows, given.data)
    benchmark = Benchmark(
        name="h2o",
        title=f"H2O's db-benchmark, {given.task}, {given.rows / 1e6:g} million rows, from memory",
        module="bench.h2o.contestants",
        cases=[Case(every[number]) for number in numbers],
        entries=command.entries(names, {"folder": str(folder.resolve()), "task": given.task}),
        reference="pandas",
        settings={"rows": given.rows, "task": given.task},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, f"h2o-{given.task}-{given.rows / 1e6:g}m")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
