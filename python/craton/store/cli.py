"""``craton store``: serve a store, and look into one.

::

    python -m craton store serve [--address PATH] [--memory-limit BYTES] [--directory FOLDER]
    python -m craton store ls [--address PATH]
    python -m craton store stat [NAME] [--prometheus]
    python -m craton store rm NAME …
    python -m craton store gc [--directory FOLDER]
    python -m craton store verify [NAME | FILE …]
    python -m craton store export NAME FILE
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from craton import _native
from craton.config import options, parse_bytes
from craton.store.process import default_address
from craton.store.store import Store


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return the process's exit status: 0, 1 when it failed, 2 when it was not understood."""
    parsed = _parser().parse_args(arguments)
    try:
        return _COMMANDS[parsed.command](parsed)
    except BrokenPipeError:
        return 0
    except (OSError, KeyError, ValueError, MemoryError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"craton store {parsed.command}: {text}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="craton store", description="Serve a store, and look into one.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        if name != "gc":
            made.add_argument("--address", default=os.environ.get("CRATON_STORE") or default_address(), metavar="PATH")
        return made

    serve = command("serve", "serve a store to all programs of this user until interrupted")
    serve.add_argument("--memory-limit", type=parse_bytes, default=options.memory_limit, metavar="BYTES")
    serve.add_argument("--directory", metavar="FOLDER", help="where pages go that do not fit into memory")
    serve.add_argument(
        "--quota", type=parse_bytes, default=None, metavar="BYTES", help="the most that one client may pin"
    )
    command("ls", "list the sets")
    stat = command("stat", "what one set, or the whole store, uses and has done")
    stat.add_argument("name", nargs="?", metavar="NAME")
    stat.add_argument("--prometheus", action="store_true", help="in Prometheus' text format")
    command("rm", "drop sets").add_argument("names", nargs="+", metavar="NAME")
    gc = command("gc", "remove what stores that died have left on disk")
    gc.add_argument("--directory", metavar="FOLDER")
    verify = command("verify", "check the pages of sets, or page files, against their checksums")
    verify.add_argument("names", nargs="*", metavar="NAME | FILE")
    export = command("export", "write a set as one Arrow IPC file")
    export.add_argument("name", metavar="NAME")
    export.add_argument("file", metavar="FILE")
    return parser


def _serve(parsed: argparse.Namespace) -> int:
    # A signal may reach any thread, and Python's handlers run in the main one when it wakes: so it waits for what wakes it in any case.
    stopped, stop = os.pipe()
    os.set_blocking(stop, False)
    signal.set_wakeup_fd(stop)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with Store.open(parsed.memory_limit, directory=parsed.directory) as store:
        print(store.serve(parsed.address, quota=parsed.quota), flush=True)
        os.read(stopped, 1)
    return 0


def _ls(parsed: argparse.Namespace) -> int:
    sets = Store.connect(parsed.address).describe()
    if sets.empty:
        print("no sets")
        return 0
    sets = sets.sort_values(["name", "set"], na_position="last", kind="stable")
    table = pd.DataFrame(
        {
            "set": sets.index,
            "name": sets["name"].fillna("-"),
            "pages": sets["pages"],
            "rows": [f"{rows:,}" for rows in sets["rows"]],
            "size": [readable(size) for size in sets["nbytes"]],
            "memory": [readable(size) for size in sets["memory"]],
            "disk": [readable(size) for size in sets["disk"]],
            "durability": sets["durability"],
            "operation": sets["operation"],
            "users": sets["users"],
        }
    )
    print(table.to_string(index=False))
    return 0


def _stat(parsed: argparse.Namespace) -> int:
    store = Store.connect(parsed.address)
    if parsed.prometheus:
        print(store.prometheus(), end="")
        return 0
    if parsed.name is None:
        found = {name: int(value) for name, value in store.counters().items()}
        sizes = {"slab_used", "slab_reserved", "page_memory", "page_disk", "reserved", "limit"}
        sizes |= {"written", "read", "copied", "shared"}
        rows = {name: readable(value) if name in sizes else f"{value:,}" for name, value in found.items()}
    else:
        row = store.get_set(parsed.name).attributes()
        sizes = {"nbytes", "memory", "disk"}
        rows = {name: readable(value) if name in sizes else str(value) for name, value in row.items()}
    width = max(map(len, rows))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows.items()))
    return 0


def _rm(parsed: argparse.Namespace) -> int:
    store = Store.connect(parsed.address)
    for name in parsed.names:
        store.get_set(name).drop()
    return 0


def _gc(parsed: argparse.Namespace) -> int:
    removed = _native.remove_dead_stores(parsed.directory)
    print("\n".join(map(str, removed)) if removed else "nothing to remove")
    return 0


def _verify(parsed: argparse.Namespace) -> int:
    files = [name for name in parsed.names if os.path.isfile(name)]
    names = [name for name in parsed.names if name not in files]
    bad = 0
    for path in files:
        problem = _native.verify_page_file(path)
        print(f"{path}: {(problem or 'sound').removeprefix(f'{path}: ')}")
        bad += problem is not None
    if names or not files:
        store = Store.connect(parsed.address)
        for name in names or [name for name in store.describe()["name"] if name is not None]:
            damaged = []
            pages = store.get_set(name)
            for info in pages.pages():
                try:
                    pages.pin(info).batch()
                except _native.CorruptPage as error:
                    damaged.append(str(error))
            sound = "1 page sound" if len(pages) == 1 else f"{len(pages)} pages sound"
            print(f"{name}: {'; '.join(damaged) or sound}")
            bad += bool(damaged)
    return 1 if bad else 0


def _export(parsed: argparse.Namespace) -> int:
    pages = Store.connect(parsed.address).get_set(parsed.name)
    batches = iter(pages)
    first = next(batches, None)
    if first is None:
        raise ValueError(f"set {parsed.name!r} has no pages")
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


def readable(size: float) -> str:
    """A number of bytes for people: ``1.5 GiB``.

    Examples
    --------
    >>> readable(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


_COMMANDS = {
    "serve": _serve,
    "ls": _ls,
    "stat": _stat,
    "rm": _rm,
    "gc": _gc,
    "verify": _verify,
    "export": _export,
}
