"""``craton actor``: show the state of a group of pools.

::

    python -m craton actor ls ADDRESS [--json | --prometheus]
    python -m craton actor top ADDRESS [--interval SECONDS] [--count TIMES] [--json]

The key comes from ``CRATON_ACTOR_KEY``, from the file that ``CRATON_ACTOR_KEY_FILE`` names, or from this user's default
file; the files for TLS from ``CRATON_ACTOR_TLS_CERT``, ``_KEY`` and ``_CA``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from craton.actor.group_metrics import GroupMetrics, metrics, quantile
from craton.command import exit_status, format_bytes, table_lines

_WIDE = 22


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return the process's exit status: see `exit_status`; 2 for wrong arguments."""
    parsed = _parser().parse_args(arguments)
    return exit_status(f"craton actor {parsed.command}", lambda: asyncio.run(_COMMANDS[parsed.command](parsed)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="craton actor", description="Show the state of a group of actor pools.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("address", metavar="ADDRESS", help="host:port of any pool of the group")
        return made

    ls = command("ls", "list the pools of a group")
    how = ls.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="as one JSON list")
    how.add_argument("--prometheus", action="store_true", help="in Prometheus' text format")
    top = command("top", "show the pools' activity, refreshed until Ctrl-C")
    top.add_argument(
        "--interval",
        type=_seconds,
        default=2.0,
        metavar="SECONDS",
        help="seconds between refreshes (default: %(default)g)",
    )
    top.add_argument(
        "--count", type=_times, default=0, metavar="TIMES", help="stop after this many refreshes (default: never)"
    )
    top.add_argument("--json", action="store_true", help="as one JSON list on each line")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text}: expected a number of seconds above 0 and below 1,000,000")
    return value


def _times(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 or a positive number of refreshes")
    return value


async def _ls(parsed: argparse.Namespace) -> int:
    found = await metrics(parsed.address)
    if parsed.json:
        print(json.dumps(found.pools))
    elif parsed.prometheus:
        print(found.prometheus(), end="")
    else:
        print(table(found))
    return 0


async def _top(parsed: argparse.Namespace) -> int:
    before: dict[str, dict[str, Any]] = {}
    requested = 0.0
    shown = 0
    while True:
        found = await metrics(parsed.address)
        now = time.monotonic()
        if parsed.json:
            text = json.dumps(found.pools)
        else:
            text = time.strftime("%H:%M:%S ") + parsed.address + "\n\n" + table(found, before, now - requested)
            if sys.stdout.isatty():
                text = "\x1b[H\x1b[2J" + text
        print(text, flush=True)
        shown += 1
        if shown == parsed.count:
            return 0
        before, requested = {pool["address"]: pool for pool in found.pools}, now
        await asyncio.sleep(parsed.interval)


def table(found: GroupMetrics, before: dict[str, dict[str, Any]] | None = None, seconds: float = 0.0) -> str:
    """Return a text table of the pools, at most 80 columns wide.

    Parameters
    ----------
    found : GroupMetrics
        The current metrics.
    before : dict, optional
        The metrics of each pool, by address, from ``seconds`` earlier. If given, calls are shown per second, and p99 is
        that of the calls since then.
    seconds : float
        Time between the two.
    """
    rates = before is not None
    head = ["address", "pid", "label", "actors", "calls/s" if rates else "calls", "p99", "queue", "memory"]
    rows = [head]
    for pool in found.pools:
        row = [_short(pool["address"], _WIDE)]
        if "error" in pool:
            rows.append([*row, "-", _short(pool["label"] or "-", 9), "gone", "-", "-", "-", "-"])
            continue
        past = (before or {}).get(pool["address"], {})
        if past.get("pid") != pool["pid"]:
            past = {}
        calls, buckets = pool["calls"], pool["buckets"]
        if past:
            buckets = [new - old for new, old in zip(buckets, past["buckets"], strict=True)]
        if rates:
            shown = _number(max(0, calls - past["calls"]) / seconds) if past and seconds else "-"
        else:
            shown = _number(calls)
        rows.append(
            [
                *row, str(pool["pid"]), _short(pool["label"] or "-", 9), _number(pool["actors"]), shown,
                _duration(quantile(buckets, 0.99)), _number(pool["queue"]), format_bytes(pool["memory"]),
            ]
        )  # fmt: skip
    return "\n".join(table_lines(rows, left=(0, 2)))


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[1 - width :]


def _number(value: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}" if value < 1e5 else f"{value / 1e3:.0f}k"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"≤{seconds / size:.3g}{unit}"
    return f"≤{seconds:.3g}s" if seconds < 1000 else f"≤{seconds:.0f}s"


_COMMANDS = {"ls": _ls, "top": _top}
