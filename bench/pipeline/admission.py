"""Thirty pipelines that need four times the memory: admitted by the manager, all at once, and one by one.

    python -m bench.pipeline.admission --limit 3

Each pipeline makes a table of its own size, sorts a part of it and sums it up. All run at the same time in one process, which is in a
memory control group with a limit and no swap.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from bench.pipeline.groups import run_limited

__all__ = ["main"]

PIPELINES = 30
TIMES = 4
"""The sum of the pipelines' memory is so many times the limit of the store."""
CONTESTANTS = ("managed", "all", "one")


def made(*, nbytes: int) -> pa.Table:
    """Make a table, with some work."""
    rows = nbytes // 16
    numbers = np.random.default_rng(rows).random(rows)
    order = np.sort(numbers[: rows // 2])
    return pa.table({"x": numbers, "y": np.resize(order, rows)})


def summed(made: pa.Table) -> pa.Table:
    """Sum it up."""
    return pa.table({"rows": [made.num_rows], "x": [float(np.sum(made["x"].to_numpy()))]})


class Boundless:
    """Memory without a limit."""

    class Nothing:
        """A reservation of nothing."""

        nbytes = 0

        def release(self) -> None:
            """Do nothing."""

    def state(self) -> tuple[int, int, int]:
        """Return that all is free."""
        return 1 << 60, 0, 0

    def reserve(self, nbytes: int, at_least: int | None = None) -> Any:
        """Reserve nothing."""
        return self.Nothing()


def work(name: str, limit: float, repeat: int) -> None:
    """Run one contestant in this process, and print its seconds as JSON."""
    memory = int((limit - 0.7) * 1e9)
    print(json.dumps([_seconds(name, memory) for _ in range(repeat)]))
    sys.stdout.flush()
    os._exit(0)


def _seconds(name: str, memory: int) -> float:
    import craton
    from craton.pipeline import RunSettings
    from craton.pipeline.manager import Manager, StoreMemory
    from craton.store import Store

    shares = np.random.default_rng(7).uniform(0.2, 2.0, PIPELINES)
    sizes = [int(share) for share in shares / shares.sum() * TIMES * memory]
    pipelines = [
        craton.Pipeline([craton.step(source=True, memory=int(size * 1.8))(made), summed], parameters={"nbytes": size})
        for size in sizes
    ]
    with Store.open(memory) as store:
        cpus = 1 if name == "one" else os.cpu_count() or 1
        manager = Manager(Boundless(), 1000) if name == "all" else Manager(StoreMemory(store), cpus)

        def run(pipeline: Any) -> int:
            result = pipeline.run(store=store, settings=RunSettings(cache=False), manager=manager)
            return result["summed"]["rows"][0].as_py()  # type: ignore[no-any-return]

        with ThreadPoolExecutor(PIPELINES) as threads:
            began = time.perf_counter()
            found = list(threads.map(run, pipelines))
            seconds = time.perf_counter() - began
    if found != [size // 16 for size in sizes]:
        raise AssertionError("wrong tables")
    return seconds


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if the manager's pipelines did not finish."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.admission", description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=3, help="gigabytes for all processes (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="runs (default: %(default)s)")
    parser.add_argument("--work", choices=CONTESTANTS, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.work:
        work(given.work, given.limit, given.repeat)
    medians: dict[str, float] = {}
    for name in CONTESTANTS:
        command = [sys.executable, "-m", "bench.pipeline.admission", "--work", name, "--limit", str(given.limit)]
        ended = run_limited([*command, "--repeat", str(given.repeat)], given.limit)
        if ended.completed:
            medians[name] = statistics.median(json.loads(ended.printed))
        text = f"{medians[name]:.2f} s" if name in medians else "did not finish"
        print(f"{name:8} {text}, peak {(ended.peak or 0) / 1e9:.2f} GB")
    for name in ("all", "one"):
        if name in medians and "managed" in medians:
            print(f"throughput of the manager to {name}: {medians[name] / medians['managed']:.2f}")
    return 0 if "managed" in medians else 1


if __name__ == "__main__":
    sys.exit(main())
