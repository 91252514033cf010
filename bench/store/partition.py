"""Partitioning: TPC-H lineitem, all columns, by the hash of ``l_orderkey``, against ``polars.DataFrame.partition_by``.

    python -m bench.store.partition --scale 1 --partitions 64,4096

Craton's time includes hashing the key. Polars' does not: its input has a column with the partition of each row, which is
computed beforehand. ``craton`` partitions into the pages of a store, with one locality set per partition. ``craton-stream``
does the same with chunks of 100,000 rows, as for a stream of data. ``craton-heap`` partitions into memory of the process.
``polars`` keeps the row order, as ``partition_by`` does by default and Craton does always; ``polars-unordered`` does not.
Polars reads the input file, except for ``craton-arrow``, for which pyarrow reads it. An untimed run comes first, so that each
contestant reuses memory. The peak memory of Craton's partitioning, without its input, is measured in a separate process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.harness import command, conditions
from bench.harness.measure import Benchmark, Case
from bench.harness.worker import Contestant

__all__ = ["CONTESTANTS", "extra_memory", "main", "open_contestant"]

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = ("craton", "craton-stream", "craton-heap", "craton-arrow", "polars", "polars-unordered")
PIECE = 100_000
KEY = "l_orderkey"
NUMBER = "partition"


def _polars_frame(path: str) -> Any:
    import polars as pl

    return pl.read_parquet(path)


def _arrow_table(path: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


class Craton:
    """Partitioning of a frame of Polars or a table of pyarrow, into a store or into memory of the process."""

    def __init__(self, data: Any, stored: bool, streamed: bool = False) -> None:
        self._data, self._streamed = data, streamed
        self._store: Any = None
        if stored:
            from craton.store import Store

            # The limit of the store: half of the machine's memory.
            self._store = Store.open(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)

    def versions(self) -> dict[str, str]:
        """Return the version of the native module."""
        from craton import _native

        return {"craton": _native.__version__}

    def run(self, case: str) -> Any:
        """Distribute all rows over the partitions."""
        return _partition(self._store, self._data, int(case), self._streamed)

    def answer(self, case: str, result: Any) -> Any:
        """Return the number of rows and the sum of the keys of each partition."""
        import polars as pl

        parts = result if self._store is None else [part.to_arrow() for part in result if len(part)]
        return _answer([pl.DataFrame(part) for part in parts])


def _partition(store: Any, data: Any, n: int, streamed: bool) -> Any:
    from craton import _native
    from craton.store import shuffle

    if store is None:
        return _native.partition(data, [KEY], n)
    return shuffle(store, data.iter_slices(PIECE) if streamed else data, KEY, n)


class Polars:
    """Polars' ``partition_by``, by a column with the partition of each row."""

    def __init__(self, df: Any, ordered: bool) -> None:
        self._df, self._ordered = df, ordered
        self._numbered: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Return the version of Polars."""
        import polars as pl

        return {"polars": pl.__version__}

    def run(self, case: str) -> Any:
        """Split the frame. The first run, which is not timed, adds the column with the partitions."""
        if case not in self._numbered:
            self._numbered = {case: self._df.with_columns(self._numbers(int(case)))}
        return self._numbered[case].partition_by(NUMBER, maintain_order=self._ordered, include_key=False)

    def answer(self, case: str, result: Any) -> Any:
        """Return the number of rows and the sum of the keys of each partition."""
        return _answer(result)

    def _numbers(self, n: int) -> Any:
        import polars as pl

        from craton import _native

        hashes = pl.Series(_native.hash_rows(self._df.select(KEY)))
        # The high bits of the hash are the partition, because n is a power of two.
        numbers = hashes // (2**64 // n) if n > 1 else hashes * 0
        return numbers.cast(pl.UInt32).alias(NUMBER)


def _answer(frames: list[Any]) -> Any:
    """Return the number of rows and the sum of the keys of each partition, sorted, so that the order of partitions does not matter."""
    return sorted([frame.height, int(frame[KEY].sum())] for frame in frames if frame.height)


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return one of `CONTESTANTS`; the option ``path`` is the Parquet file."""
    if name == "craton-arrow":
        return Craton(_arrow_table(options["path"]), stored=True)
    df = _polars_frame(options["path"])
    if name.startswith("craton"):
        return Craton(df, stored=name != "craton-heap", streamed=name == "craton-stream")
    return Polars(df, ordered=name == "polars")


def extra_memory(name: str, path: str, n: int) -> tuple[int, int]:
    """Partition once, and return the bytes of the table and the peak growth of resident memory.

    Call it in a fresh process, because a process that has freed memory reuses it.
    """
    import polars as pl

    from craton import _native
    from craton.store import Store

    data = _arrow_table(path) if name == "craton-arrow" else _polars_frame(path)
    size = data.nbytes if name == "craton-arrow" else data.to_arrow(compat_level=pl.CompatLevel.newest()).nbytes
    # The first export of a Polars frame concatenates its chunks in place. Do that now, because it is not memory of the partitioning.
    _native.hash_rows(data, [KEY])
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    stored = name != "craton-heap"
    made = _partition(Store.open(8 * size) if stored else None, data, n, name == "craton-stream")
    extra = _status("VmHWM") - before
    del made
    return size, extra


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def _measure_memory(name: str, path: str, n: int) -> tuple[int, int]:
    code = f"import json; from bench.store.partition import extra_memory; print(json.dumps(extra_memory({name!r}, {path!r}, {n})))"
    # Make the allocators return freed memory immediately. Otherwise memory that reading freed would be returned during the
    # measurement, and reduce the measured growth.
    plain = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment = conditions.process_environment(extra=plain)
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    size, extra = json.loads(done.stdout)
    return size, extra


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.partition", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default: %(default)g)")
    parser.add_argument("--folder", type=Path, help="folder of the tables (default: build/tpch/sf<scale>)")
    parser.add_argument(
        "--partitions", default="64", help="numbers of partitions, powers of two (default: %(default)s)"
    )
    command.add_options(parser, contestants=CONTESTANTS, repeat=9)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    cases = [case for case in given.partitions.split(",") if case]
    if any(not case.isdigit() or int(case).bit_count() != 1 for case in cases):
        parser.error(f"{given.partitions!r} is not a list of powers of two, such as 64,4096")
    from craton.demo import data

    folder = data.ensure(given.scale, given.folder or data.folder_for(given.scale, ROOT / "build"))
    path = str((folder / "lineitem.parquet").resolve())
    benchmark = Benchmark(
        name="partition",
        title=f"Partitioning lineitem at scale {given.scale:g} by the hash of {KEY}; cases are numbers of partitions",
        module="bench.store.partition",
        cases=[Case(case) for case in cases],
        entries=command.entries(names, {"path": path}),
        settings={"scale": given.scale},
        **command.limits(given),
    )
    report = command.execute(given, benchmark, "partition")
    for name in (name for name in names if name.startswith("craton")):
        for case in cases:
            size, extra = _measure_memory(name, path, int(case))
            median = report["cases"][case][name].get("median")
            speed = f"{size / median / 1e9:.2f} GB/s of {size / 1e9:.2f} GB, " if median else ""
            print(f"{name} into {case}: {speed}additional memory {extra / size:.2f} x the data")
    return 1 if any(entry["right"] < entry["cases"] for entry in report["summary"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
