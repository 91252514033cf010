"""Fresh outputs of steps: one under a memory limit that a copy would break, and several at the same time.

    python -m bench.pipeline.outputs --gigabytes 4 --limit 6
    python -m bench.pipeline.outputs --gigabytes 0.5 --parallel 1,2,4,8,16

A step fills a table of eight columns and returns it. With Craton the process hands its memory over to the store. The baseline is a
process that writes an Arrow file to ``/dev/shm``, which is what pipelines do that pass tables through shared memory: the table and
its copy exist at the same time. Each contestant runs in a process of its own, within a memory control group that has the limit and no swap.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.pipeline.groups import run_limited

__all__ = ["main"]

COLUMNS = 8
CONTESTANTS = ("craton", "files")


def fresh(*, gigabytes: float, seed: int) -> pa.Table:
    """Make a table of numbers that differ by the seed."""
    rows = int(gigabytes * 1e9 / 8 / COLUMNS)
    return pa.table({f"c{i}": np.arange(rows, dtype=np.float64) + seed for i in range(COLUMNS)})


def total(table: pa.Table) -> float:
    """Return the sum of the last value of each column."""
    return float(sum(table[name][-1].as_py() for name in table.column_names))


class CratonOutputs:
    """Pipelines of one step, on one store."""

    def __init__(self, gigabytes: float, parallel: int, limit: float) -> None:
        import craton
        from craton.pipeline import RunSettings
        from craton.store import Store

        self._gigabytes, self._settings = gigabytes, RunSettings(cache=False)
        self._store = Store.open(int((limit - 0.6) * 1e9 if limit else gigabytes * parallel * 1.5e9 + 1e9))
        self._pipeline = craton.Pipeline([craton.step(source=True, memory=int(gigabytes * 1.02e9))(fresh)])
        self.run(0, 0.001)

    def run(self, seed: int, gigabytes: float | None = None) -> float:
        """Run one."""
        given = {"gigabytes": gigabytes or self._gigabytes, "seed": seed}
        result = self._pipeline.run(store=self._store, settings=self._settings, parameters=given)
        return total(result["fresh"])


class FileOutputs:
    """Processes that write files."""

    def __init__(self, gigabytes: float, parallel: int, limit: float) -> None:
        import multiprocessing

        self._gigabytes = gigabytes
        self._pool = multiprocessing.get_context("spawn").Pool(parallel)
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.run(0, 0.001)

    def run(self, seed: int, gigabytes: float | None = None) -> float:
        """Run one."""
        target = str(Path(self._folder.name) / f"{seed}.arrow")
        self._pool.apply(_write, (gigabytes or self._gigabytes, seed, target))
        try:
            return total(pa.ipc.open_file(pa.memory_map(target)).read_all())
        finally:
            Path(target).unlink()


def _write(gigabytes: float, seed: int, target: str) -> None:
    table = fresh(gigabytes=gigabytes, seed=seed)
    with pa.OSFile(target, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def work(name: str, gigabytes: float, parallel: int, limit: float, repeat: int) -> None:
    """Run one contestant in this process, and print its seconds as JSON."""
    made: dict[str, Callable[..., Any]] = {"craton": CratonOutputs, "files": FileOutputs}
    contestant = made[name](gigabytes, parallel, limit)
    seconds = []
    with ThreadPoolExecutor(parallel) as threads:
        for turn in range(repeat):
            began = time.perf_counter()
            found = list(threads.map(contestant.run, range(turn * parallel, (turn + 1) * parallel)))
            seconds.append(time.perf_counter() - began)
            rows = int(gigabytes * 1e9 / 8 / COLUMNS)
            if found != [COLUMNS * (rows - 1.0 + turn * parallel + i) for i in range(parallel)]:
                raise AssertionError(f"wrong tables: {found}")
    print(json.dumps(seconds))
    sys.stdout.flush()
    os._exit(0)


def measured(name: str, gigabytes: float, parallel: int, limit: float, repeat: int) -> dict[str, Any]:
    """Run one contestant in a memory control group: its seconds, its peak memory in bytes, and whether it was killed."""
    command = [sys.executable, "-m", "bench.pipeline.outputs", "--work", name, "--gigabytes", str(gigabytes)]
    command += ["--parallel", str(parallel), "--limit", str(limit), "--repeat", str(repeat)]
    ended = run_limited(command, limit, timeout=120 * repeat)
    return {"completed": ended.completed, "seconds": json.loads(ended.printed or "[]"), "peak": ended.peak}


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if Craton did not complete."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.outputs", description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4, help="size of a table (default: %(default)s)")
    parser.add_argument("--parallel", default="1", help="comma-separated numbers of steps at once (default: 1)")
    parser.add_argument(
        "--limit", type=float, default=0, help="gigabytes for all processes of a contestant (default: none)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs (default: %(default)s)")
    parser.add_argument("--work", choices=CONTESTANTS, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.work:
        work(given.work, given.gigabytes, int(given.parallel), given.limit, given.repeat)
    completed = True
    print(f"Fresh tables of {given.gigabytes:g} GB" + (f", limit {given.limit:g} GB" if given.limit else ""))
    for parallel in map(int, given.parallel.split(",")):
        rates = {}
        for name in CONTESTANTS:
            found = measured(name, given.gigabytes, parallel, given.limit, given.repeat)
            text = "killed"
            if found["completed"]:
                rates[name] = parallel * given.gigabytes / statistics.median(found["seconds"])
                text = f"{rates[name]:.2f} GB/s"
            elif name == "craton":
                completed = False
            if found["peak"] is not None:
                text += f", peak {found['peak'] / (given.gigabytes * 1e9 * parallel):.2f} x the tables"
            print(f"{parallel:3} at once  {name:7} {text}")
        if len(rates) == len(CONTESTANTS):
            print(f"{parallel:3} at once  ratio   {rates['craton'] / rates['files']:.2f}")
    return 0 if completed else 1


if __name__ == "__main__":
    sys.exit(main())
