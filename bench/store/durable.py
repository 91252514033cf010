"""Writing and reading a durable set: against plain writes and reads of as many bytes, and against Parquet files.

    python -m bench durable --megabytes 2000

Written are a table in memory, and the same bytes in blocks of 8 MiB with one fsync. Read are all columns into pandas, and the sum of one
column; the Parquet file is written by Craton. Cold: the files are on the disk only; warm: they are in the page cache, too. The contestants
take turns; medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = 8 << 20


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench durable", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=2000, help="size of the table (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="a folder on the disk (default: build/)")
    given = parser.parse_args(argv)
    rows = given.megabytes * 1_000_000 // 48
    given.folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        _run(Path(folder), rows, given.repeat)
    return 0


def _run(folder: Path, rows: int, repeat: int) -> None:
    import numpy as np
    import pandas
    import pyarrow as pa

    import craton
    import craton.pandas as pd
    from bench.pandas_likes import Craton

    rng = np.random.default_rng(0)
    texts = np.array([f"text {i:03}" for i in range(1000)])
    table = pa.table(
        {
            "k": rng.integers(0, rows, rows),
            "x": rng.random(rows),
            "y": rng.random(rows),
            "s": pa.array(texts[rng.integers(0, 1000, rows)], pa.large_string()),
        }
    )
    craton.options.data = folder / "data"
    engine = Craton()
    nbytes = table.nbytes
    block = rng.bytes(_BLOCK)

    def plain() -> None:
        with open(folder / "plain", "wb", buffering=0) as file:
            for _ in range(nbytes // _BLOCK):
                file.write(block)
            os.fsync(file.fileno())

    def save() -> None:
        craton.save("set", table, mode="overwrite")
        from craton.store.durable import DurableSet

        durable = DurableSet("set")
        durable.expire(durable.versions()[:-1])
        durable.repair()

    written = _turns({"plain writes": plain, "save": save}, repeat, folder)
    for name, seconds in written.items():
        print(f"{name:24} {nbytes / 1e6 / seconds:8.0f} MB/s")
    print(f"{'save / plain writes':24} {written['plain writes'] / written['save']:8.2f}\n", flush=True)
    craton.read_set("set").to_parquet(folder / "set.parquet")
    buffer = bytearray(_BLOCK)

    def plain_read() -> None:
        with open(folder / "plain", "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    def all_of(read: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            engine.forget()
            pandas.DataFrame(read())

        return run

    def one_of(read: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            engine.forget()
            float(read()["x"].sum())

        return run

    def of_set() -> Any:
        return craton.read_set("set")

    def of_parquet() -> Any:
        return pd.read_parquet(folder / "set.parquet")

    done = _turns(
        {
            "plain reads, cold": plain_read,
            "set, all columns, cold": all_of(of_set),
            "Parquet, all columns, cold": all_of(of_parquet),
            "plain reads": plain_read,
            "set, all columns": all_of(of_set),
            "Parquet, all columns": all_of(of_parquet),
            "set, one sum": one_of(of_set),
            "Parquet, one sum": one_of(of_parquet),
        },
        repeat,
        folder,
    )
    for name, seconds in done.items():
        print(f"{name:28} {seconds:8.3f} s")
    for when in (", cold", ""):
        print(f"{f'plain reads / all{when}':28} {done[f'plain reads{when}'] / done[f'set, all columns{when}']:8.2f}")
    for what in ("all columns, cold", "all columns", "one sum"):
        print(f"{f'Parquet / set, {what}':28} {done[f'Parquet, {what}'] / done[f'set, {what}']:8.2f}")


def _forget_pages(folder: Path) -> None:
    """Remove the files in a folder from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _turns(work: dict[str, Callable[[], None]], repeat: int, folder: Path) -> dict[str, float]:
    """The median seconds of each, after one run that is not timed. Before those that are cold, the files in the folder are."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(repeat + 1):
        for name, run in work.items():
            if name.endswith("cold"):
                _forget_pages(folder)
            began = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(one) for name, one in times.items()}


if __name__ == "__main__":
    sys.exit(main())
