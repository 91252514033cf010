"""The command line of all benchmarks.

    python -m bench --list
    python -m bench                       every benchmark but clusters, with Craton, Polars, DuckDB and pandas
    python -m bench tpch --scale 10 --contestants craton,polars

Options are passed to the benchmark that is named; ``python -m bench tpch --help`` lists them.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable

BENCHMARKS = {
    "tpch": "the 22 queries of TPC-H over Parquet files",
    "cylon": "join, group-by, sort and their pipeline on two int64 columns",
    "pandas": "everyday calls of pandas in twelve families, and a session of thirty steps",
    "h2o": "the group-by and join questions of H2O's db-benchmark",
    "notebooks": "ten programs as users write them, over generated files",
    "small": "1,000 mixed operations on a frame of 10 rows",
    "partition": "partitioning lineitem by the hash of a key",
    "paging": "a working set larger than memory: the store's policies, and the operating system",
    "kmeans": "k-means in memory and with three times the memory, against scikit-learn",
    "passing": "a table of 1 GB passed to another process",
    "hash_aggregation": "sums by text keys, in memory and with a third of the memory, against Polars' group-by",
    "join_map": "5 million rows joined with 1 million through a join map, in one and two processes, against Polars' join",
    "actors": "creating actors; calling them in one process, across processes and by TCP; π; a key-value store",
    "decode_cache": "TPC-H with decoded columns in the store: cold, warm, and in a second process",
    "durable": "writing and reading a durable set, against plain files and Parquet",
    "replicas": "TPC-H on a session, from Parquet files and from durable sets with replicas",
    "recovery": "rebuilding a lost part of a durable set from its replicas, against writing it anew",
    "clusters": "sessions on local processes, Ray and Dask, against the embedded run and other clusters",
    "spmd": "SPMD programs: starts and calls of ranks; operators beside a session",
    "functions": "Python functions that worker processes call for each row, group and cell",
    "import_time": "the time of the import in a fresh interpreter",
    "serialization": "serializing and deserializing four Python objects",
    "allocator": "the allocator of the processes of pipelines' steps against glibc's",
    "communicators": "barrier, allreduce and alltoall of 2 and 4 processes, against MPI and Gloo",
    "machines": "messages between two machines in network namespaces, against plain sockets",
    "spread": "TPC-H on three machines in network namespaces: seconds, and the bytes that cross",
    "chain": "a chain of five steps: a pipeline, Arrow files in memory, tasks of Ray",
    "outputs": "fresh outputs of steps, under a memory limit and several at once",
    "shared_inputs": "concurrent pipelines over the same Parquet files",
    "admission": "thirty pipelines that need four times the memory",
}

#: The modules of those benchmarks that are not named like their module.
MODULES = {
    **{name: f"{name}.run" for name in ("tpch", "cylon", "h2o", "notebooks", "actors", "clusters", "spmd")},
    "pandas": "calls.run",
    "kmeans": "ml.kmeans",
    "spread": "clusters.spread",
    **{
        name: f"store.{name}"
        for name in (
            *("partition", "paging", "passing", "hash_aggregation", "join_map"),
            *("decode_cache", "durable", "replicas", "recovery", "serialization"),
        )
    },
    **{name: f"pipeline.{name}" for name in ("allocator", "chain", "outputs", "shared_inputs", "admission")},
}


def main(argv: list[str] | None = None) -> int:
    """Run one benchmark with its options, or all of them."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    named = next((argument for argument in arguments if argument in BENCHMARKS), None)
    if named is not None:
        arguments.remove(named)
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=_Plain, add_help=named is None
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--scale", help="TPC-H scale factor (default: 1; in clusters, 10)")
    given, others = parser.parse_known_args(arguments)
    if given.list:
        for name, what in BENCHMARKS.items():
            print(f"{name:12} {what}")
        return 0
    if named is None and others:
        parser.error(f"{others[0]!r} is an option of one benchmark; name the benchmark first: {', '.join(BENCHMARKS)}")
    failed = []
    scale = ["--scale", given.scale] if given.scale is not None else []
    for name in [named] if named is not None else [name for name in BENCHMARKS if name not in _HOURS]:
        if _run(name, [*(scale if name in _SCALED or name == named else []), *others]):
            failed.append(name)
    if failed:
        print(f"wrong answers, failures or missed target values in: {', '.join(failed)}")
    return 1 if failed else 0


#: What runs at a scale factor when all benchmarks run; a benchmark that is named gets it as it is.
_SCALED = ("tpch", "decode_cache", "clusters", "spread")
_HOURS = ("clusters", "spread", "pandas", "notebooks")
"""Benchmarks that take hours. They run only if they are named."""

_Plain = argparse.RawDescriptionHelpFormatter


def _run(name: str, arguments: list[str]) -> int:
    entry: Callable[[list[str]], int] = importlib.import_module(f"bench.{MODULES.get(name, name)}").main
    return entry(arguments)


if __name__ == "__main__":
    sys.exit(main())
