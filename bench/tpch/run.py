"""TPC-H: the 22 queries over Parquet files, with pandas' API, with Polars' API and in SQL.

python -m bench.tpch.run --scale 10 --contestants craton,polars
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from bench.harness import command
from bench.harness.measure import Benchmark, Case
from bench.tpch.contestants import CONTESTANTS
from bench.tpch.sql import ORDER, SQL

__all__ = ["main"]

DEFAULT = ("craton", "polars", "duckdb", "pandas")


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a query failed in Craton or had a wrong result."""
    parser = argparse.ArgumentParser(prog="python -m bench.tpch.run", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--scale",
        type=float,
        default=1,
        help="TPC-H scale factor (default: %(default)g)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of the Parquet files (default: made under build/)",
    )
    parser.add_argument("--queries", default="", help="numbers of the queries, such as 1,6,21 (default: all)")
    command.add_options(parser, contestants=DEFAULT)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    queries = list(SQL)
    if given.queries:
        wanted = ",".join(f"q{number.lstrip('q').zfill(2)}" for number in given.queries.split(","))
        queries = command.chosen(parser, wanted, list(SQL), "query")
    folder = (given.data or _data(given.scale)).resolve()
    absent = [table for table in ("lineitem", "orders") if not (folder / f"{table}.parquet").is_file()]
    if absent:
        parser.error(f"--data {folder} holds no {absent[0]}.parquet; give the folder that holds the eight tables")
    benchmark = Benchmark(
        name="tpch",
        title=f"TPC-H, scale factor {given.scale:g}, from Parquet",
        module="bench.tpch.contestants",
        cases=[Case(query, ORDER[query]) for query in queries],
        entries=command.entries(names, {"folder": str(folder)}),
        reference="duckdb",
        settings={"scale": given.scale},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, f"tpch-sf{given.scale:g}")
    ours = report["summary"].get("craton")
    return 1 if ours and ours["right"] < ours["cases"] else 0


def _data(scale: float) -> Path:
    """Return the folder of the demo's data, and generate the data if it does not exist."""
    from craton.demo import data

    ensure: Callable[[float], Path] = data.ensure
    return ensure(scale)


if __name__ == "__main__":
    sys.exit(main())
