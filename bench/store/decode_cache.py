"""TPC-H through the decode cache: cold (no cache), the run that fills it, warm, and the first run of a second process.

    python -m bench.store.decode_cache --scale 10

One process serves a store. A first client runs every query in turns without and with the cache. Then a second client runs
every query once, with the columns that the first one decoded. Results are compared with those without the cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.harness import answers, conditions, machine

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"


def main(argv: list[str] | None = None) -> int:
    """Run from the command line; the exit status is 1 if a result differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.decode_cache", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default: %(default)g)")
    parser.add_argument("--data", type=Path, help="folder of the Parquet files (default: made under build/)")
    parser.add_argument("--repeat", type=int, default=3, help="timed turns (default: %(default)s)")
    parser.add_argument("--memory-limit", default="13GiB", help="limit of the store (default: %(default)s)")
    parser.add_argument("--work", choices=["first", "second"], help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.work:
        _work(given)
        return 0
    from craton.demo import data

    folder = (given.data or data.ensure(given.scale)).resolve()
    with tempfile.TemporaryDirectory() as runtime:
        address = os.path.join(runtime, "runtime", "store.sock")
        serve = [sys.executable, "-m", "craton", "store", "serve", "--address", address]
        serve += ["--memory-limit", given.memory_limit, "--directory", runtime]
        with subprocess.Popen(serve, env=conditions.process_environment(), stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            server.stdout.readline()
            try:
                environment = conditions.process_environment(extra={"CRATON_STORE": address})
                common = [
                    sys.executable,
                    "-m",
                    "bench.store.decode_cache",
                    "--data",
                    str(folder),
                    "--repeat",
                    str(given.repeat),
                ]
                first = _child([*common, "--work", "first"], environment)
                second = _child([*common, "--work", "second"], environment)
            finally:
                server.terminate()
    report = _report(given.scale, first, second)
    name = f"decode-cache-sf{given.scale:g}"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    text = _table(report)
    (RESULTS / f"{name}.txt").write_text(text, encoding="utf-8")
    _plot(report, RESULTS / f"{name}.png")
    print(text, end="")
    return 0 if report["equal"] == len(report["queries"]) else 1


def _child(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def _work(given: argparse.Namespace) -> None:
    import craton
    import craton.pandas as pd
    from bench.pandas_likes import Craton
    from craton.demo.queries import QUERIES
    from craton.store import default_store

    folder, engine = str(given.data), Craton()

    def run(query: str, cache: str) -> tuple[float, Any]:
        engine.forget()
        with craton.option_context(decode_cache=cache):
            started = time.perf_counter()
            found = QUERIES[query](pd, folder)
            values = found._mgr if hasattr(found, "_mgr") else found
            del values
            return time.perf_counter() - started, found

    store = default_store()
    result: dict[str, Any] = {}
    for query in QUERIES:
        result[query] = {"filling" if given.work == "first" else "first": run(query, "on")[0]}
    before = int(store.counters()["copied"])
    for query in QUERIES:
        if given.work == "first":
            turns = [(run(query, "off"), run(query, "on")) for _ in range(given.repeat)]
            result[query]["cold"] = [off[0] for off, _ in turns]
            result[query]["warm"] = [on[0] for _, on in turns]
            result[query]["difference"] = answers.difference(_answer(turns[0][0][1]), _answer(turns[0][1][1]))
    result["copied afterwards"] = int(store.counters()["copied"]) - before
    result["bytes"] = int(store.counters()["page_memory"])
    print(json.dumps(result))


def _answer(found: Any) -> Any:
    import pandas

    frame = pandas.DataFrame(found) if hasattr(found, "columns") else pandas.DataFrame({"value": [found]})
    columns = [frame.iloc[:, at].tolist() for at in range(frame.shape[1])]
    return answers.table(frame.columns, zip(*columns, strict=True))


def _report(scale: float, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    queries = {}
    for name, found in first.items():
        if name.startswith("q"):
            queries[name] = {
                "cold": statistics.median(found["cold"]),
                "filling": found["filling"],
                "warm": statistics.median(found["warm"]),
                "second process": second[name]["first"],
                "difference": found["difference"],
            }
    totals = {
        kind: sum(one[kind] for one in queries.values()) for kind in ("cold", "filling", "warm", "second process")
    }
    ratios = [one["warm"] / one["cold"] for one in queries.values()]
    return {
        "conditions": conditions.describe(warm_up=1),
        "title": f"TPC-H, scale factor {scale:g}, through the decode cache",
        "machine": machine.describe(),
        "queries": queries,
        "totals": totals,
        "warm / cold, geometric mean": math.exp(statistics.fmean(map(math.log, ratios))),
        "warm / cold, total": totals["warm"] / totals["cold"],
        "second process / warm, total": totals["second process"] / totals["warm"],
        "bytes in the store": first["bytes"],
        "bytes that the second process put into the store": second["copied afterwards"],
        "equal": sum(one["difference"] is None for one in queries.values()),
    }


def _table(report: dict[str, Any]) -> str:
    kinds = ("cold", "filling", "warm", "second process")
    lines = [report["title"], "Seconds, medians; filling and second process: one run each.", ""]
    lines.append(f"{'':<8}" + "".join(f"{kind:>16}" for kind in kinds) + f"{'warm / cold':>14}")
    for name, one in [*report["queries"].items(), ("total", report["totals"])]:
        values = "".join(f"{one[kind]:>16.2f}" for kind in kinds)
        lines.append(f"{name:<8}{values}{one['warm'] / one['cold']:>14.2f}")
    lines.append("")
    for name in ("warm / cold, geometric mean", "warm / cold, total", "second process / warm, total"):
        lines.append(f"{name}: {report[name]:.2f}")
    lines.append(f"results equal to those without the cache: {report['equal']} of {len(report['queries'])}")
    lines.append(f"in the store: {report['bytes in the store'] / 1e9:.1f} GB")
    return "\n".join(lines) + "\n"


def _plot(report: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(report["queries"])
    figure, axes = plt.subplots(figsize=(11, 3.6), layout="constrained")
    for offset, kind in enumerate(("cold", "warm", "second process")):
        at = [position + 0.28 * (offset - 1) for position in range(len(names))]
        axes.bar(at, [report["queries"][name][kind] for name in names], width=0.27, label=kind)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("seconds")
    axes.set_title(report["title"])
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
