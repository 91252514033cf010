"""Join maps: 5 million rows joined with 1 million, in one process, and in two that share one map or build their own, against Polars.

    python -m bench.store.join_map
    python -m bench.store.join_map --rows 5000000 --build 1000000 --keys int,text

*join* ends when the row numbers of all pairs (Craton), or the joined columns (Polars, and ``craton rows``), are in memory. ``craton``
builds a map and probes it; ``craton probe`` probes a map that is there already. In the cases of two processes, each joins half of the rows:
with ``craton``, one of them builds a map, and both probe it; with ``polars``, and ``craton, own maps``, each has the whole of the smaller
table and builds its own.

Every turn is a fresh process, or two. It joins once, untimed, and then again.
"""

from __future__ import annotations

import argparse
import signal
import sys

from bench.harness import command, machine
from bench.store.turns import Turn, add_options, bar, finish, measure, new_report, ratio

__all__ = ["main"]

WORK = "bench.store.join_map_work"
ALONE = {"craton": "craton", "craton-probe": "craton probe", "craton-rows": "craton rows", "polars": "polars"}
SHARED = {"craton": "craton", "own": "craton, own maps", "polars": "polars"}


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a target value is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.join_map", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows that probe (default: %(default)s)")
    parser.add_argument("--build", type=int, default=1_000_000, help="rows of the map (default: %(default)s)")
    parser.add_argument("--keys", default="int,text", help="types of keys (default: %(default)s)")
    add_options(parser, repeat=5, timeout=600)
    given = parser.parse_args(argv)
    kinds = command.chosen(parser, given.keys, ("int", "text"), "type of keys")
    # SIGTERM raises SystemExit, so that the processes of turns are ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    machine.warm_memory(2 << 30)
    result = new_report(
        "join_map",
        f"{given.rows:,} rows joined with {given.build:,}",
        {"repeat": given.repeat, "warm_up": given.warm_up, "timeout_seconds": given.timeout},
        "polars",
    )
    for kind in kinds:
        for processes, names in ((1, ALONE), (2, SHARED)):
            options = {"rows": given.rows, "build": given.build, "keys": kind, "processes": processes}
            turns = [Turn(name, WORK, {"contestant": name, **options}) for name in names.values()]
            case = f"{kind} keys, {processes} process{'es' if processes > 1 else ''}"
            measure(result, case, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
            for other in names.values():
                if other != "polars":
                    value = ratio(result, f"{case} join", "polars", other)
                    bar(result, f"polars / {other}, {case}", value, lambda found: found > 0, "any")
    finish(given, result, "join-map")
    return 0 if all(line["met"] for line in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
