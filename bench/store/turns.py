"""Measures contestants in turns. Each turn is a fresh process, which times the phases of its work itself.

Contestants take turns (A B C A B C ...). If memory is limited, the process of a turn starts in its own control group, and the
page cache is dropped before, so that no contestant benefits from another's data in memory. The process prints one line of
JSON: ``seconds`` of each phase, and ``details``, which the report records unchanged.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.harness import conditions, machine, report
from bench.harness.measure import summarise
from bench.store.machine import ControlGroup, drop_caches, swapped

__all__ = ["Turn", "add_options", "bar", "bars_text", "finish", "measure", "new_report", "ratio", "say"]

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@dataclass(frozen=True)
class Turn:
    """The process of a contestant's turn.

    Attributes
    ----------
    contestant : str
        Its name in tables.
    module : str
        The module that the process runs. Its one argument is ``options`` as JSON.
    options : mapping
        Plain JSON values.
    limit : int or None
        Bytes of memory, page cache included; None for no limit, and for leaving the page cache as it is.
    swap : int
        Bytes of swap in addition to the limit.
    python : path
        The interpreter; by default that of this process.
    """

    contestant: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    swap: int = 0
    python: Path = Path(sys.executable)

    @property
    def allocator(self) -> str:
        """The setting of Polars' allocator: ``"own"`` if memory is limited, otherwise the same for all contestants."""
        return "kept" if self.limit is None else "own"


def new_report(benchmark: str, title: str, settings: Mapping[str, Any], baseline: str) -> dict[str, Any]:
    """Return a report without cases, in the form of `bench.harness.measure`."""
    return {
        "benchmark": benchmark,
        "title": title,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "conditions": conditions.describe(warm_up=settings.get("warm_up"), fresh_process=True),
        "settings": dict(settings),
        "baseline": baseline,
        "contestants": {},
        "cases": {},
        "summary": {},
        "bars": [],
    }


def measure(
    result: dict[str, Any],
    scenario: str,
    turns: Sequence[Turn],
    *,
    repeat: int,
    warm_up: int,
    timeout: float,
) -> None:
    """Run contestants in turns, and add a case to a report for each phase that they time.

    Parameters
    ----------
    result : dict
        A report of `new_report`, to which the cases are added.
    scenario : str
        The first part of the cases' names; the second is the phase.
    turns : sequence of Turn
        One for each contestant.
    repeat, warm_up : int
        Timed and untimed turns of each contestant.
    timeout : float
        Seconds for one turn. A contestant that fails or takes longer has no further turns.
    """
    done: dict[str, list[dict[str, Any]]] = {turn.contestant: [] for turn in turns}
    lost: dict[str, tuple[str, str]] = {}
    for number in range(warm_up + repeat):
        for turn in turns:
            if turn.contestant in lost:
                continue
            found = _run(turn, timeout)
            if isinstance(found, tuple):
                lost[turn.contestant] = found
                say(f"{scenario}: {turn.contestant} {found[0]}: {found[1]}")
                continue
            if number >= warm_up:
                done[turn.contestant].append(found)
            phases = ", ".join(f"{phase} {seconds:.4g}" for phase, seconds in found["seconds"].items())
            say(f"{scenario} {number + 1}/{warm_up + repeat}: {turn.contestant}: {phases}")
    timed = list(dict.fromkeys(phase for every in done.values() for one in every for phase in one["seconds"]))
    for phase in timed or ["all"]:
        case = result["cases"].setdefault(f"{scenario} {phase}", {})
        for turn in turns:
            case[turn.contestant] = _phase(phase, done[turn.contestant], lost.get(turn.contestant))
    for turn in turns:
        status = lost.get(turn.contestant, ("ok", ""))[0]
        known = result["contestants"].setdefault(turn.contestant, {"status": status, "details": {}})
        known["environment"] = conditions.variables(turn.contestant, allocator=turn.allocator)
        known["details"][scenario] = [one["details"] for one in done[turn.contestant]]
    if any(turn.allocator == "own" for turn in turns):
        result["conditions"].update(allocator="own", variables=conditions.variables(allocator="own"))
    result["baseline"] = summarise(result)


def _phase(phase: str, turns: Sequence[Mapping[str, Any]], lost: tuple[str, str] | None) -> dict[str, Any]:
    if lost is not None:
        return {"status": lost[0], "message": lost[1], "seconds": []}
    seconds = [turn["seconds"][phase] for turn in turns]
    peak = max((turn["details"].get("peak_memory", 0) for turn in turns), default=0)
    return {
        "status": "ok",
        "seconds": seconds,
        "peak_memory": peak,
        "median": statistics.median(seconds),
        "min": min(seconds),
        "max": max(seconds),
    }


def _run(turn: Turn, timeout: float) -> dict[str, Any] | tuple[str, str]:
    """Run the process of one turn, and return the values that it printed, or a status and a message."""
    program = [str(turn.python), "-m", turn.module, json.dumps(dict(turn.options))]
    environment = conditions.process_environment(turn.contestant, allocator=turn.allocator)
    if turn.limit is None:
        return _call(program, timeout, environment)
    drop_caches()
    before = swapped()
    with ControlGroup(f"craton-bench-{os.getpid()}-{time.monotonic_ns()}", turn.limit, turn.swap) as group:
        found = _call(group.command(*program), timeout, environment)
        if isinstance(found, dict):
            after = swapped()
            found["details"].update(
                peak_memory=group.peak, swap_read=after[0] - before[0], swap_written=after[1] - before[1]
            )
    return found


def _call(program: list[str], timeout: float, environment: dict[str, str]) -> dict[str, Any] | tuple[str, str]:
    try:
        done = subprocess.run(
            program,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            cwd=ROOT,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return "timeout", f"not done within {timeout:g} s"
    if done.returncode:
        said = " | ".join(done.stderr.strip().splitlines()[-2:])
        how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        return "failed", (f"{how}: {said}" if said else how)[:400].replace(str(ROOT), ".")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ratio(result: Mapping[str, Any], case: str, slower: str, faster: str) -> float | None:
    """Return the ratio of two contestants' medians in a case; None if one of them has no median."""
    case_results = result["cases"].get(case, {})
    medians = [case_results.get(name, {}).get("median") for name in (slower, faster)]
    return medians[0] / medians[1] if None not in medians else None


def bar(result: dict[str, Any], what: str, value: float | None, test: Callable[[float], bool], wanted: str) -> None:
    """Add a bar to a report: a measured value, its target value, and whether it was reached."""
    met = value is not None and test(value)
    result["bars"].append({"what": what, "value": value, "wanted": wanted, "met": met})


def bars_text(result: Mapping[str, Any]) -> list[str]:
    """Return a line for each bar of a report."""
    lines = []
    for line in result["bars"]:
        value = "not measured" if line["value"] is None else f"{line['value']:.4g}"
        lines.append(f"{'met ' if line['met'] else 'MISS'} {line['what']}: {value} (wanted: {line['wanted']})")
    return lines


def finish(given: argparse.Namespace, result: dict[str, Any], stem: str) -> None:
    """Print a report's table and its bars, and save it with its plot unless --no-save was given."""
    text = "\n".join([report.table(result), "", *bars_text(result), *result.get("remarks", [])])
    print(text, flush=True)
    if given.no_save:
        return
    given.output.mkdir(parents=True, exist_ok=True)
    report.save(result, given.output, stem)
    report.plot(result, given.output, stem)
    (given.output / f"{stem}.txt").write_text(text + "\n", encoding="utf-8")
    say(f"written: {given.output / stem}.json, .txt, .png")


def add_options(parser: argparse.ArgumentParser, *, repeat: int, timeout: float) -> None:
    """Add the options for turns and results to a parser. Their names are the same in all benchmarks."""
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--repeat", type=int, default=repeat, help="timed turns of each contestant (default: %(default)s)"
    )
    group.add_argument(
        "--warm-up", type=int, default=0, help="untimed turns before the timed ones (default: %(default)s)"
    )
    group.add_argument("--timeout", type=float, default=timeout, help="seconds for a turn (default: %(default)g)")
    group.add_argument(
        "--output", type=Path, default=report.RESULTS, help="folder of the results (default: bench/results)"
    )
    group.add_argument("--no-save", action="store_true", help="print the results, and do not write them to files")


def say(line: str) -> None:
    """Print a line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
