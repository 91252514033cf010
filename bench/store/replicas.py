"""TPC-H on a session of two workers: from Parquet files, and from durable sets with replicas.

    python -m bench replicas --scale 10 --workers 2

``lineitem`` is stored by ``l_orderkey`` and by ``l_partkey``, ``orders`` by ``o_orderkey`` and by ``o_custkey``, and so on. Every query
runs from both in turns, in one process; results are compared. The bytes are those that tasks exchange.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.harness import answers, conditions

__all__ = ["KEYS", "main"]

ROOT = Path(__file__).resolve().parents[2]
#: The queries that Pangea's paper measures.
PAPER = "q01,q02,q04,q06,q12,q13,q14,q17,q22"
#: The keys of the organisations of each large table; the others are stored in order.
KEYS: dict[str, tuple[str, ...]] = {
    "lineitem": ("l_orderkey", "l_partkey"),
    "orders": ("o_orderkey", "o_custkey"),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "part": ("p_partkey",),
    "customer": ("c_custkey",),
}


class _Sets:
    """The module that the queries import as ``pd``, with sets in place of Parquet files."""

    def __init__(self, pd: Any) -> None:
        self._pd = pd

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pd, name)

    def read_parquet(self, path: str) -> Any:
        return self._pd.read_set(Path(path).stem)


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a result differs."""
    parser = argparse.ArgumentParser(prog="python -m bench replicas", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default: %(default)g)")
    parser.add_argument("--workers", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=8, help="of each table (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs (default: %(default)s)")
    parser.add_argument("--queries", default=PAPER, help="comma-separated, or 'all' (default: those of Pangea's paper)")
    given = parser.parse_args(argv)

    import craton
    import craton.pandas as pd
    from bench.pandas_likes import Craton
    from craton.demo import data
    from craton.demo.queries import QUERIES
    from craton.engine.tiled import current_engine

    folder = str(data.ensure(given.scale))
    craton.options.data = ROOT / "build" / "replicas" / f"sf{given.scale:g}-{given.partitions}"
    _save(craton, pd, Path(folder), given.partitions)
    craton.init("local", workers=given.workers, threads=1)
    tiled: Any = current_engine()
    tiled.least_bytes = 0
    engine = Craton()
    modules = {"Parquet": pd, "replicas": _Sets(pd)}

    def run(query: str, source: str) -> tuple[float, int, Any]:
        engine.forget()
        began = time.perf_counter()
        found = QUERIES[query](modules[source], folder)
        values = found._mgr if hasattr(found, "_mgr") else found
        del values
        seconds = time.perf_counter() - began
        stages = [stage for tiling in tiled.last for stage in tiling.stages]
        return seconds, sum(stage.nbytes for stage in stages if "by" in stage.exchange.split()), found

    queries = list(QUERIES) if given.queries == "all" else given.queries.split(",")
    print(f"TPC-H, scale factor {given.scale:g}, {given.workers} workers; {conditions.describe(warm_up=1)}")
    print(f"{'':6}{'Parquet, s':>12}{'replicas, s':>12}{'ratio':>8}{'exchanged':>14}{'with replicas':>14}", flush=True)
    ratios, wrong = [], 0
    for query in queries:
        expected = {source: run(query, source) for source in modules}
        wrong += (difference := answers.difference(*(_answer(one[2]) for one in expected.values()))) is not None
        times: dict[str, list[float]] = {source: [] for source in modules}
        for _ in range(given.repeat):
            for source in modules:
                times[source].append(run(query, source)[0])
        parquet, replicas = (statistics.median(times[source]) for source in modules)
        ratios.append(parquet / replicas)
        moved = "".join(f"{expected[source][1] / 1e6:>11.1f} MB" for source in modules)
        print(f"{query:6}{parquet:>12.3f}{replicas:>12.3f}{ratios[-1]:>8.2f}{moved}  {difference or ''}", flush=True)
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, {wrong} of {len(queries)} differ")
    craton.shutdown()
    return 1 if wrong else 0


def _save(craton: Any, pd: Any, folder: Path, partitions: int) -> None:
    """Save the tables that are not there yet, and print how fast that is."""
    there = set(craton.catalog()["name"])
    for path in sorted(folder.glob("*.parquet")):
        if path.stem in there:
            continue
        keys = KEYS.get(path.stem, ())
        how = {"partition_by": keys[0], "replicate_by": keys[1:], "partitions": partitions} if keys else {}
        began = time.perf_counter()
        craton.save(path.stem, pd.read_parquet(path), **how)
        seconds = time.perf_counter() - began
        nbytes = craton.catalog().set_index("name").loc[path.stem, "nbytes"]
        print(f"saved {path.stem}: {nbytes / 1e9:.2f} GB in {seconds:.1f} s", flush=True)


def _answer(found: Any) -> Any:
    import pandas

    frame = pandas.DataFrame(found) if hasattr(found, "columns") else pandas.DataFrame({"value": [found]})
    columns = [frame.iloc[:, at].tolist() for at in range(frame.shape[1])]
    return answers.table(frame.columns, zip(*columns, strict=True))


if __name__ == "__main__":
    sys.exit(main())
