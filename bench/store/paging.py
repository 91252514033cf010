"""Paging: a working set of 1.5 times the memory, paged by the store's policies and by the operating system.

    python -m bench.store.paging                       all three parts
    python -m bench.store.paging --parts system --limit 1024

Part ``policies`` compares eviction policies (Pangea's data-aware paging, LRU, MRU, DBMIN) on a looping scan of transient
and of durable data, on a shuffle, and on two sets at once. Part ``system`` compares the store with anonymous memory that
the operating system swaps, with a mapped file and with a plain file. Part ``settings`` compares the store's disk settings.
All contestants have the same memory limit, page cache included. The store's own limit is lower by ``--room``, which leaves
memory for the interpreter, its libraries and the page cache of data that is being written.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import machine
from bench.store.machine import MIB, disk_speed, swap_file, why_not
from bench.store.turns import Turn, add_options, bar, finish, measure, new_report, ratio, say

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
WORK = "bench.store.paging_work"
POLICIES = ("data-aware", "lru", "mru", "dbmin-1", "dbmin-1000", "dbmin-adaptive")
LEVEL = 1.05
"""Up to this ratio of medians, two policies count as equally fast."""

Options = dict[str, Any]


def policies(given: argparse.Namespace, common: Options) -> dict[str, Any]:
    """Compare the store's eviction policies."""
    result = new_report(
        "paging",
        f"Paging: policies of the store, {_sizes(given)}",
        _settings(given),
        "data-aware",
    )
    scenarios: dict[str, Options] = {
        "transient": {"scenario": "looping", "kind": "store", "durable": False},
        "durable": {"scenario": "looping", "kind": "store", "durable": True},
        "shuffle": {"scenario": "shuffle", "workers": 4, "page_bytes": given.page * MIB // 2, "pages": 2 * given.pages},
        "two sets": {"scenario": "two sets", "scans": 4},
    }
    for name, options in scenarios.items():
        _in_turn(given, result, name, {**common, **options}, {policy: {"policy": policy} for policy in POLICIES})
    for name in ("transient", "durable"):
        case = f"{name} scan ×{given.scans}"
        bar(result, f"LRU to data-aware, {case}", ratio(result, case, "lru", "data-aware"), lambda r: r >= 1.3, "≥ 1.3")
    for case, results in result["cases"].items():
        others = {policy: found["median"] for policy, found in results.items() if "median" in found}
        ours = others.pop("data-aware", None)
        if ours is None or not others:
            bar(result, f"data-aware to the best other, {case}", None, bool, f"≤ {LEVEL}")
            continue
        best = min(others, key=others.__getitem__)
        bar(
            result,
            f"data-aware to the best other ({best}), {case}",
            ours / others[best],
            lambda r: r <= LEVEL,
            f"≤ {LEVEL}",
        )
    return result


def system(given: argparse.Namespace, common: Options) -> dict[str, Any]:
    """Compare the store with the operating system's paging."""
    result = new_report(
        "paging-system",
        f"Paging: the store and the operating system, {_sizes(given)}",
        _settings(given),
        "craton",
    )
    limit, swap = given.limit * MIB, 2 * given.pages * given.page * MIB
    with swap_file(given.folder, swap, given.swap_read_ahead):
        for name, durable in (("transient", False), ("durable", True)):
            options = {**common, "scenario": "looping", "durable": durable}
            turns = [
                Turn("craton", WORK, {**options, "kind": "store"}, limit),
                Turn("mapped file", WORK, {**options, "kind": "mapped", "advice": given.advice}, limit),
                Turn("plain file", WORK, {**options, "kind": "file"}, limit),
            ]
            if not durable:
                turns.insert(1, Turn("swap", WORK, {**options, "kind": "swap", "huge": given.huge}, limit, swap))
            measure(result, name, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)
    for name in ("transient", "durable"):
        case = f"{name} scan ×{given.scans}"
        for other in ("swap", "mapped file", "plain file"):
            if other in result["cases"].get(case, {}):
                value = ratio(result, case, other, "craton")
                bar(result, f"{other} to craton, {case}", value, lambda r: r >= 2, "≥ 2")
    return result


def settings(given: argparse.Namespace, common: Options) -> dict[str, Any]:
    """Compare the store's disk settings."""
    result = new_report(
        "paging-settings",
        f"Paging: ways of the store to use the disk, {_sizes(given)}",
        _settings(given),
        "buffered",
    )
    ways: dict[str, Options] = {
        "buffered": {"direct_io": False},
        "direct": {"direct_io": True},
        "buffered, lz4": {"direct_io": False, "compression": "lz4"},
        "direct, lz4": {"direct_io": True, "compression": "lz4"},
        "direct, 4 threads": {"direct_io": True, "io_threads": 4},
        "direct, 64 MiB": {"direct_io": True, **_paged(given, 64)},
        "direct, 4 MiB": {"direct_io": True, **_paged(given, 4)},
    }
    for name, durable in (("transient", False), ("durable", True)):
        _in_turn(given, result, name, {**common, "scenario": "looping", "kind": "store", "durable": durable}, ways)
    return result


def _in_turn(
    given: argparse.Namespace, result: dict[str, Any], scenario: str, options: Options, ways: dict[str, Options]
) -> None:
    """Measure one scenario with several configurations of the store, in turns."""
    turns = [Turn(way, WORK, {**options, **chosen}, given.limit * MIB) for way, chosen in ways.items()]
    measure(result, scenario, turns, repeat=given.repeat, warm_up=given.warm_up, timeout=given.timeout)


PARTS = {"policies": policies, "system": system, "settings": settings}
STEMS = {"policies": "paging", "system": "paging-system", "settings": "paging-settings"}


def _moved(result: dict[str, Any]) -> list[str]:
    """Return lines with the bytes that each store read from disk and wrote to it. These vary less than seconds."""
    lines = ["", "MiB that a store read + wrote, medians:"]
    for name, contestant in result["contestants"].items():
        for scenario, turns in contestant["details"].items():
            phases = turns[0]["counted"] if turns else {}
            said = []
            for phase in phases:
                medians = [
                    statistics.median(turn["counted"][phase].get(what, 0) for turn in turns) / MIB
                    for what in ("read", "written")
                ]
                if phases[phase]:
                    said.append(f"{phase} {medians[0]:.0f} + {medians[1]:.0f}")
            if said:
                lines.append(f"{scenario}: {name}: {', '.join(said)}")
    return lines if len(lines) > 2 else []


def _paged(given: argparse.Namespace, mebibytes: int) -> Options:
    return {"page_bytes": mebibytes * MIB, "pages": given.pages * given.page // mebibytes}


def _sizes(given: argparse.Namespace) -> str:
    return f"{given.pages * given.page} MiB of pages in {given.limit} MiB of memory"


def _settings(given: argparse.Namespace) -> Options:
    return {
        "repeat": given.repeat,
        "warm_up": given.warm_up,
        "timeout_seconds": given.timeout,
        "limit_bytes": given.limit * MIB,
        "store_limit_bytes": (given.limit - given.room) * MIB,
        "page_bytes": given.page * MIB,
        "pages": given.pages,
        "scans": given.scans,
        "direct_io": given.direct_io,
        "compression": given.compression,
        "huge_pages_of_swap": given.huge,
        "swap_read_ahead": given.swap_read_ahead,
        "advice_of_mapped_file": given.advice,
        "disk_bytes_a_second_before": disk_speed(given.folder),
    }


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.paging", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="policies,system,settings", help="comma-separated (default: %(default)s)")
    parser.add_argument(
        "--limit", type=int, default=512, help="memory limit of a process in MiB (default: %(default)s)"
    )
    parser.add_argument(
        "--room", type=int, default=128, help="MiB of the limit that the store leaves free (default: %(default)s)"
    )
    parser.add_argument("--page", type=int, default=16, help="size of a page in MiB (default: %(default)s)")
    parser.add_argument(
        "--working-set", type=float, default=1.5, help="as a multiple of the limit (default: %(default)s)"
    )
    parser.add_argument("--scans", type=int, default=5, help="scans in a loop (default: %(default)s)")
    parser.add_argument("--direct-io", action=argparse.BooleanOptionalAction, default=True, help="in the store")
    parser.add_argument("--compression", choices=("none", "lz4"), default="none", help="in the store")
    parser.add_argument("--huge", action=argparse.BooleanOptionalAction, default=True, help="huge pages for swap")
    parser.add_argument(
        "--swap-read-ahead", type=int, default=9, help="2**N pages; the kernel's default is 3 (default: %(default)s)"
    )
    parser.add_argument(
        "--advice", choices=("normal", "sequential"), default="normal", help="madvise for the mapped file"
    )
    parser.add_argument("--folder", type=Path, help="a folder on the measured disk (default: a new one below build/)")
    add_options(parser, repeat=5, timeout=120)
    given = parser.parse_args(argv)
    parts = given.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"{', '.join(unknown)} is not a part; choose from {', '.join(PARTS)}")
    if (reason := why_not()) is not None:
        say(f"nothing is measured: {reason}")
        return 1
    given.pages = int(given.limit * given.working_set) // given.page
    (ROOT / "build").mkdir(exist_ok=True)
    made = given.folder is None
    given.folder = given.folder or Path(tempfile.mkdtemp(prefix="bench-paging-", dir=ROOT / "build"))
    # SIGTERM raises SystemExit, so that the set-up is undone, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    missed = 0
    try:
        machine.warm_memory(4 * given.limit * MIB)
        common = {
            "store_limit": (given.limit - given.room) * MIB,
            "folder": str(given.folder),
            "page_bytes": given.page * MIB,
            "pages": given.pages,
            "scans": given.scans,
            "direct_io": given.direct_io,
            "compression": given.compression,
        }
        for part in parts:
            result = PARTS[part](given, common)
            result["settings"]["disk_bytes_a_second_after"] = disk_speed(given.folder)
            result["remarks"] = _moved(result)
            finish(given, result, STEMS[part])
            missed += sum(not line["met"] for line in result["bars"])
    finally:
        if made:
            shutil.rmtree(given.folder, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
