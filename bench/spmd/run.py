"""SPMD programs: the start of ranks, empty calls, and joins, group-bys and sorts beside the planned session.

    python -m bench spmd --parts start
    python -m bench spmd --parts operators --rows 4000000 --ranks 2,4
    python -m bench spmd --parts communication,hosts --ranks 1,2,4

start: the first executor of a program, the next one, a barrier, and a call that does nothing. operators: CylonFlow's operators on two
columns of random numbers, with 90 % distinct keys, that are in memory already; on ranks, on a session with as many workers, in pandas.
communication: the seconds of a join, and of the calls of the communicator in it, by communicator and number of ranks. hosts: the operators
on ranks that are processes of the program, of Ray's workers and of Dask's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import craton.comm
from bench.store import turns as store_turns
from bench.store.turns import Turn, bar, new_report

__all__ = ["main"]

MODULE = "bench.spmd.turns"
#: The most time of ranks in workers of Ray and Dask, for each second of Craton's own.
CLOSE = 1.05


def start(given: argparse.Namespace) -> bool:
    """Time the start of executors, and calls."""
    result = _new(given, "Executors: seconds of starts and calls", f"{given.ranks[-1]} ranks")
    turns = [Turn(f"{ranks} ranks", MODULE, {"part": "start", "ranks": ranks}) for ranks in given.ranks]
    _measure(given, result, "ranks:", turns)
    most = f"{given.ranks[-1]} ranks"
    starts = (("first executor to its first barrier", 0.5), ("next executor to its first barrier", 0.5))
    for phase, limit in (*starts, ("a barrier", 60e-6), ("an empty call", 0.001)):
        value = result["cases"].get(f"ranks: {phase}", {}).get(most, {}).get("median")
        bar(result, f"{phase}, {most}", value, limit.__ge__, f"≤ {limit:g} s")
    store_turns.finish(given, result, "spmd-start")
    return all(line["met"] for line in result["bars"])


def operators(given: argparse.Namespace) -> bool:
    """Time operators on distributed frames."""
    result = _new(given, f"Operators on {given.rows / 1e6:g} million rows a table", "pandas")
    options = {"part": "operators", "rows": given.rows}
    turns = [Turn("pandas", MODULE, {**options, "engine": "pandas"})]
    for ranks in given.ranks:
        turns.append(Turn(f"session, {ranks} workers", MODULE, {**options, "engine": "session", "ranks": ranks}))
        turns.append(Turn(f"{ranks} ranks", MODULE, {**options, "engine": "ranks", "ranks": ranks}))
    _measure(given, result, "operators:", turns)
    store_turns.finish(given, result, f"spmd-operators-{given.rows / 1e6:g}m")
    return all(line["met"] for line in result["bars"])


def communication(given: argparse.Namespace) -> bool:
    """Time a join, and the communication in it, by communicator and number of ranks."""
    names = [name for name in craton.comm.available() if name != "mpi"]  # its ranks are started by mpiexec
    result = _new(
        given, f"Communication in a join of {given.rows / 1e6:g} million rows a table", f"own, {given.ranks[0]} ranks"
    )
    options = {"part": "communication", "rows": given.rows}
    turns = [
        Turn(f"{name}, {ranks} ranks", MODULE, {**options, "communicator": name, "ranks": ranks})
        for ranks in given.ranks
        for name in names
    ]
    _measure(given, result, "communication:", turns)
    whole, inside = (result["cases"].get(f"communication: {phase}", {}) for phase in ("join", "communication"))
    for turn in turns:
        if "median" in whole.get(turn.contestant, {}):
            share = inside[turn.contestant]["median"] / whole[turn.contestant]["median"]
            store_turns.say(f"{turn.contestant}: {share:.0%} of the time is communication")
    store_turns.finish(given, result, "spmd-communication")
    return True


def hosts(given: argparse.Namespace) -> bool:
    """Time operators on the ranks of each host."""
    ranks, own = given.ranks[-1], "own"
    result = _new(given, f"Operators on {ranks} ranks by host, {given.rows / 1e6:g} million rows a table", own)
    options = {"part": "hosts", "rows": given.rows, "ranks": ranks, "turns": 5}
    _measure(given, result, "hosts:", [Turn(host, MODULE, {**options, "host": host}) for host in (own, "ray", "dask")])
    for host in ("ray", "dask"):
        value = store_turns.ratio(result, "hosts: all", host, own)
        bar(result, f"{host}'s workers, time of own", value, lambda ratio: ratio <= CLOSE, f"at most {CLOSE}")
    store_turns.finish(given, result, "spmd-hosts")
    return all(line["met"] for line in result["bars"])


def _new(given: argparse.Namespace, title: str, baseline: str) -> dict[str, Any]:
    settings = {
        "repeat": given.repeat,
        "warm_up": given.warm_up,
        "timeout_seconds": given.timeout,
        "ranks": given.ranks,
    }
    return new_report("spmd", title, settings, baseline)


def _measure(given: argparse.Namespace, result: dict[str, Any], scenario: str, turns: list[Turn]) -> None:
    store_turns.measure(result, scenario, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "start": start,
    "operators": operators,
    "communication": communication,
    "hosts": hosts,
}


def main(argv: list[str]) -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m bench spmd", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of each table (default: %(default)s)")
    store_turns.add_options(parser, repeat=3, timeout=600)
    given = parser.parse_args(argv)
    given.ranks = [int(one) for one in given.ranks.split(",")]
    parts = given.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown parts: {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    return 0 if all([PARTS[part](given) for part in parts]) else 1  # noqa: C419 -- each part runs
