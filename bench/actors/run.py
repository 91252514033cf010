"""Actors: creation, calls in one process, across processes and by TCP, and the micro-benchmarks of Xorbits' paper.

    python -m bench.actors.run
    python -m bench.actors.run --contestants craton,xoscar --parts processes --repeat 3

Every turn is a fresh process. *inside*: caller and actor are in one process, where Ray has no actors. *processes*: the
actor is in a sub pool of the caller's group. *tcp*: it is in another program's group and is reached by TCP; Ray always
uses TCP. Cases are seconds per call, for rounds of concurrent calls; p50 and p99 of
single calls are below the table. The receiver reads every memory page of an array. Each of Ray's actors is a process, so
Ray creates fewer of them (``--ray-actors``). All figures are seconds per actor, call or read, except those of π.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Callable
from typing import Any

from bench import environments
from bench.actors.payloads import CALLS, SMALL
from bench.harness import command
from bench.store.turns import Turn, add_options, bar, finish, measure, new_report, ratio, say

__all__ = ["main"]

CONTESTANTS = ("craton", "xoscar", "ray")
PARTS = ("create", "inside", "processes", "tcp", "paper")


def _turn(name: str, options: dict[str, Any]) -> Turn:
    module = "bench.actors.ray_turns" if name == "ray" else "bench.actors.work"
    return Turn(name, module, options, python=environments.interpreter(name, progress=say))


def _bars(result: dict[str, Any], parts: list[str], names: list[str]) -> None:
    def held(peer: str, cases: list[str], what: str, least: float, choose: Callable[[list[float]], float]) -> None:
        if peer not in names:
            return
        found = [ratio(result, case, peer, "craton") for case in cases]
        known = [value for value in found if value is not None]
        value = choose(known) if known and len(known) == len(found) else None
        bar(result, f"{peer} to craton, {what}", value, lambda r: r >= least, f"≥ {least:g}")

    if "create" in parts:
        for way in ("an actor, one by one", "an actor, all at once"):
            held("ray", [f"create {way}"], f"create {way}", 8, min)
            held("xoscar", [f"create {way}"], f"create {way}", 1, min)
    for part in ("processes", "tcp"):
        if part in parts:
            small = [f"{part} {size}, {flight} in flight" for size, flight in CALLS if size in SMALL]
            held("xoscar", small, f"{part}: least ratio of small calls", 1.5, min)
            held("ray", small, f"{part}: least ratio of small calls", 8, min)
    if "processes" in parts:
        for size in ("1 MB", "100 MB"):
            large = [f"processes {size}, {flight} in flight" for one, flight in CALLS if one == size]
            held("xoscar", large, f"processes: least ratio of {size}", 3, min)
    if "paper" in parts:
        for case in [case for case in result["cases"] if case.startswith("paper ")]:
            held("ray", [case], case, 8, min)
            held("xoscar", [case], case, 1, min)


def _quantiles(result: dict[str, Any], parts: list[str], names: list[str]) -> list[str]:
    """Return lines of text with the p50 and p99 of single calls, each the median over the turns."""
    lines = ["", "p50 / p99 of single calls in µs, medians over the turns", ""]
    for part in parts:
        every = {name: result["contestants"].get(name, {}).get("details", {}).get(part, []) for name in names}
        cases = next((list(turns[0]["latency"]) for turns in every.values() if turns and "latency" in turns[0]), [])
        for case in cases:
            cells = []
            for name in names:
                found = [turn["latency"][case] for turn in every[name] if "latency" in turn]
                values = [1e6 * statistics.median(one[which] for one in found) for which in ("p50", "p99") if found]
                cells.append(f"{name} {' / '.join(f'{value:,.0f}' for value in values) or '-':>15}")
            lines.append(f"{part + ' ' + case:<40}" + "   ".join(cells))
    return lines if len(lines) > 3 else []


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.actors.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contestants", default=",".join(CONTESTANTS), help="(default: %(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), help="(default: %(default)s)")
    parser.add_argument("--actors", type=int, default=1000, help="number of actors to create (default: %(default)s)")
    parser.add_argument(
        "--ray-actors", type=int, default=20, help="number of actors that Ray creates (default: %(default)s)"
    )
    parser.add_argument(
        "--estimators", type=int, default=20, help="number of actors that estimate π (default: %(default)s)"
    )
    parser.add_argument("--budget", type=float, default=0.3, help="seconds of calls per case (default: %(default)s)")
    add_options(parser, repeat=3, timeout=300)
    given = parser.parse_args(argv)
    names = command.chosen(parser, given.contestants, CONTESTANTS, "contestant")
    parts = command.chosen(parser, given.parts, PARTS, "part")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    settings = {
        "repeat": given.repeat, "warm_up": given.warm_up, "timeout_seconds": given.timeout, "actors": given.actors,
        "ray_actors": given.ray_actors, "budget_seconds": given.budget, "points": 10_000, "rounds": 50, "keys": 1000,
        "reads": 8000, "estimators": given.estimators,
    }  # fmt: skip
    result = new_report("actors", "Actors: creation, calls, and micro-benchmarks", settings, names[0])
    for part in parts:
        turns = []
        for name in names:
            if part == "inside" and name == "ray":
                continue
            actors = given.estimators if part == "paper" else given.actors if name != "ray" else given.ray_actors
            work = {"budget": given.budget, **{key: settings[key] for key in ("points", "rounds", "keys", "reads")}}
            turns.append(_turn(name, {"contestant": name, "part": part, "actors": actors, **work}))
        if turns:
            measure(result, part, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
    _bars(result, parts, names)
    result["remarks"] = _quantiles(result, parts, names)
    finish(given, result, "actors")
    return 0 if all(line["met"] for line in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
