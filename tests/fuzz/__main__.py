"""The command line of the fuzzer; ``python -m tests.fuzz --help``."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.fuzz import grid
from tests.fuzz.modes import MODES
from tests.fuzz.run import Run, summary

#: Each way to run once, and as a whole every other time.
_ROUND = [
    "whole",
    "whole",
    "tiles3",
    "default",
    "whole",
    "tiles2",
    "no-memory",
    "tiles17",
    "whole",
    "looks",
    "tiles3-broadcast",
    "whole",
    "spill",
    "reordered",
    "whole",
    "split",
    "renamed",
]
#: What ``--mode all`` takes turns with. The ways that take ten times as long as the others come once in two rounds; the number of
#: turns is prime, so that each of several processes comes to each.
ALL = [*_ROUND, *(mode for mode in _ROUND[1:] if mode not in ("tiles17", "spill"))]


def main(arguments: list[str] | None = None) -> int:
    """Run programs, or the grid; 1 if anything differs."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["grid"]:
        return _grid(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Random programs under pandas and Craton."
    )
    parser.add_argument("--programs", type=int, default=0, help="how many (default: as many as there is time for)")
    parser.add_argument("--minutes", type=float, default=0, help="for how long (default: 1, or until all have run)")
    parser.add_argument("--seed", default="", help="the same seed gives the same programs (default: a new one)")
    parser.add_argument("--mode", default="whole", help=f"all, or some of {', '.join(MODES)}, with commas between")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--reach", action="store_true", help="print what was reached")
    parser.add_argument("--allow", type=int, default=0, help="how many distinct differences are no failure yet")
    parser.add_argument("--without", default="", help="a pattern; statements that it finds are not made")
    chosen = parser.parse_args(given)
    modes = ALL if chosen.mode == "all" else chosen.mode.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"no modes {sorted(unknown)}; modes are {sorted(MODES)}")
    seed = chosen.seed or str(random.SystemRandom().randrange(10**9))
    programs = chosen.programs or sys.maxsize
    seconds = chosen.minutes * 60 or (60.0 if not chosen.programs else 1e9)
    print(f"seed {seed}, mode {chosen.mode}, {chosen.jobs} processes", flush=True)
    started = time.time()
    told = Run(seed, modes, programs, seconds, chosen.jobs, sys.stdout, chosen.without).run()
    print(summary(told, time.time() - started, chosen.reach))
    distinct = {one.signature for one in told.findings if not one.difference.lesser}
    return 1 if len(told.unrepeatable) + len(distinct) > chosen.allow else 0


def _grid(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz grid", description="Orders x derived columns x endings."
    )
    parser.add_argument("--mode", default="whole", choices=MODES)
    parser.add_argument("--source", default="memory", choices=["memory", "parquet", "csv"])
    parser.add_argument("--every", type=int, default=1, help="only each so-many-th cell")
    chosen = parser.parse_args(arguments)
    return 1 if grid.run(chosen.mode, chosen.source, chosen.every) else 0


if __name__ == "__main__":
    sys.exit(main())
