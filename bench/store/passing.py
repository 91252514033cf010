"""Passing a table of 1 GB between two processes: a reference to the store's pages, or the table's bytes.

    python -m bench.store.passing
    python -m bench.store.passing --contestants craton,arrow-stream,ray --rows 1000000

A pass begins when the sender starts and ends when the receiver, which is already running and connected, has read one
value of every column. *shared table*: the table is already in the contestant's own storage, which is the store for Craton
and ordinary memory for Arrow. *new table*: it is in ordinary memory for all contestants, so Craton has to put it into the store first.
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from bench import environments
from bench.harness import command, machine
from bench.store.turns import Turn, add_options, bar, finish, measure, new_report, ratio, say

__all__ = ["main"]

WORK = "bench.store.passing_work"
CONTESTANTS = {
    "craton": "craton",
    "craton-polars": "craton, Polars",
    "arrow-stream": "arrow stream",
    "arrow-file": "arrow file",
    "ray": "ray",
}
DEFAULT = "craton,craton-polars,arrow-stream,arrow-file"
"""The default contestants. Ray is not one of them, because it needs a separate environment."""
ROWS = 11_600_000


def _turn(name: str, options: dict[str, Any]) -> Turn:
    if name != "ray":
        return Turn(name, WORK, options)
    # The environment that has Ray and Arrow.
    return Turn(name, "bench.store.passing_ray", options, python=environments.interpreter("modin", progress=say))


def _bars(result: dict[str, Any], names: list[str]) -> None:
    case = "pass shared table"
    for name in ("craton", "craton, Polars"):
        if name not in names:
            continue
        found = result["cases"].get(case, {}).get(name, {})
        passes = [turn["passes"]["shared table"] for turn in result["contestants"][name]["details"]["pass"]]
        copied = max((one["copied_into_store"] for one in passes), default=None)
        outside = max((one["size"] - one["shared"] for one in passes), default=None)
        grown = max((one["private_growth"] for one in passes), default=None)
        bar(result, f"{name}: seconds to first use, {case}", found.get("median"), lambda s: s < 0.002, "< 0.002")
        bar(result, f"{name}: bytes copied into the store", copied, lambda b: b == 0, "0")
        bar(result, f"{name}: bytes of the received table outside shared memory", outside, lambda b: b == 0, "0")
        bar(result, f"{name}: MB that the receiver's own memory grew by", _mb(grown), lambda b: b < 10, "< 10")
        if "arrow stream" in names:
            value = ratio(result, case, "arrow stream", name)
            bar(result, f"Arrow's stream through a socket to {name}, {case}", value, lambda r: r >= 100, "≥ 100")


def _mb(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.passing", description=__doc__.splitlines()[0])
    parser.add_argument("--contestants", default=DEFAULT, help="(default: %(default)s)")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the table (default: %(default)s)")
    add_options(parser, repeat=7, timeout=120)
    given = parser.parse_args(argv)
    keys = command.chosen(parser, given.contestants, tuple(CONTESTANTS), "contestant")
    names = [CONTESTANTS[key] for key in keys]
    # SIGTERM raises SystemExit, so that the set-up is undone, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    machine.warm_memory(4 << 30)
    result = new_report(
        "passing",
        f"Passing a table of {given.rows:,} rows, each with 8 numbers and a string, to another process",
        {"repeat": given.repeat, "warm_up": given.warm_up, "timeout_seconds": given.timeout, "rows": given.rows},
        "craton" if "craton" in names else names[0],
    )
    turns = [_turn(name, {"contestant": name, "rows": given.rows}) for name in names]
    measure(result, "pass", turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
    _bars(result, names)
    finish(given, result, "passing")
    return 0 if all(line["met"] for line in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
