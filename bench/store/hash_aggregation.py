"""Hash aggregation: pairs of a text and a number, summed by text, against Polars' group-by from the same batches, and against Redis.

    python -m bench.store.hash_aggregation
    python -m bench.store.hash_aggregation --keys 1000000 --repeats 10

As in Pangea's evaluation, which follows the benchmark of incise.org, keys are random numbers as text, nearly all distinct; with
``--repeats``, each key occurs as many times. The pairs are in frames of Polars with 100,000 rows each. *insert* ends when the sums are in
record batches or in a frame. ``craton, 3x`` has a store whose limit is a third of the bytes of all groups, 24 for each, so most of them are
written to disk and read again. ``craton map`` updates a `HashMap`, and does not read it. ``redis``
receives the pairs as ``INCRBY`` through a Unix socket, many in one message; it takes part if ``redis-server`` is on the PATH.

Every turn is a fresh process. It aggregates all pairs once, untimed, and then again.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from typing import Any

from bench.harness import command, machine
from bench.store.turns import Turn, add_options, bar, finish, measure, new_report, ratio

__all__ = ["main"]

WORK = "bench.store.hash_aggregation_work"
CONTESTANTS = {
    "craton": "craton",
    "craton-3x": "craton, 3x",
    "craton-map": "craton map",
    "polars": "polars",
    "polars-in-memory": "polars in memory",
    "redis": "redis",
}
MISSING = "redis was not measured: redis-server is not on the PATH"


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a target value is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.hash_aggregation", description=__doc__.splitlines()[0])
    parser.add_argument("--contestants", default=",".join(CONTESTANTS), help="(default: %(default)s)")
    parser.add_argument("--keys", default="1000000,10000000", help="numbers of keys (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="pairs for each key (default: %(default)s)")
    add_options(parser, repeat=5, timeout=600)
    given = parser.parse_args(argv)
    chosen = command.chosen(parser, given.contestants, tuple(CONTESTANTS), "contestant")
    names = [CONTESTANTS[key] for key in chosen if key != "redis" or shutil.which("redis-server")]
    counts = [int(count) for count in given.keys.split(",")]
    # SIGTERM raises SystemExit, so that the processes of turns are ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    machine.warm_memory(4 << 30)
    result = new_report(
        "hash_aggregation",
        "Sums of random numbers by text keys, from batches of 100,000 rows",
        {"repeat": given.repeat, "warm_up": given.warm_up, "timeout_seconds": given.timeout, "repeats": given.repeats},
        "polars" if "polars" in names else names[0],
    )
    for count in counts:
        options = {"keys": count, "repeats": given.repeats}
        turns = [Turn(name, WORK, {"contestant": name, **options}) for name in names]
        scenario = f"{count:,} keys"
        measure(result, scenario, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
        _bars(result, f"{scenario} insert", count * given.repeats)
    result["remarks"] = [] if "redis" in names or "redis" not in chosen else [MISSING]
    finish(given, result, "hash-aggregation")
    return 0 if all(line["met"] for line in result["bars"]) else 1


def _bars(result: dict[str, Any], case: str, rows: int) -> None:
    found = result["cases"].get(case, {})
    median = found.get("craton", {}).get("median")
    if median is None:
        return
    bar(result, f"craton: million pairs a second, {case}", rows / median / 1e6, lambda speed: speed > 0, "any")
    others = {"polars": 1.2, "polars in memory": 1.2, "redis": 5}
    for name, least in others.items():
        if name in found:
            value = ratio(result, case, name, "craton")
            bar(result, f"{name} / craton, {case}", value, lambda r, least=least: r >= least, f"≥ {least}")  # type: ignore[misc]
    if "craton, 3x" in found:
        value = ratio(result, case, "craton, 3x", "craton")
        bar(result, f"a third of the memory / all in memory, {case}", value, lambda r: r <= 2.5, "≤ 2.5")


if __name__ == "__main__":
    sys.exit(main())
