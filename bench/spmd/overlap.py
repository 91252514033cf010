"""Operators of SPMD programs between two machines in network namespaces: exchanges in rounds, beside exchanges at once. Needs root.

    python -m bench.spmd.overlap --rows 4000000 --rate 1gbit

Each machine has one rank. The tables have two columns of numbers, with 90 % distinct keys, and are in memory already. In rounds, a rank
computes with what has arrived while the rest is on its way (`craton.spmd.frames.overlap`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

from bench.harness import command, conditions, networks
from bench.harness.measure import measured, report_of_turns
from bench.store.turns import bar, finish, say

__all__ = ["main", "measure"]

OPERATORS = ("join", "group-by", "sort")
AT_ONCE, IN_ROUNDS = "at once", "in rounds"
#: How much faster exchanges in rounds are to be.
LEAST = 1.2


def _make(rows: int, env: Any) -> list[Any]:
    import numpy as np
    import pandas as pd

    tables = []
    for number in range(2):
        chance = np.random.default_rng([number, env.rank])
        own = rows // env.world_size
        tables.append(
            pd.DataFrame({"key": chance.integers(0, int(rows * 4.5), own), f"value{number}": chance.random(own)})
        )
    return tables


def _run(tables: list[Any], operator: str, rounds: int, env: Any) -> tuple[float, int]:
    import time

    from craton.spmd import frames
    from craton.spmd.frames import overlap

    overlap._MOST = rounds
    left, right = tables
    env.barrier()
    began = time.perf_counter()
    if operator == "join":
        result = frames.merge(left, right, on="key", env=env)
    elif operator == "group-by":
        result = frames.groupby(left, "key", env=env).agg({"value0": "sum"})
    else:
        result = frames.sort_values(left, "key", env=env)
    env.barrier()
    return time.perf_counter() - began, len(result)


def _program(given: dict[str, Any]) -> None:
    import craton
    from craton.spmd import Executor
    from craton.spmd.frames import overlap

    most = overlap._MOST
    with craton.init("dask", address=given["address"], workers=2, threads=1), Executor(2) as executor:
        tables = executor.run(_make, given["rows"])
        for operator in OPERATORS:
            found: dict[str, list[float]] = {AT_ONCE: [], IN_ROUNDS: []}
            rows = set()
            for turn in range(given["repeat"] + 1):
                for name, rounds in ((AT_ONCE, 1), (IN_ROUNDS, most)):
                    results = executor.run(_run, tables, operator, rounds).results()
                    rows.add(sum(count for _, count in results))
                    if turn:
                        found[name].append(max(seconds for seconds, _ in results))
            assert len(rows) == 1, rows
            print("= " + json.dumps([operator, found]), flush=True)


def measure(rows: int, rate: str, repeat: int) -> dict[str, Any]:
    """Measure both ways in turns; return a report in the format of `bench.harness.measure.measure`."""
    cases: dict[str, dict[str, Any]] = {}
    with networks.Network(2, rate=rate) as network, tempfile.TemporaryFile("w") as log:
        given = {"address": network.dask((0, 1), log), "rows": rows, "repeat": repeat}
        arguments = ["-m", "bench.spmd.overlap", "--program", json.dumps(given)]
        process = network.python(0, *arguments, env=conditions.process_environment(), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("= "):
                operator, found = json.loads(line[2:])
                cases[operator] = {name: measured(turns) for name, turns in found.items()}
                say(f"{operator}: " + ", ".join(f"{name} {min(turns):.2f} s" for name, turns in found.items()))
        if process.wait(60) or len(cases) < len(OPERATORS):
            raise RuntimeError(f"the program has ended with exit code {process.returncode}")
    title = f"SPMD operators between two machines, {rate}, {rows:,} rows"
    settings = {"repeat": repeat, "rate": rate, "rows": rows}
    report = report_of_turns("spmd-overlap", title, settings, AT_ONCE, [AT_ONCE, IN_ROUNDS], cases)
    report["bars"] = []
    for operator, ways in cases.items():
        gain = ways[AT_ONCE]["median"] / ways[IN_ROUNDS]["median"]
        bar(report, f"{operator}: gain by rounds", gain, lambda found: found >= LEAST, f"at least {LEAST}")
    return report


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--program"]:
        _program(json.loads(arguments[1]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m bench.spmd.overlap", description=__doc__.splitlines()[0])
    command.add_options(parser, contestants=(AT_ONCE, IN_ROUNDS), repeat=5)
    parser.add_argument("--rows", type=int, default=4_000_000, help="of each table (default: %(default)s)")
    parser.add_argument("--rate", default="1gbit", help="of each machine's network (default: %(default)s)")
    given = parser.parse_args(arguments)
    if reason := networks.unavailable():
        parser.error(reason)
    report = measure(given.rows, given.rate, given.repeat)
    finish(given, report, "spmd-overlap")
    return 0 if all(one["met"] for one in report["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
