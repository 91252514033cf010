"""Clusters: Craton's sessions against the embedded run and against Dask, Modin and Spark; their overhead and their recovery.

    python -m bench clusters --parts equal,tpch --scale 10
    python -m bench clusters --parts init,tasks,moved --scale 1
    python -m bench clusters --parts kills --kills 100

equal: compares TPC-H on each host with the embedded run, including types, index and row order. tiles: the same for 1 to 129
tiles in one process. tpch: times the queries on sessions and on other clusters. cylon: times CylonFlow's operators.
limit: runs queries under a hard memory limit for all processes. kills: runs queries while workers are killed. init, tasks:
times the start of a session, and empty tasks. moved: counts the bytes that bands read from each other, for each assignment policy.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import environments
from bench.clusters import kills as clusters_kills
from bench.clusters import limit as clusters_limit
from bench.clusters import moved as clusters_moved
from bench.clusters.contestants import HOSTS, PEERS
from bench.cylon import data as cylon_data
from bench.cylon.contestants import CASES as OPERATORS
from bench.harness import command, conditions, measure, report
from bench.store import turns as store_turns
from bench.store.machine import MIB
from bench.store.turns import Turn, bar, new_report, say
from bench.tpch.sql import ORDER

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
MODULE = "bench.clusters.contestants"
QUIET = {
    # A contestant is paused while others run. Its heartbeats stop during that time, but its workers must not be declared dead.
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "None",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "1h",
    "RAY_health_check_timeout_ms": "3600000",
    "RAY_health_check_failure_threshold": "1000",
}
CORES = 2
"""The number of cores that each contestant may use. Contestants take turns on them."""


def _entry(name: str, engine: str, options: Mapping[str, Any], threads: int) -> measure.Entry:
    """Return an entry; engines that would use all cores of the machine are limited to `threads`."""
    environment = {**QUIET, "BENCH_CORES": str(threads)}
    if engine == "embedded":
        environment["POLARS_MAX_THREADS"] = str(threads)
    if engine in PEERS:
        # The engine starts as many processes as Craton has workers. Its libraries get one thread per process, as in Craton's workers.
        environment.update(conditions.variables("spark"), BENCH_CORES=str(threads))

    def interpreter() -> Path:
        return environments.interpreter(PEERS.get(engine, "craton"), progress=say)

    return measure.Entry(name, interpreter, {**options, "engine": engine}, environment)


def _benchmark(
    given: argparse.Namespace, cases: Sequence[measure.Case], entries: Sequence[measure.Entry], **more: Any
) -> measure.Benchmark:
    known: dict[str, Any] = {"module": MODULE, "cases": cases, "entries": entries, **command.limits(given)}
    return measure.Benchmark(**{**known, **more})


def _saver(given: argparse.Namespace, stem: str) -> Callable[[dict[str, Any]], None]:
    def keep(found: dict[str, Any]) -> None:
        if not given.no_save:
            report.save(found, given.output, stem)

    return keep


def _total_ratio(result: Mapping[str, Any], slower: str, faster: str) -> tuple[float | None, int]:
    """Return the ratio of two contestants' total seconds over the cases in which both were right, and the number of these cases."""
    both = [
        (results[slower]["median"], results[faster]["median"])
        for results in result["cases"].values()
        if all(results.get(name, {}).get("status") == "ok" for name in (slower, faster))
    ]
    return (sum(one for one, _ in both) / sum(other for _, other in both) if both else None), len(both)


# ---- parts that the harness measures ----


def _compared(given: argparse.Namespace, stem: str, title: str, entries: Sequence[measure.Entry], folder: Path) -> bool:
    """Run every query on the given contestants and on the embedded engine, and report the differences."""
    cases = [measure.Case(query, "every") for query in given.queries]
    base = _entry("embedded", "embedded", {"work": "tpch", "folder": str(folder), "exact": True}, CORES)
    result: dict[str, Any] | None = None
    for entry in entries:
        say(f"{title}: {entry.name}")
        benchmark = _benchmark(
            given, cases, [base, entry], name="equal", title=title, baseline="embedded", tolerance=1e-9, repeat=1,
            warm_up=0, settings={"folder": folder.name},
        )  # fmt: skip
        found = measure.measure(benchmark, progress=say)
        if result is None:
            result = found
        for name, results in found["cases"].items():
            result["cases"][name][entry.name] = results[entry.name]
        result["contestants"][entry.name] = found["contestants"].get(entry.name, {})
        measure.summarise(result)
        _saver(given, stem)(result)
    assert result is not None
    result["bars"] = []
    for entry in entries:
        right = result["summary"][entry.name]["right"]
        bar(result, f"queries equal on {entry.name}", right, lambda n: n == len(cases), f"{len(cases)}")
    store_turns.finish(given, result, stem)
    return all(line["met"] for line in result["bars"])


def equal(given: argparse.Namespace) -> bool:
    """Compare hosts with the embedded run."""
    folder = _data(given, given.scale)
    entries = [
        _entry(
            f"{name}-{workers}",
            name,
            {**_tpch(given, folder, workers), "exact": True, "every": True, "least": 0},
            CORES,
        )
        for name in given.hosts
        for workers in given.workers
    ]
    title = f"TPC-H on sessions and embedded, scale factor {given.scale:g}"
    return _compared(given, f"clusters-equal-sf{given.scale:g}", title, entries, folder)


def tiles(given: argparse.Namespace) -> bool:
    """Compare numbers of tiles with the embedded run."""
    folder = _data(given, given.tiles_scale)
    options = {"work": "tpch", "folder": str(folder), "exact": True, "every": True, "broadcast": given.broadcast}
    entries = [_entry(f"tiles-{count}", "tiles", {**options, "tiles": count}, CORES) for count in given.tiles]
    what = "" if given.broadcast is None else f", sides of joins up to {given.broadcast:,} bytes broadcast"
    title = f"TPC-H in tiles and as a whole, scale factor {given.tiles_scale:g}{what}"
    stem = f"clusters-tiles-sf{given.tiles_scale:g}" + ("" if given.broadcast is None else f"-{given.broadcast}")
    return _compared(given, stem, title, entries, folder)


def tpch(given: argparse.Namespace) -> bool:
    """Compare the seconds of queries."""
    folder = _data(given, given.scale)
    workers = CORES
    ours = ["embedded", *given.hosts]
    entries = [
        _entry(name, name, {**_tpch(given, folder, workers), "cores": CORES}, CORES) for name in [*ours, *given.peers]
    ]
    benchmark = _benchmark(
        given, [measure.Case(query, ORDER[query]) for query in given.queries], entries, name="clusters",
        title=f"TPC-H on {CORES} cores, scale factor {given.scale:g}, from Parquet", baseline="embedded",
        settings={"scale": given.scale, "cores": CORES, "workers": workers, "threads": 1},
    )  # fmt: skip
    stem = f"clusters-{'-'.join(given.peers) or 'tpch'}-sf{given.scale:g}"
    result = measure.measure(benchmark, progress=say, save=_saver(given, stem))
    result["bars"] = []
    count = len(given.queries)

    def total(slower: str, faster: str, test: Callable[[float], bool], wanted: str) -> None:
        value, of = _total_ratio(result, slower, faster)
        bar(result, f"total of {slower} to {faster}, {of} of {count} queries", value, test, wanted)

    total("local", "embedded", lambda r: r <= 1.5, "≤ 1.5")
    for host in given.hosts:
        if host != "local":
            total(host, "local", lambda r: r <= 1.1, "≤ 1.1")
    for peer in given.peers:
        if result["summary"][peer]["right"]:
            total(peer, "local", lambda r: r >= 3, "≥ 3")
    result["remarks"] = _none_right(result, given.peers)
    store_turns.finish(given, result, stem)
    return all(line["met"] for line in result["bars"])


def cylon(given: argparse.Namespace) -> bool:
    """Compare CylonFlow's operators with those of Dask and Spark."""
    folder = cylon_data.make(given.rows, None).resolve()
    peers = [peer for peer in given.peers if peer in ("dask", "spark")]
    met = True
    for workers in given.workers:
        options = {"work": "cylon", "folder": str(folder), "workers": workers, "threads": 1, "source": given.source}
        entries = [_entry(name, name, options, workers) for name in ["local", "ranks", *peers]]
        benchmark = _benchmark(
            given, [measure.Case(operator) for operator in given.operators], entries, name="clusters",
            title=f"CylonFlow's operators, {given.rows / 1e6:g} million rows, {workers} workers, from {given.source}",
            baseline="local", settings={"rows": given.rows, "workers": workers, "threads": 1, "source": given.source},
        )  # fmt: skip
        source = "" if given.source == "memory" else f"-{given.source}"
        stem = f"clusters-cylon-{'-'.join(peers) or 'alone'}-{given.rows / 1e6:g}m-{workers}{source}"
        result = measure.measure(benchmark, progress=say, save=_saver(given, stem))
        result["bars"] = []
        bars = (
            ("local", "ranks", 1.0),
            ("dask", "local", 5.0),
            ("spark", "local", 2.0),
            ("dask", "ranks", 5.0),
            ("spark", "ranks", 3.0),
        )
        for slower, faster, least in bars:
            for operator in given.operators if slower in ("local", *peers) else ():
                if result["cases"][operator][slower]["status"] == "ok":
                    value = store_turns.ratio(result, operator, slower, faster)
                    bar(result, f"{slower} to {faster}, {operator}", value, least.__le__, f"≥ {least:g}")
        result["remarks"] = _none_right(result, peers)
        store_turns.finish(given, result, stem)
        met &= all(line["met"] for line in result["bars"])
    return met


def _none_right(result: Mapping[str, Any], peers: Sequence[str]) -> list[str]:
    none = [peer for peer in peers if not result["summary"][peer]["right"]]
    return [f"nothing was right of {peer}'s, as is said above" for peer in none]


def _tpch(given: argparse.Namespace, folder: Path, workers: int) -> dict[str, Any]:
    return {"work": "tpch", "folder": str(folder), "workers": workers, "threads": 1, "least": given.least}


def _data(given: argparse.Namespace, scale: float) -> Path:
    """Return the folder of TPC-H's tables, and generate them if they do not exist."""
    from craton.demo import data

    return data.ensure(scale, given.data).resolve()


# ---- parts whose turns are processes ----


def _turns(given: argparse.Namespace, part: str, title: str, options: dict[str, Any], warm_up: int) -> dict[str, Any]:
    settings = {"repeat": given.repeat, "warm_up": warm_up, "timeout_seconds": given.timeout, "workers": given.workers}
    result = new_report("clusters", title, {**settings, **options}, "local")
    for workers in given.workers:
        turns = [
            Turn(
                name,
                "bench.clusters.turns",
                {"part": part, "host": HOSTS[name], "workers": workers, "threads": 1, **options},
            )
            for name in given.hosts
        ]
        scenario = f"{workers} workers:"
        store_turns.measure(result, scenario, turns, repeat=given.repeat, warm_up=warm_up, timeout=given.timeout)
    return result


def init(given: argparse.Namespace) -> bool:
    """Time the start of sessions."""
    result = _turns(given, "init", "A session's beginning", {}, 1)
    for workers in given.workers:
        value = result["cases"].get(f"{workers} workers: init", {}).get("local", {}).get("median")
        if workers == 2:
            bar(result, "seconds until craton.init('local', workers=2) is ready", value, lambda s: s < 1.5, "< 1.5")
    store_turns.finish(given, result, "clusters-init")
    return all(line["met"] for line in result["bars"])


def tasks(given: argparse.Namespace) -> bool:
    """Time empty tasks."""
    result = _turns(given, "tasks", f"Seconds a task, of {given.count:,}", {"count": given.count}, 0)
    for case, results in result["cases"].items():
        for name, found in results.items():
            value = 1e6 * found["median"] if "median" in found else None
            if case.endswith("an empty task"):
                bar(result, f"µs a task on {name}, {case}", value, lambda t: t <= 50, "≤ 50")
    store_turns.finish(given, result, "clusters-tasks")
    return all(line["met"] for line in result["bars"])


def limit(given: argparse.Namespace) -> bool:
    """Run queries under a memory limit."""
    folder, nbytes = _data(given, given.scale), given.limit * MIB
    settings = {
        "repeat": 1, "scale": given.scale, "limit_bytes": nbytes, "room_bytes": given.room * MIB, "times": given.times,
        "workers": given.limit_workers, "threads": 1, "timeout_seconds": given.timeout,
    }  # fmt: skip
    title = f"Within {given.limit} MiB for all processes: TPC-H at scale factor {given.scale:g}, and {given.times:g} times that"
    name = f"local-{given.limit_workers}" if given.limit_workers else "embedded"
    result = new_report("clusters", title, settings, name)
    clusters_limit.measure(
        result, folder, ROOT / "build" / "bench-limit", queries=given.queries, limit=nbytes, room=given.room * MIB,
        times=given.times, workers=given.limit_workers, timeout=given.timeout, repeat=1,
    )  # fmt: skip
    where = "" if given.limit_workers else "-embedded"
    store_turns.finish(given, result, f"clusters-limit-{given.limit}-sf{given.scale:g}{where}")
    return all(line["met"] for line in result["bars"])


# ---- parts that do not report seconds ----


def kills(given: argparse.Namespace) -> bool:
    """Run queries while workers are killed."""
    settings = {
        "kills": given.kills,
        "scale": given.tiles_scale,
        "workers": 2,
        "broadcast_bytes": given.broadcast or MIB,
    }
    result = new_report("clusters", f"{given.kills} runs of three joins, a worker killed in each", settings, "local")
    clusters_kills.measure(
        result, _data(given, given.tiles_scale), kills=given.kills, batch=given.batch, workers=2,
        broadcast=settings["broadcast_bytes"], hang=given.hang, seed=given.seed,
    )  # fmt: skip
    text = "\n".join(f"{outcome:15} {number}" for outcome, number in result["outcomes"].items())
    left = [f"left: {one}" for one in result["left"]]
    messages = [
        f"seed {turn['seed']}: {turn['outcome']}: {turn['message']}" for turn in result["runs"] if "message" in turn
    ]
    _finish(given, result, "clusters-kills", "\n".join([text, *messages, *left]), clusters_kills.plot)
    return all(line["met"] for line in result["bars"])


def moved(given: argparse.Namespace) -> bool:
    """Compare policies by the bytes that they move."""
    settings = {"scale": given.scale, "bands": given.workers, "tiles": given.moved_tiles}
    result = new_report(
        "clusters", f"Bytes moved between bands, TPC-H at scale factor {given.scale:g}", settings, "round-robin"
    )
    folder = _data(given, given.scale)
    text = clusters_moved.measure(result, folder, queries=given.queries, bands=given.workers, tiles=given.moved_tiles)
    _finish(given, result, f"clusters-moved-sf{given.scale:g}", text, clusters_moved.plot)
    return all(line["met"] for line in result["bars"])


def _finish(
    given: argparse.Namespace,
    result: dict[str, Any],
    stem: str,
    text: str,
    plot: Callable[[dict[str, Any], Path], None],
) -> None:
    """Print a report in a form of its own and its bars, and save it with its plot."""
    text = "\n".join([result["title"], "", text.strip("\n"), "", *store_turns.bars_text(result)])
    print(text, flush=True)
    if given.no_save:
        return
    report.save(result, given.output, stem)
    (given.output / f"{stem}.txt").write_text(text + "\n", encoding="utf-8")
    plot(result, given.output / f"{stem}.png")
    say(f"written: {given.output / stem}.json, .txt, .png")


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "init": init, "tasks": tasks, "moved": moved, "tiles": tiles, "equal": equal, "tpch": tpch, "cylon": cylon,
    "limit": limit, "kills": kills,
}  # fmt: skip


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.clusters.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="(default: %(default)s)")
    parser.add_argument(
        "--scale", type=float, default=10, help="TPC-H scale factor of equal, tpch, limit, moved (default: %(default)g)"
    )
    parser.add_argument(
        "--tiles-scale", type=float, default=1, help="TPC-H scale factor of tiles and kills (default: %(default)g)"
    )
    parser.add_argument("--data", type=Path, help="folder of the Parquet files (default: made under build/)")
    parser.add_argument("--queries", default="", help="numbers of the queries, such as 1,6,21 (default: all)")
    parser.add_argument("--hosts", default=",".join(HOSTS), help="(default: %(default)s)")
    parser.add_argument(
        "--peers", default=",".join(PEERS), help="other engines in tpch and cylon; '' for none (default: %(default)s)"
    )
    parser.add_argument(
        "--workers", type=_numbers, default=[2, 4], help="numbers of workers on each host (default: 2,4)"
    )
    parser.add_argument(
        "--tiles",
        type=_numbers,
        default=[1, 2, 3, 7, 129],
        help="numbers of tiles in the part tiles (default: 1,2,3,7,129)",
    )
    parser.add_argument(
        "--broadcast", type=int, help="bytes up to which a side of a join is broadcast, in tiles and kills"
    )
    parser.add_argument("--least", type=int, help="bytes that a plan must read to run on the session, in tpch")
    parser.add_argument(
        "--rows", type=int, default=50_000_000, help="rows of each side in cylon (default: %(default)s)"
    )
    parser.add_argument(
        "--source", choices=("memory", "parquet"), default="memory", help="input of cylon (default: %(default)s)"
    )
    parser.add_argument("--operators", default=",".join(OPERATORS), help="in cylon (default: %(default)s)")
    parser.add_argument(
        "--limit", type=int, default=700, help="memory limit of the part limit in MiB (default: %(default)s)"
    )
    parser.add_argument(
        "--room",
        type=int,
        default=440,
        help="MiB of the limit that are left to interpreters and libraries (default: %(default)s)",
    )
    parser.add_argument(
        "--times",
        type=float,
        default=4,
        help="size of the tables in limit, as a multiple of the limit; 0 for none (default: %(default)g)",
    )
    parser.add_argument(
        "--limit-workers", type=int, default=2, help="workers in limit; 0 for no session (default: %(default)s)"
    )
    parser.add_argument("--kills", type=int, default=100, help="number of runs in kills (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=10, help="runs of one driver in kills (default: %(default)s)")
    parser.add_argument(
        "--hang", type=float, default=30, help="seconds after which a run counts as a hang (default: %(default)g)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run in kills (default: %(default)s)")
    parser.add_argument("--count", type=int, default=100_000, help="number of empty tasks (default: %(default)s)")
    parser.add_argument(
        "--moved-tiles", type=int, help="number of tiles in moved (default: the number that Craton chooses)"
    )
    store_turns.add_options(parser, repeat=3, timeout=300)
    parser.add_argument("--memory-limit", type=float, help="GiB for each contestant (default: 70%% of the free memory)")
    parser.add_argument(
        "--lifetime", choices=("benchmark", "case"), default="benchmark", help="how long a contestant's process is kept"
    )
    parser.set_defaults(baseline="embedded", allocator="kept")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a bar was missed."""
    parser = _parser()
    given = parser.parse_args(argv)
    parts = command.chosen(parser, given.parts, list(PARTS), "part")
    given.hosts = command.chosen(parser, given.hosts, list(HOSTS), "host")
    given.peers = command.chosen(parser, given.peers, list(PEERS), "peer") if given.peers else []
    given.operators = command.chosen(parser, given.operators, OPERATORS, "operator")
    wanted = [f"q{number.lstrip('q').zfill(2)}" for number in given.queries.split(",") if number]
    given.queries = command.chosen(parser, ",".join(wanted or ORDER), list(ORDER), "query")
    # SIGTERM raises SystemExit, so that contestants and drivers are ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    missed = [part for part in parts if not PARTS[part](given)]
    if missed:
        print(f"missed target values in: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
