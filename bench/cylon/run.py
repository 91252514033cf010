"""CylonFlow's operators: join, group-by, sort, and a pipeline of them, on two int64 columns with 90 % distinct keys.

    python -m bench.cylon.run --rows 20000000 --contestants craton,polars,pandas

The data and the operators are those of the experiments in "CylonFlow" (section 5): two int64 columns with 90 % distinct keys,
and the pipeline join → group-by → sort → add-scalar. Only the operators are timed: the input is a frame in memory in each
contestant's own format, and the result is in memory, too. With ``--source parquet``, the time includes reading files.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.cylon.contestants import CASES, CONTESTANTS
from bench.cylon.data import make
from bench.harness import command
from bench.harness.measure import Benchmark, Case

__all__ = ["main"]

DEFAULT = ("craton", "polars", "duckdb", "pandas")


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if an operator failed in Craton or had a wrong result."""
    parser = argparse.ArgumentParser(prog="python -m bench.cylon.run", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=20_000_000, help="rows of each of the two frames (default: %(default)s)"
    )
    parser.add_argument("--source", choices=("memory", "parquet"), default="memory", help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder of the generated files (default: under build/)")
    parser.add_argument("--operators", default=",".join(CASES), help="(default: %(default)s)")
    command.add_options(parser, contestants=DEFAULT, repeat=3)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    operators = command.chosen(parser, given.operators, CASES, "operator")
    folder = make(given.rows, given.data)
    benchmark = Benchmark(
        name="cylon",
        title=f"CylonFlow's operators, {given.rows / 1e6:g} million rows, from {given.source}",
        module="bench.cylon.contestants",
        cases=[Case(operator) for operator in operators],
        entries=command.entries(names, {"folder": str(folder.resolve()), "source": given.source}),
        reference="pandas",
        settings={"rows": given.rows, "source": given.source},
        **command.limits(given),
    )
    stem = f"cylon-{given.rows / 1e6:g}m" + ("" if given.source == "memory" else f"-{given.source}")
    report = command.execute(given, benchmark, stem)
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
