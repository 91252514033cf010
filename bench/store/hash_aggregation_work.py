"""The process of one turn of `bench.store.hash_aggregation`."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ROWS = 100_000
LIMIT = 4 << 30
MESSAGE = 10_000
"""Commands in a message to Redis."""


def batches_of(keys: int, repeats: int) -> list[pl.DataFrame]:
    """Return frames with the columns ``k``, text, and ``v``, a number."""
    random = np.random.default_rng(7)
    numbers = random.integers(0, 2**31, keys)
    if repeats > 1:
        numbers = random.permutation(np.tile(numbers, repeats))
    frame = pl.DataFrame({"k": pl.Series(numbers).cast(pl.String), "v": random.integers(0, 1000, len(numbers))})
    return list(frame.iter_slices(ROWS))


def _craton(batches: list[pl.DataFrame], limit: int) -> tuple[float, int, dict[str, Any]]:
    from craton.store import HashAggregate, Store

    with tempfile.TemporaryDirectory() as folder, Store.open(limit, directory=folder) as store:
        started = time.perf_counter()
        aggregate = HashAggregate(store, "k", {"n": ("v", "sum")})
        for batch in batches:
            aggregate.add(batch)
        added = time.perf_counter()
        used = int(store.counters()["slab_used"])
        counted = time.perf_counter()
        total, count = 0, 0
        taken = 0.0
        for batch in aggregate.finish():
            paused = time.perf_counter()
            total, count = total + int(pl.Series(batch["n"]).sum()), count + batch.num_rows
            taken += time.perf_counter() - paused
        seconds = time.perf_counter() - counted - taken + added - started
        details = {"spilled_pages": aggregate.spilled_pages, "bytes": used, "written": int(store.counters()["written"])}
    return seconds, total, {"groups": count, **details}


def _third(batches: list[pl.DataFrame]) -> tuple[float, int, dict[str, Any]]:
    """Aggregate in a store whose limit is a third of the bytes of all groups: a view of 16 bytes and a sum of 8."""
    groups = pl.concat([batch.select("k") for batch in batches], rechunk=False)["k"].n_unique()
    return _craton(batches, groups * 24 // 3)


def _map(batches: list[pl.DataFrame]) -> tuple[float, int, dict[str, Any]]:
    from craton.store import HashMap, Store

    with Store.open(LIMIT) as store:
        started = time.perf_counter()
        sums = HashMap(store, "sum")
        for batch in batches:
            sums.update(batch["k"], batch["v"])
        seconds = time.perf_counter() - started
        total = sum(int(pl.Series(batch["value"]).sum()) for batch in sums)
        return seconds, total, {"groups": len(sums)}


def _polars(batches: list[pl.DataFrame], engine: Any) -> tuple[float, int, dict[str, Any]]:
    started = time.perf_counter()
    grouped = pl.concat(batches, rechunk=False).lazy().group_by("k").agg(n=pl.col("v").sum()).collect(engine=engine)
    seconds = time.perf_counter() - started
    return seconds, int(grouped["n"].sum()), {"groups": grouped.height}


def _redis(batches: list[pl.DataFrame]) -> tuple[float, int, dict[str, Any]]:
    server = shutil.which("redis-server")
    assert server is not None
    # The messages are made beforehand, so that only Redis' own time counts.
    messages = []
    for batch in batches:
        for part in batch.iter_slices(MESSAGE):
            commands = [
                f"*3\r\n$6\r\nINCRBY\r\n${len(key)}\r\n{key}\r\n${len(str(value))}\r\n{value}\r\n"
                for key, value in part.iter_rows()
            ]
            messages.append(("".join(commands).encode(), part.height))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "socket")
        program = [server, "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", folder]
        with subprocess.Popen(program, stdout=subprocess.DEVNULL) as process:
            try:
                with _connected(path) as link:
                    started = time.perf_counter()
                    for message, commands_sent in messages:
                        link.sendall(message)
                        _replies(link, commands_sent)
                    seconds = time.perf_counter() - started
                    link.sendall(b"*1\r\n$6\r\nDBSIZE\r\n")
                    groups = int(link.recv(100)[1:])
            finally:
                process.terminate()
    return seconds, -1, {"groups": groups}


def _connected(path: str) -> socket.socket:
    deadline = time.monotonic() + 10
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
        except OSError:
            link.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return link


def _replies(link: socket.socket, count: int) -> None:
    while count > 0:
        count -= link.recv(1 << 20).count(b"\n")


def main(argument: str) -> None:
    """Run a turn, and print its seconds."""
    options = json.loads(argument)
    batches = batches_of(options["keys"], options["repeats"])
    run: Callable[[list[pl.DataFrame]], tuple[float, int, dict[str, Any]]] = {
        "craton": lambda given: _craton(given, LIMIT),
        "craton, 3x": _third,
        "craton map": _map,
        "polars": lambda given: _polars(given, "streaming"),
        "polars in memory": lambda given: _polars(given, "in-memory"),
        "redis": _redis,
    }[options["contestant"]]
    run(batches)
    seconds, total, details = run(batches)
    expected = sum(int(batch["v"].sum()) for batch in batches)
    assert total in (-1, expected), f"the sum of all groups is {total}, and that of all values {expected}"
    print(json.dumps({"seconds": {"insert": seconds}, "details": details}))


if __name__ == "__main__":
    main(sys.argv[1])
