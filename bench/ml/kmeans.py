"""k-means: Craton and scikit-learn from the same initial centres, with points in memory and with three times the memory.

    python -m bench.ml.kmeans                          both parts
    python -m bench.ml.kmeans --parts memory --rows 1000000

Part ``memory``: an array of doubles in memory; a fixed number of iterations (the tolerance is 0). The centres must be equal to 1e-9.

Part ``larger``: the process has a third of the bytes of the points as memory, page cache included, and the store's limit is lower by
``--room``. ``craton`` streams the points from an Arrow file into a locality set. ``craton-mapped`` computes the same over a mapped file,
which the operating system pages. ``scikit-learn`` is given the mapped file as well; it copies it, so it is expected to fail.
``craton-unlimited`` is ``craton`` without limits.

Each turn is a fresh process. Reading the array of ``memory`` is not timed; streaming the file of ``larger`` is.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.store.machine import MIB, why_not
from bench.store.turns import Turn, add_options, bar, finish, measure, new_report, ratio, say

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
WORK = "bench.ml.kmeans_work"
PIECE = 1 << 16
"""The rows that are written at once."""


def points(folder: Path, rows: int, columns: int) -> tuple[str, str]:
    """Write the points as an array and as an Arrow file, unless they exist, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    array, table = folder / f"points-{rows}x{columns}.npy", folder / f"points-{rows}x{columns}.arrow"
    if array.exists() and table.exists():
        return str(array), str(table)
    random = np.random.default_rng(rows)
    middles = random.normal(0, 5, (10, columns))
    out = np.lib.format.open_memmap(f"{array}.new", mode="w+", dtype=np.float64, shape=(rows, columns))
    schema = pa.schema([(f"x{column}", pa.float64()) for column in range(columns)])
    with pa.OSFile(f"{table}.new", "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for start in range(0, rows, PIECE):
            count = min(PIECE, rows - start)
            piece = middles[random.integers(0, 10, count)] + random.normal(0, 4, (count, columns))
            out[start : start + count] = piece
            parts = [pa.array(np.ascontiguousarray(piece[:, column])) for column in range(columns)]
            writer.write_batch(pa.RecordBatch.from_arrays(parts, schema=schema))
    out.flush()
    Path(f"{array}.new").rename(array)
    Path(f"{table}.new").rename(table)
    return str(array), str(table)


def memory(given: argparse.Namespace) -> dict[str, Any]:
    """Compare Craton with scikit-learn, points in memory."""
    result = new_report("kmeans", f"k-means, {_work(given)}, points in memory", _settings(given), "scikit-learn")
    for rows in given.rows:
        array, _ = points(given.folder, rows, given.columns)
        options = {"array": array, "clusters": given.clusters, "iterations": given.iterations}
        turns = [Turn(name, WORK, {**options, "contestant": name}) for name in ("craton", "scikit-learn")]
        name = f"{rows:,} rows"
        measure(result, name, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
        value = ratio(result, f"{name} fit", "scikit-learn", "craton")
        bar(result, f"scikit-learn to craton, {name}", value, lambda r: r >= 1, "≥ 1")
        apart = _apart(result, name, "craton", "scikit-learn")
        bar(result, f"largest difference of centres, {name}", apart, lambda d: d <= 1e-9, "≤ 1e-9")
    return result


def larger(given: argparse.Namespace) -> dict[str, Any]:
    """Run with a third of the memory that the points take."""
    result = new_report("kmeans-larger", f"k-means, {_work(given)}, 3 x the memory", _settings(given), "craton")
    rows = given.larger_rows
    array, table = points(given.folder, rows, given.columns)
    limit = rows * given.columns * 8 // 3
    options = {
        "array": array,
        "table": table,
        "clusters": given.clusters,
        "iterations": given.iterations,
        "limit": limit - given.room * MIB,
        "folder": str(given.folder),
    }
    turns = [
        Turn(name, WORK, {**options, "contestant": name}, limit) for name in ("craton", "craton-mapped", "scikit-learn")
    ]
    turns.append(Turn("craton-unlimited", WORK, {**options, "contestant": "craton", "limit": 8 * limit}))
    name = f"{rows:,} rows, limit {limit / 1e6:.0f} MB"
    measure(result, name, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
    bar(
        result,
        "craton-mapped to craton",
        ratio(result, f"{name} fit", "craton-mapped", "craton"),
        lambda r: r >= 1,
        "≥ 1",
    )
    slower = ratio(result, f"{name} fit", "craton", "craton-unlimited")
    bar(result, "craton to craton-unlimited", slower, lambda r: r < 10, "< 10")
    apart = _apart(result, name, "craton", "craton-unlimited")
    bar(result, "largest difference of centres", apart, lambda d: d == 0, "0")
    return result


def _apart(result: dict[str, Any], scenario: str, one: str, other: str) -> float | None:
    """Return the largest difference between the centres of two contestants; None if one has none."""
    found = [result["contestants"][name]["details"].get(scenario) for name in (one, other)]
    if not all(found):
        return None
    return max(
        float(np.abs(np.array(ours["centers"]) - np.array(theirs["centers"])).max())
        for ours in found[0]
        for theirs in found[1]
    )


def _work(given: argparse.Namespace) -> str:
    return f"{given.columns} columns, {given.clusters} clusters, {given.iterations} iterations"


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    names = ("columns", "clusters", "iterations", "room", "repeat", "warm_up", "timeout")
    return {name: getattr(given, name) for name in names}


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.ml.kmeans", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="memory,larger", help="of memory and larger (default: both)")
    parser.add_argument(
        "--rows",
        type=lambda text: [int(one) for one in text.split(",")],
        default=[1_000_000, 10_000_000],
        help="numbers of points in memory (default: 1000000,10000000)",
    )
    parser.add_argument(
        "--larger-rows", type=int, default=30_000_000, help="points of part larger (default: %(default)s)"
    )
    parser.add_argument("--columns", type=int, default=10, help="columns (default: %(default)s)")
    parser.add_argument("--clusters", type=int, default=10, help="clusters (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=20, help="iterations (default: %(default)s)")
    parser.add_argument(
        "--room",
        type=int,
        default=300,
        help="MiB of the limit that the store leaves to the rest (default: %(default)s)",
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "kmeans", help="folder of the points and of the store's pages"
    )
    parser.add_argument("--delete", action="store_true", help="delete the points afterwards")
    add_options(parser, repeat=5, timeout=900)
    given = parser.parse_args(argv)
    parts = [part for part in given.parts.split(",") if part]
    if not parts or set(parts) - {"memory", "larger"}:
        parser.error(f"{given.parts!r} is not of memory and larger")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    met = True
    try:
        for part in parts:
            reason = why_not() if part == "larger" else None
            if reason is not None:
                say(f"part larger is left out: {reason}")
                continue
            result = memory(given) if part == "memory" else larger(given)
            finish(given, result, str(result["benchmark"]))
            met = met and all(line["met"] for line in result["bars"])
    finally:
        if given.delete:
            shutil.rmtree(given.folder, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
