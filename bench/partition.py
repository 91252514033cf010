"""Partitioning: TPC-H lineitem, all columns, by the hash of ``l_orderkey``, against ``polars.DataFrame.partition_by``.

    python -m bench.partition --scale 1 --partitions 64,4096

Polars is given each row's partition as a column that was computed before; Craton hashes the key within its time. The
frames are held as Polars reads them; ``craton-arrow`` holds them as pyarrow reads them. What partitions Craton takes
beside its input, at the most, is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.harness import command
from bench.harness.measure import Benchmark, Case
from bench.harness.worker import Contestant

__all__ = ["CONTESTANTS", "extra_memory", "main", "open_contestant"]

ROOT = Path(__file__).resolve().parents[1]
CONTESTANTS = ("craton", "craton-arrow", "polars", "polars-ordered")
KEY = "l_orderkey"
NUMBER = "partition"


def _polars_frame(path: str) -> Any:
    import polars as pl

    return pl.read_parquet(path)


def _arrow_table(path: str) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


class Craton:
    """The native partitioning, over a frame of Polars or a table of pyarrow."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def versions(self) -> dict[str, str]:
        """Return the version of the native module."""
        from craton import _native

        return {"craton": _native.__version__}

    def run(self, case: str) -> Any:
        """Distribute all rows."""
        from craton import _native

        return _native.partition(self._data, [KEY], int(case))

    def answer(self, case: str, result: Any) -> Any:
        """Return rows and sum of the keys of each partition."""
        import polars as pl

        return _answer([pl.DataFrame(part) for part in result])


class Polars:
    """``partition_by`` with the numbers of the partitions beside the rows."""

    def __init__(self, df: Any, ordered: bool) -> None:
        self._df, self._ordered = df, ordered
        self._numbered: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Return the version of Polars."""
        import polars as pl

        return {"polars": pl.__version__}

    def run(self, case: str) -> Any:
        """Split the frame; the numbers are computed in the untimed run."""
        if case not in self._numbered:
            self._numbered = {case: self._df.with_columns(self._numbers(int(case)))}
        return self._numbered[case].partition_by(NUMBER, maintain_order=self._ordered, include_key=False)

    def answer(self, case: str, result: Any) -> Any:
        """Return rows and sum of the keys of each partition."""
        return _answer(result)

    def _numbers(self, n: int) -> Any:
        import polars as pl

        from craton import _native

        hashes = pl.Series(_native.hash_rows(self._df.select(KEY)))
        # The high bits decide, and n is a power of two.
        numbers = hashes // (2**64 // n) if n > 1 else hashes * 0
        return numbers.cast(pl.UInt32).alias(NUMBER)


def _answer(frames: list[Any]) -> Any:
    """Return rows and sum of keys of partitions, in an order that does not depend on theirs."""
    return sorted([frame.height, int(frame[KEY].sum())] for frame in frames if frame.height)


def open_contestant(name: str, options: dict[str, Any]) -> Contestant:
    """Return one of `CONTESTANTS`; the option ``path`` is the Parquet file."""
    if name == "craton-arrow":
        return Craton(_arrow_table(options["path"]))
    df = _polars_frame(options["path"])
    return Craton(df) if name == "craton" else Polars(df, ordered=name == "polars-ordered")


def extra_memory(name: str, path: str, n: int) -> tuple[int, int]:
    """Partition once, and return the bytes of the table and the most bytes that were resident beside what was before.

    Meant for a fresh process, in which nothing that was freed lies around to be used again.
    """
    import polars as pl

    from craton import _native

    data = _arrow_table(path) if name == "craton-arrow" else _polars_frame(path)
    size = data.nbytes if name == "craton-arrow" else data.to_arrow(compat_level=pl.CompatLevel.newest()).nbytes
    # Polars joins the chunks of a frame when it is exported first, and keeps it so; that memory is not ours.
    _native.hash_rows(data, [KEY])
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    _native.partition(data, [KEY], n)
    return size, _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def _measure_memory(name: str, path: str, n: int) -> tuple[int, int]:
    code = f"import json; from bench.partition import extra_memory; print(json.dumps(extra_memory({name!r}, {path!r}, {n})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    size, extra = json.loads(done.stdout)
    return size, extra


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.partition", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default: %(default)g)")
    parser.add_argument("--folder", type=Path, help="where its tables are (default: build/tpch/sf<scale>)")
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
        title=f"Partitioning lineitem at scale {given.scale:g} by the hash of {KEY}, into so many partitions",
        module="bench.partition",
        cases=[Case(case) for case in cases],
        entries=command.entries(names, {"path": path}),
        baseline=given.baseline,
        repeat=given.repeat,
        warm_up=given.warm_up,
        timeout=given.timeout,
        memory_limit=command.memory_limit(given),
        lifetime=given.lifetime,
        settings={"scale": given.scale},
    )
    report = command.execute(given, benchmark, "partition")
    for name in (name for name in names if name.startswith("craton")):
        for case in cases:
            size, extra = _measure_memory(name, path, int(case))
            median = report["cases"][case][name].get("median")
            speed = f"{size / median / 1e9:.2f} GB/s of {size / 1e9:.2f} GB, " if median else ""
            print(f"{name} into {case}: {speed}{extra / size:.2f} x the data in memory beside it")
    return 1 if any(entry["right"] < entry["cases"] for entry in report["summary"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
