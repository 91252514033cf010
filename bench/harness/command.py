"""Defines the command-line options that all benchmarks share, and runs, prints and saves a benchmark."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import environments
from bench.harness import machine, measure, report

__all__ = ["add_options", "chosen", "entries", "execute", "finish", "limits"]

GIB = 1024**3


def add_options(parser: argparse.ArgumentParser, *, contestants: Sequence[str], repeat: int = 5) -> None:
    """Add the common options to a parser.

    Parameters
    ----------
    parser : ArgumentParser
        The parser of one benchmark.
    contestants : sequence of str
        The default contestants.
    repeat : int
        The default number of timed runs.
    """
    default = ",".join(contestants)
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--contestants",
        default=default,
        help=f"comma-separated, in the order of their turns (default: {default})",
    )
    group.add_argument(
        "--repeat",
        type=int,
        default=repeat,
        help="timed runs of each contestant in each case (default: %(default)s)",
    )
    group.add_argument(
        "--warm-up",
        type=int,
        default=1,
        help="untimed runs before the timed ones (default: %(default)s)",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=600,
        help="seconds for a single run (default: %(default)g)",
    )
    group.add_argument(
        "--memory-limit",
        type=float,
        help="GiB for each contestant (default: 70%% of the available memory)",
    )
    group.add_argument(
        "--baseline",
        default="polars",
        help="contestant to whose times ratios are computed (default: %(default)s)",
    )
    group.add_argument(
        "--allocator",
        choices=("kept", "default"),
        default="kept",
        help="setting of all contestants: keep freed memory, as Craton does, or Polars' default (default: %(default)s)",
    )
    group.add_argument(
        "--lifetime",
        choices=("benchmark", "case", "run"),
        default="benchmark",
        help="keep a contestant's process for all cases, for one case or for one run (default: %(default)s)",
    )
    group.add_argument(
        "--warm-memory",
        type=float,
        default=4,
        help="GiB of memory to write to before the first run (default: %(default)g)",
    )
    group.add_argument(
        "--output",
        type=Path,
        default=report.RESULTS,
        help="folder of the results (default: bench/results)",
    )
    group.add_argument("--no-save", action="store_true", help="print only")


def chosen(parser: argparse.ArgumentParser, given: str, known: Sequence[str], what: str) -> list[str]:
    """Return the names in a comma-separated option; exit with the list of valid names if one is unknown."""
    names = [name for name in given.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        parser.error(f"{given!r} names no {what} of this benchmark; choose from {', '.join(known)}")
    return names


def entries(names: Sequence[str], options: Mapping[str, Any]) -> list[measure.Entry]:
    """Return an entry for each contestant; all have the same options."""

    def maker(name: str) -> Callable[[], Path]:
        return lambda: environments.interpreter(name, progress=_say)

    return [measure.Entry(name, maker(name), options) for name in names]


def execute(given: argparse.Namespace, benchmark: measure.Benchmark, stem: str) -> dict[str, Any]:
    """Run a benchmark with progress output, and write its JSON, table and plot.

    Parameters
    ----------
    given : Namespace
        The parsed options of `add_options`.
    benchmark : Benchmark
        The benchmark to run.
    stem : str
        Name of the result files, without the extension.
    """
    _say(f"{benchmark.title}: {', '.join(entry.name for entry in benchmark.entries)}")
    machine.warm_memory(int(given.warm_memory * GIB))

    def keep(found: dict[str, Any]) -> None:
        if not given.no_save:
            report.save(found, given.output, stem)

    # SIGTERM raises SystemExit, so that the contestants are ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    result = measure.measure(benchmark, progress=_say, save=keep)
    finish(given, result, stem)
    return result


def finish(given: argparse.Namespace, result: dict[str, Any], stem: str) -> None:
    """Print a report as a table; write the report, the table and the plot to files unless --no-save was given."""
    text = report.table(result)
    print(text, flush=True)
    if given.no_save:
        return
    places = [
        report.save(result, given.output, stem),
        report.plot(result, given.output, stem),
    ]
    table = given.output / f"{stem}.txt"
    table.write_text(text + "\n", encoding="utf-8")
    print("\nwritten: " + ", ".join(str(place) for place in [*places, table]), flush=True)


def limits(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Benchmark` that the common options determine: baseline, repetitions, limits and lifetime."""
    memory = 0.7 * machine.available_memory() if given.memory_limit is None else given.memory_limit * GIB
    return {
        "baseline": given.baseline,
        "repeat": given.repeat,
        "warm_up": given.warm_up,
        "timeout": given.timeout,
        "memory_limit": int(memory),
        "allocator": given.allocator,
        "lifetime": given.lifetime,
    }


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
