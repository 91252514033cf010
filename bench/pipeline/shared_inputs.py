"""Concurrent pipelines over the same Parquet files: with decoded columns that all of them share, and each decoding for itself.

    python -m bench.pipeline.shared_inputs --pipelines 1,5,10,20,40

A pipeline has two steps on columns of lineitem: revenue by ship date, and its largest values. With Craton the columns are a
source, which is decoded once for all pipelines of the store. In the baseline the first step of each pipeline reads the file itself,
in the same processes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["main"]

COLUMNS = ["l_extendedprice", "l_discount", "l_quantity", "l_shipdate"]


def revenue(lines: pa.Table) -> pa.Table:
    """Sum the revenue by ship date."""
    paid = pc.multiply(lines["l_extendedprice"], pc.subtract(1.0, lines["l_discount"]))
    few = pa.table({"date": lines["l_shipdate"], "paid": paid, "quantity": lines["l_quantity"]})
    return few.group_by("date", use_threads=False).aggregate([("paid", "sum"), ("quantity", "sum")])


def best(revenue: pa.Table) -> pa.Table:
    """Return the ten dates with the largest revenue."""
    return revenue.sort_by([("paid_sum", "descending")]).slice(0, 10)


def _own_revenue(*, path: str) -> pa.Table:
    """Read the file, and sum the revenue."""
    return revenue(pq.read_table(path, columns=COLUMNS, use_threads=False))


def _seconds(path: str, pipelines: int, shared: bool) -> tuple[float, list[dict[str, object]]]:
    import craton
    from craton.pipeline import Parquet, RunSettings
    from craton.store import Store

    settings = RunSettings(cache=False)
    with Store.open(8 << 30) as store:
        if shared:
            sources = {"lines": Parquet(path, columns=COLUMNS)}
            made = [craton.Pipeline([revenue, best], sources=sources) for _ in range(pipelines)]
        else:
            own = craton.step(source=True, name="revenue")(_own_revenue)
            made = [craton.Pipeline([own, best], parameters={"path": path}) for _ in range(pipelines)]
        with ThreadPoolExecutor(pipelines) as threads:
            began = time.perf_counter()
            found = [
                result["best"].to_pylist()[:1]
                for result in threads.map(lambda one: one.run(store=store, settings=settings), made)
            ]
            return time.perf_counter() - began, [one[0] for one in found]


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a pipeline failed or had a wrong answer."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.shared_inputs", description=__doc__.splitlines()[0])
    parser.add_argument("--file", default="build/tpch/sf1/lineitem.parquet", help="(default: %(default)s)")
    parser.add_argument("--pipelines", default="1,5,10,20,40", help="numbers of pipelines (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (default: %(default)s)")
    given = parser.parse_args(argv)
    source = Path(given.file)
    answers = set()
    with tempfile.TemporaryDirectory() as folder:
        path = str(
            shutil.copy(next(source.glob("*.parquet")) if source.is_dir() else source, Path(folder) / "lines.parquet")
        )
        for pipelines in map(int, given.pipelines.split(",")):
            seconds: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(given.repeat):
                for shared in seconds:
                    took, found = _seconds(path, pipelines, shared)
                    seconds[shared].append(took)
                    answers.update(str(one) for one in found)
            ours, theirs = (statistics.median(seconds[shared]) for shared in (True, False))
            print(
                f"{pipelines:3} pipelines: {ours:7.2f} s shared, {theirs:7.2f} s each by itself, ratio {theirs / ours:.2f}"
            )
    return 0 if len(answers) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
