"""Concurrent pipelines over the same Parquet file: decoded once for all of them, and each decoding for itself.

    python -m bench.pipeline.shared_inputs --pipelines 1,5,10,20,40 --limit 5

A pipeline has two steps: one reads columns of lineitem and reduces them, the other takes what is largest. The first step is TPC-H's Q6
(`q6`), Q1 (`q1`), or the revenue of each ship date (`dates`).

- `shared`: the columns are a source, which is decoded once for all pipelines of the store, and the manager admits the steps.
- `own`: the first step of each pipeline reads the file itself; the manager admits the steps.
- `all`: the same, and all steps run at once, as without a manager.

Each contestant runs in a process of its own, with a limit in a memory control group without swap.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.pipeline.admission import Boundless
from bench.pipeline.groups import run_limited

__all__ = ["main"]

CONTESTANTS = ("shared", "own", "all")


def q6(lines: pa.Table) -> pa.Table:
    """Sum the revenue that discounts cost: TPC-H's Q6."""
    day, rate = lines["l_shipdate"], lines["l_discount"]
    first, last = (pa.scalar(datetime.date(year, 1, 1)) for year in (1994, 1995))
    taken = pc.and_(pc.greater_equal(day, first), pc.less(day, last))
    taken = pc.and_(taken, pc.and_(pc.greater_equal(rate, 0.05), pc.less_equal(rate, 0.07)))
    few = lines.filter(pc.and_(taken, pc.less(lines["l_quantity"], 24)))
    return pa.table({"paid": [pc.sum(pc.multiply(few["l_extendedprice"], few["l_discount"])).as_py()]})


def q1(lines: pa.Table) -> pa.Table:
    """Sum prices by flag and status: TPC-H's Q1."""
    few = lines.filter(pc.less_equal(lines["l_shipdate"], pa.scalar(datetime.date(1998, 9, 2))))
    paid = pc.multiply(few["l_extendedprice"], pc.subtract(1.0, few["l_discount"]))
    few = few.append_column("paid", paid).append_column("charge", pc.multiply(paid, pc.add(1.0, few["l_tax"])))
    sums = [(name, "sum") for name in ("paid", "charge", "l_quantity", "l_extendedprice")]
    means = [(name, "mean") for name in ("l_quantity", "l_extendedprice", "l_discount")]
    grouped = few.group_by(["l_returnflag", "l_linestatus"], use_threads=False)
    return grouped.aggregate([*sums, *means]).rename_columns({"paid_sum": "paid"})


def dates(lines: pa.Table) -> pa.Table:
    """Sum the revenue by ship date."""
    paid = pc.multiply(lines["l_extendedprice"], pc.subtract(1.0, lines["l_discount"]))
    few = pa.table({"date": lines["l_shipdate"], "paid": paid, "quantity": lines["l_quantity"]})
    grouped = few.group_by("date", use_threads=False).aggregate([("paid", "sum"), ("quantity", "sum")])
    return grouped.rename_columns({"paid_sum": "paid"})


QUERIES: dict[str, tuple[Callable[[pa.Table], pa.Table], list[str]]] = {
    "q6": (q6, ["l_extendedprice", "l_discount", "l_quantity", "l_shipdate"]),
    "q1": (
        q1,
        ["l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_shipdate"],
    ),
    "dates": (dates, ["l_extendedprice", "l_discount", "l_quantity", "l_shipdate"]),
}


def best(reduced: pa.Table) -> pa.Table:
    """Return the largest revenue."""
    return reduced.sort_by([("paid", "descending")]).slice(0, 1)


def _own(*, path: str, query: str) -> pa.Table:
    """Read the file, and reduce it."""
    reduce, columns = QUERIES[query]
    return reduce(pq.read_table(path, columns=columns, use_threads=False))


def work(name: str, query: str, path: str, pipelines: int, limit: float) -> None:
    """Run pipelines at once in this process; print the seconds and their common answer as JSON."""
    import craton
    from craton.pipeline import Parquet, RunSettings
    from craton.pipeline.manager import Manager
    from craton.store import Store

    settings = RunSettings(cache=False)
    reduce, columns = QUERIES[query]
    with Store.open(int((limit - 1.5) * 1e9) if limit else 8 << 30) as store:
        if name == "shared":
            sources = {"lines": Parquet(path, columns=columns)}
            step = craton.step(name="reduced")(reduce)
            made = [craton.Pipeline([step, best], sources=sources) for _ in range(pipelines)]
        else:
            own = craton.step(source=True, name="reduced")(_own)
            made = [craton.Pipeline([own, best], parameters={"path": path, "query": query}) for _ in range(pipelines)]
        manager = Manager(Boundless(), 1000) if name == "all" else None

        def run(one: Any) -> float:
            found = one.run(store=store, settings=settings, manager=manager)["best"]["paid"][0].as_py()
            return round(found, 2)

        craton.Pipeline([craton.step(source=True)(_nothing)]).run(store=store, settings=settings)  # processes are warm
        with ThreadPoolExecutor(pipelines) as threads:
            began = time.perf_counter()
            answers = set(threads.map(run, made))
            seconds = time.perf_counter() - began
    (answer,) = answers
    print(json.dumps([seconds, answer]))
    sys.stdout.flush()
    os._exit(0)


def _nothing() -> pa.Table:
    return pa.table({"n": [1]})


def _compare(query: str, path: str, pipelines: int, limit: float, repeat: int) -> set[float]:
    """Run the contestants in turn and print their medians; the answers of all runs."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    peaks = dict.fromkeys(CONTESTANTS, 0)
    answers = set()
    for _ in range(repeat):
        for name in CONTESTANTS:
            command = [sys.executable, "-m", "bench.pipeline.shared_inputs", "--work", name, "--file", path]
            command += ["--pipelines", str(pipelines), "--limit", str(limit), "--queries", query]
            ended = run_limited(command, limit)
            peaks[name] = max(peaks[name], ended.peak or 0)
            if ended.completed:
                took, answer = json.loads(ended.printed)
                seconds[name].append(took)
                answers.add(answer)
    texts = []
    for name in CONTESTANTS:
        done = len(seconds[name])
        text = f"{name} {statistics.median(seconds[name]):6.2f} s" if done else f"{name} killed"
        texts.append(text + (f" ({repeat - done} of {repeat} killed)" if 0 < done < repeat else ""))
        texts[-1] += f", {peaks[name] / 1e9:.1f} GB" if limit else ""
    ratios = [
        f"{statistics.median(seconds[name]) / statistics.median(seconds['shared']):.2f} x {name}"
        for name in CONTESTANTS[1:]
        if seconds[name] and seconds["shared"]
    ]
    print(f"{query:5} {pipelines:3} pipelines: {'; '.join(texts)}; throughput {', '.join(ratios) or '-'}", flush=True)
    return answers if len(seconds["shared"]) == repeat else set()


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a pipeline with shared columns failed or had a wrong answer."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.shared_inputs", description=__doc__.splitlines()[0])
    parser.add_argument("--file", default="build/tpch/sf1/lineitem.parquet", help="(default: %(default)s)")
    parser.add_argument("--pipelines", default="1,5,10,20,40", help="numbers of pipelines (default: %(default)s)")
    parser.add_argument("--queries", default=",".join(QUERIES), help="(default: %(default)s)")
    parser.add_argument(
        "--limit", type=float, default=5, help="gigabytes for all processes; 0: none (default: %(default)s)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (default: %(default)s)")
    parser.add_argument("--work", choices=CONTESTANTS, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.work:
        work(given.work, given.queries, given.file, int(given.pipelines), given.limit)
    source = Path(given.file)
    right = True
    with tempfile.TemporaryDirectory() as folder:
        file = next(source.glob("*.parquet")) if source.is_dir() else source
        path = str(shutil.copy(file, Path(folder) / "lines.parquet"))
        for query in given.queries.split(","):
            answers = [_compare(query, path, int(one), given.limit, given.repeat) for one in given.pipelines.split(",")]
            right = right and all(answers) and len(set().union(*answers)) == 1
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
