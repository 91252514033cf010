"""The entry to all benchmarks.

    python -m bench --list
    python -m bench                       every benchmark, with Craton, Polars, DuckDB and pandas
    python -m bench tpch --scale 10 --contestants craton,polars

What follows the name of one benchmark is passed to it; ``python -m bench tpch --help`` tells its options.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable

BENCHMARKS = {
    "tpch": "the 22 queries of TPC-H over Parquet files",
    "cylon": "join, group-by, sort and their pipeline on two int64 columns",
    "small": "1,000 mixed operations on a frame of 10 rows",
    "import_time": "what the import costs in a fresh interpreter",
}


def main(argv: list[str] | None = None) -> int:
    """Run one benchmark with its options, or all of them."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in BENCHMARKS:
        return _run(arguments[0], arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=_Plain)
    parser.add_argument("benchmark", nargs="?", choices=tuple(BENCHMARKS), help="one of them, then its own options")
    parser.add_argument("--list", action="store_true", help="say which benchmarks there are")
    parser.add_argument("--scale", default="1", help="TPC-H scale factor when all run (default: %(default)s)")
    given = parser.parse_args(arguments)
    if given.benchmark:
        parser.error(f"the benchmark comes first: python -m bench {given.benchmark} --scale {given.scale}")
    if given.list:
        for name, what in BENCHMARKS.items():
            print(f"{name:12} {what}")
        return 0
    failed = [name for name in BENCHMARKS if _run(name, ["--scale", given.scale] if name == "tpch" else [])]
    if failed:
        print(f"not all was right in: {', '.join(failed)}")
    return 1 if failed else 0


_Plain = argparse.RawDescriptionHelpFormatter


def _run(name: str, arguments: list[str]) -> int:
    entry: Callable[[list[str]], int] = importlib.import_module(f"bench.{name}").main
    return entry(arguments)


if __name__ == "__main__":
    sys.exit(main())
