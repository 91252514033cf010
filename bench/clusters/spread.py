"""TPC-H on machines in network namespaces with a limited rate: a Dask cluster with a worker on each. Needs root.

    python -m bench.clusters.spread --scale 10
    python -m bench.clusters.spread --scale 1 --machines 3 --rate 1gbit --contestants own,lz4

All plans run on the session, and each result must equal the embedded run's, with types, index and row order. Contestants are ways to send
data between machines: by the actors' connections, by a communicator (`own`), and with compression (`lz4`). Each has a program of its own
on the first machine; the programs take turns, query by query. What the machines send is read from their network devices, and compared
with the bytes that the workers have fetched of other machines' outputs: the rest are results, headers, and messages of the schedulers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.harness import command, conditions, networks
from bench.harness.measure import measured, report_of_turns
from bench.store.turns import bar, finish, say

__all__ = ["main", "measure"]

CONTESTANTS: dict[str, dict[str, Any]] = {
    "actors": {},
    "own": {"communicator": "own"},
    "lz4": {"communicator": "own", "compression": "lz4"},
}
#: The most that machines send for each byte that is fetched.
MOST = 1.05


class _Program:
    """A contestant's program on the first machine."""

    def __init__(self, network: networks.Network, given: dict[str, Any], log: Any) -> None:
        self._process = network.python(
            0,
            "-m",
            "bench.clusters.spread",
            "--program",
            json.dumps(given),
            env=conditions.process_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def answer(self) -> Any:
        """Wait for what the program says next."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("= "):
                return json.loads(line[2:])
        raise RuntimeError(f"the program has ended with exit code {self._process.wait(10)}")

    def run(self, query: str) -> dict[str, Any]:
        """Run a query; return its seconds, the bytes that were fetched, and whether the result is right."""
        assert self._process.stdin is not None
        self._process.stdin.write(query + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = self.answer()
        return found

    def end(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _program(given: dict[str, Any]) -> None:
    import craton
    import craton.pandas
    from bench.clusters.contestants import exact_table
    from bench.harness import answers
    from craton.demo.queries import QUERIES
    from craton.engine.tiled import current_engine
    from craton.memory import clear_memory

    def result(query: str) -> Any:
        found = QUERIES[query](craton.pandas, given["folder"])
        return exact_table(found.to_pandas() if hasattr(found, "to_pandas") else found)

    expected = {query: result(query) for query in given["queries"]}
    with craton.init(
        "dask", address=given["address"], workers=given["workers"], threads=1, **given["options"]
    ) as session:
        engine = current_engine()
        engine.least_bytes = 0

        async def fetched() -> int:
            members = session.runner._members
            return sum([(await members.ref(band).status())["fetched"] for band in members.alive_bands()])

        print("= " + json.dumps("ready"), flush=True)
        for line in sys.stdin:
            query = line.strip()
            clear_memory()
            before, runs = session.call(fetched()), engine.runs
            began = time.perf_counter()
            found = result(query)
            said = {
                "seconds": time.perf_counter() - began,
                "fetched": session.call(fetched()) - before,
                "right": engine.runs > runs and answers.difference(expected[query], found, order_by="every") is None,
            }
            print("= " + json.dumps(said), flush=True)


def measure(folder: Path, names: list[str], queries: list[str], given: argparse.Namespace) -> dict[str, Any]:
    """Measure all contestants in turns; return a report in the format of `bench.harness.measure.measure`."""
    seconds: dict[str, dict[str, list[float]]] = {query: {name: [] for name in names} for query in queries}
    sent: dict[str, list[int]] = {name: [0, 0] for name in names}
    wrong: list[str] = []
    delay = given.delay if networks.has_netem() else 0.0
    with (
        networks.Network(given.machines, rate=given.rate, delay=delay) as network,
        tempfile.TemporaryFile("w") as log,
    ):
        address = network.dask(range(given.machines), log)
        programs = {}
        for name in names:
            known = {"folder": str(folder), "queries": queries, "address": address, "workers": given.machines}
            programs[name] = _Program(network, {**known, "options": CONTESTANTS[name]}, log)
            programs[name].answer()
            say(f"{name}: ready")
        for query in queries:
            for turn in range(given.repeat + 1):
                for name, program in programs.items():
                    before = sum(map(network.sent, range(given.machines)))
                    found = program.run(query)
                    on_wire = sum(map(network.sent, range(given.machines))) - before
                    if turn:
                        seconds[query][name].append(found["seconds"])
                        sent[name][0] += found["fetched"]
                        sent[name][1] += on_wire
                    if not found["right"]:
                        wrong.append(f"{query} by {name}")
                    moved = f"{found['fetched'] / 1e6:.1f} MB fetched, {on_wire / 1e6:.1f} MB sent"
                    say(f"{query} by {name}: {found['seconds']:.2f} s, {moved}")
        for program in programs.values():
            program.end()
    cases = {query: {name: measured(turns) for name, turns in found.items()} for query, found in seconds.items()}
    title = f"TPC-H, scale factor {given.scale:g}, on {given.machines} machines with {given.rate} and {delay:g} ms"
    settings = {
        "repeat": given.repeat,
        "scale": given.scale,
        "machines": given.machines,
        "rate": given.rate,
        "delay": delay,
        "sent": sent,
    }
    report = report_of_turns("spread", title, settings, given.baseline, names, cases)
    report["bars"], report["remarks"] = [], [f"wrong: {one}" for one in wrong]
    bar(report, "results that differ from the embedded run's", len(wrong), lambda found: found == 0, "0")
    for name, (fetched, on_wire) in sent.items():
        report["remarks"].append(f"{name}: {fetched / 1e9:.3f} GB fetched, {on_wire / 1e9:.3f} GB sent")
        if name != "lz4" and fetched:
            what = f"bytes sent by {name} for each byte fetched"
            bar(report, what, on_wire / fetched, lambda found: found <= MOST, f"at most {MOST}")
    return report


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--program"]:
        _program(json.loads(arguments[1]))
        return 0
    from craton.demo import data
    from craton.demo.queries import QUERIES

    parser = argparse.ArgumentParser(prog="python -m bench.clusters.spread", description=__doc__.splitlines()[0])
    command.add_options(parser, contestants=tuple(CONTESTANTS), repeat=1)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default: %(default)g)")
    parser.add_argument("--queries", default=",".join(QUERIES), help="comma-separated (default: all)")
    parser.add_argument("--machines", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--rate", default="1gbit", help="of each machine's network (default: %(default)s)")
    parser.add_argument(
        "--delay", type=float, default=1.0, help="milliseconds, if the kernel has netem (default: %(default)g)"
    )
    parser.set_defaults(baseline="actors")
    given = parser.parse_args(arguments)
    if reason := networks.unavailable():
        parser.error(reason)
    names = command.chosen(parser, given.contestants, tuple(CONTESTANTS), "contestant")
    queries = command.chosen(parser, given.queries, tuple(QUERIES), "query")
    report = measure(data.ensure(given.scale), names, queries, given)
    finish(given, report, "spread")
    return 0 if all(one["met"] for one in report["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
