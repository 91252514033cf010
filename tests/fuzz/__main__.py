"""The command line of the fuzzer; ``python -m tests.fuzz --help``."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.fuzz import grid
from tests.fuzz.modes import MODES
from tests.fuzz.run import Run, summary

#: Every other program runs in the mode single-node, the others in each of the other modes in turn.
_ROUND = [
    "single-node",
    "in-memory",
    "tiles3",
    "default",
    "single-node",
    "tiles2",
    "no-memory",
    "tiles17",
    "single-node",
    "evaluations",
    "tiles3-broadcast",
    "single-node",
    "spill",
    "reordered",
    "single-node",
    "split",
    "renamed",
    "single-node",
    "sets",
    "sets-tiles3",
    "single-node",
    "sets-objects",
]
#: The modes of ``--mode all``, in turn. Modes that take ten times as long as the others occur once in two rounds. The number of turns
#: is prime, so that each of several processes runs every mode.
ALL = [*_ROUND, *(mode for mode in _ROUND[1:] if mode not in ("tiles17", "spill"))]


def main(arguments: list[str] | None = None) -> int:
    """Run random programs, or the grid; return 1 if anything differs, else 0."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["grid"]:
        return _grid(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Compares random programs under pandas and Craton."
    )
    parser.add_argument(
        "--programs", type=int, default=0, help="number of programs (default: as many as the time allows)"
    )
    parser.add_argument(
        "--minutes", type=float, default=0, help="duration (default: 1, or until all programs have run)"
    )
    parser.add_argument("--seed", default="", help="equal seeds generate equal programs (default: a new seed)")
    parser.add_argument("--mode", default="single-node", help=f"all, or a comma-separated list of {', '.join(MODES)}")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument(
        "--reach", action="store_true", help="print which calls, parameters and pairs of operators were covered"
    )
    parser.add_argument(
        "--allow", type=int, default=0, help="the largest number of distinct differences that is not a failure"
    )
    parser.add_argument("--without", default="", help="a regular expression; matching statements are not generated")
    chosen = parser.parse_args(given)
    modes = ALL if chosen.mode == "all" else chosen.mode.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"no modes {sorted(unknown)}; modes are {sorted(MODES)}")
    seed = chosen.seed or str(random.SystemRandom().randrange(10**9))
    programs = chosen.programs or sys.maxsize
    seconds = chosen.minutes * 60 or (60.0 if not chosen.programs else 1e9)
    print(f"seed {seed}, mode {chosen.mode}, {chosen.jobs} processes", flush=True)
    started = time.time()
    counts = Run(seed, modes, programs, seconds, chosen.jobs, sys.stdout, chosen.without).run()
    print(summary(counts, time.time() - started, chosen.reach))
    distinct = {one.signature for one in counts.findings if not one.difference.only_message}
    return 1 if len(counts.unrepeatable) + len(distinct) > chosen.allow else 0


def _grid(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz grid",
        description="Compares all combinations of orders, derived columns and endings.",
    )
    parser.add_argument("--mode", default="single-node", choices=MODES)
    parser.add_argument("--source", default="memory", choices=["memory", "parquet", "csv"])
    parser.add_argument("--every", type=int, default=1, help="run only every n-th combination")
    chosen = parser.parse_args(arguments)
    return 1 if grid.run(chosen.mode, chosen.source, chosen.every) else 0


if __name__ == "__main__":
    sys.exit(main())
