"""``craton store``: serve a store, inspect it, and verify or export its sets; the same for durable sets.

::

    python -m craton store serve [--address PATH] [--memory-limit BYTES] [--directory FOLDER]
    python -m craton store ls [--address PATH]
    python -m craton store stat [NAME] [--prometheus]
    python -m craton store rm NAME …
    python -m craton store gc [--directory FOLDER]
    python -m craton store verify [NAME | FILE …]
    python -m craton store export NAME FILE
    python -m craton store describe NAME [--version N]
    python -m craton store repair [NAME …] [--move OLD NEW] [--age HOURS]
    python -m craton store watch [NAME …] [--every SECONDS] [--timeout SECONDS] [--once] [--repair [--to FOLDER]…]
    python -m craton store restore [FOLDER …]
    python -m craton store vacuum [NAME …] [--keep N] [--days N] [--age HOURS]

``ls`` lists the sets of the store that is served, if there is one, and the durable sets below ``craton.options.data``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from craton import _native
from craton.command import exit_status, format_bytes
from craton.config import options, parse_bytes
from craton.store import durable_cli
from craton.store.durable import every_set
from craton.store.process import default_address
from craton.store.sets import LocalitySet
from craton.store.store import Store


def main(arguments: Sequence[str]) -> int:
    """Run a command and return the process's exit status, as `exit_status` defines it; `argparse` exits with 2 on bad arguments."""
    parsed = _parser().parse_args(arguments)
    return exit_status(f"craton store {parsed.command}", lambda: _COMMANDS[parsed.command](parsed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="craton store", description="Serve a store, inspect it, and verify or export its sets."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        if name not in ("gc", "describe", "repair", "restore", "vacuum", "watch"):
            made.add_argument(
                "--address",
                default=os.environ.get("CRATON_STORE") or default_address(),
                metavar="PATH",
                help="path of the store's socket (default: %(default)s)",
            )
        return made

    serve = command("serve", "serve a store to all programs of this user until interrupted")
    serve.add_argument(
        "--memory-limit",
        type=_size,
        default=options.memory_limit,
        metavar="BYTES",
        help=f"memory for pages and reservations, for example 8GiB (default: {format_bytes(options.memory_limit)})",
    )
    serve.add_argument("--directory", metavar="FOLDER", help="folder that pages spill to when memory is full")
    serve.add_argument("--quota", type=_size, default=None, metavar="BYTES", help="most memory that one client may pin")
    command("ls", "list the sets")
    stat = command("stat", "print the attributes of one set, or the counters of the store")
    stat.add_argument("name", nargs="?", metavar="NAME")
    stat.add_argument("--prometheus", action="store_true", help="print in Prometheus' text format")
    command("rm", "drop sets").add_argument("names", nargs="+", metavar="NAME")
    gc = command("gc", "remove the folders that stores of dead processes left on disk")
    gc.add_argument("--directory", metavar="FOLDER", help="folder to search (default: the folder for temporary files)")
    verify = command("verify", "check the pages of sets, or page files, against their checksums")
    verify.add_argument("names", nargs="*", metavar="NAME | FILE")
    export = command("export", "write a set as one Arrow IPC file")
    export.add_argument("name", metavar="NAME")
    export.add_argument("file", metavar="FILE")
    durable_cli.add_commands(command)
    return parser


def _serve(parsed: argparse.Namespace) -> int:
    # The kernel may deliver a signal to any thread, but Python runs handlers in the main thread only, once it wakes. The main thread
    # therefore blocks on a pipe that the interpreter writes to on every signal.
    wakeup, written_on_signal = os.pipe()
    os.set_blocking(written_on_signal, False)
    signal.set_wakeup_fd(written_on_signal)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with Store.open(parsed.memory_limit, directory=parsed.directory) as store:
        print(store.serve(parsed.address, quota=parsed.quota), flush=True)
        os.read(wakeup, 1)
    return 0


def _ls(parsed: argparse.Namespace) -> int:
    durable = durable_cli.list_sets()
    try:
        sets = Store.connect(parsed.address)._native.describe()
    except ConnectionError:
        if not durable:
            raise
        sets = []
    if not sets:
        print("\n".join(durable) if durable else "no sets")
        return 0
    sets.sort(key=lambda row: (row["name"] is None, row["name"] or "", row["set"]))
    # The name may be long: it comes last, so that a narrow terminal wraps nothing else.
    numbers = ("set", "pages", "rows", "size", "memory", "disk", "users")
    rows = [
        (
            str(row["set"]),
            f"{row['pages']:,}",
            f"{row['rows']:,}",
            *(format_bytes(row[size]) if row[size] else "-" for size in ("nbytes", "memory", "disk")),
            f"{row['users']:,}",
            row["durability"],
            "-" if row["name"] is None else row["name"],
        )
        for row in sets
    ]
    heads = (*numbers, "durability", "name")
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads) - 1)]
    for row in (heads, *rows):
        cells = [
            f"{cell:>{width}}" if i < len(numbers) else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        print("  ".join([*cells, row[-1]]))
    if durable:
        print("\n" + "\n".join(durable))
    return 0


#: The counters of a store, and the attributes of a set, that are in bytes.
_STORE_SIZES = {"slab_used", "slab_reserved", "page_memory", "page_disk", "reserved", "limit", "written", "read"}
_STORE_SIZES |= {"copied", "shared", "adopted"}
_SET_SIZES = {"nbytes", "memory", "disk"}


def _format_value(value: Any, size: bool) -> str:
    """Format a counter or an attribute; integers as an amount of memory if `size`."""
    if value is None or value == b"":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        return text if text.isprintable() and "\ufffd" not in text else value.hex()
    if isinstance(value, int):
        return format_bytes(value) if size else f"{value:,}"
    return str(value)


def _stat(parsed: argparse.Namespace) -> int:
    store = Store.connect(parsed.address)
    if parsed.prometheus:
        print(store.prometheus(), end="")
        return 0
    if parsed.name is None:
        rows = {name: _format_value(int(value), name in _STORE_SIZES) for name, value in store.counters().items()}
    else:
        row = store.get_set(parsed.name).attributes()
        rows = {name: _format_value(value, name in _SET_SIZES) for name, value in row.items()}
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))
    return 0


def _rm(parsed: argparse.Namespace) -> int:
    store = Store.connect(parsed.address)
    missing = 0
    for name in parsed.names:
        try:
            store.get_set(name).drop()
        except KeyError as error:
            missing += 1
            print(f"craton store rm: {error.args[0]}", file=sys.stderr)
    return 1 if missing else 0


def _gc(parsed: argparse.Namespace) -> int:
    removed = _native.remove_dead_stores(parsed.directory)
    print("\n".join(map(str, removed)) if removed else "nothing to remove")
    return 0


def _verify(parsed: argparse.Namespace) -> int:
    files = [name for name in parsed.names if os.path.isfile(name)]
    names = [name for name in parsed.names if name not in files]
    durable = {name: found for name in names if (found := durable_cli.known(name)) is not None}
    bad = sum(not durable_cli.verify(found) for found in durable.values())
    names = [name for name in names if name not in durable]
    for path in files:
        problem = _native.verify_page_file(path)
        print(f"{path}: {(problem or 'sound').removeprefix(f'{path}: ')}", flush=True)
        bad += problem is not None
    if names or not parsed.names:
        others = [] if parsed.names else list(every_set())
        bad += sum(not durable_cli.verify(found) for found in others)
        try:
            store = Store.connect(parsed.address)
        except ConnectionError:
            if not others:
                raise
            return 1 if bad else 0
        every = sorted(row["name"] for row in store._native.describe() if row["name"] is not None)
        for name in names or every:
            try:
                counts, damaged = _verify_pages(store.get_set(name))
            except KeyError:
                if names:
                    raise
                continue  # the set was dropped after the sets were listed
            print(f"{name}: {'; '.join([*damaged, counts])}", flush=True)
            bad += bool(damaged)
    return 1 if bad else 0


def _verify_pages(pages: LocalitySet) -> tuple[str, list[str]]:
    """Read every page of a set; return a summary of the counts, and the error of each damaged page."""
    sound = gone = 0
    damaged = []
    for info in pages.pages():
        try:
            pages.pin(info).batch()
        except (_native.CorruptPage, ValueError) as error:
            damaged.append(str(error))
        except KeyError:  # evicted since the listing: pages with durability "discard" are dropped without being written
            gone += 1
        else:
            sound += 1
    found = "1 page sound" if sound == 1 else f"{sound:,} pages sound"
    return found + (f", {gone:,} dropped meanwhile" if gone else ""), damaged


def _export(parsed: argparse.Namespace) -> int:
    pages = Store.connect(parsed.address).get_set(parsed.name)
    batches = iter(pages)
    first = next(batches, None)
    if first is None:
        raise ValueError(f"set {parsed.name!r} has no pages")
    if parsed.name.startswith("object:") and first.schema.names == ["object"]:
        raise ValueError(
            f"set {parsed.name!r} holds a Python object, not a table, and cannot be exported; read it with craton.cache"
        )
    partial = f"{parsed.file}.partial"
    try:
        with pa.OSFile(partial, "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        os.replace(partial, parsed.file)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
    return 0


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_COMMANDS = {
    "serve": _serve,
    "ls": _ls,
    "stat": _stat,
    "rm": _rm,
    "gc": _gc,
    "verify": _verify,
    "export": _export,
    "describe": durable_cli.describe,
    "repair": durable_cli.repair,
    "watch": durable_cli.watch,
    "restore": durable_cli.restored,
    "vacuum": durable_cli.vacuum,
}
