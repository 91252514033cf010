"""The process of one turn of `bench.store.join_map`."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

LIMIT = 4 << 30


def tables(options: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that probe, and those of the map, whose keys are distinct; nine tenths of the former have a match."""
    random = np.random.default_rng(7)
    keys = random.permutation(options["build"])
    found = random.integers(0, options["build"] * 10 // 9, options["rows"])
    build = pl.DataFrame({"k": keys, "v": random.random(len(keys))})
    probe = pl.DataFrame({"k": found, "w": random.random(len(found))})
    if options["keys"] == "text":
        text = pl.format("key number {}", pl.col("k"))
        build, probe = build.with_columns(k=text), probe.with_columns(k=text)
    return probe.rechunk(), build.rechunk()


class _Joins:
    """What one process does; each method returns the number of pairs."""

    def __init__(self, options: dict[str, Any], number: int, address: str | None) -> None:
        from craton.store import Store

        self.probe, self.build = tables(options)
        rows = self.probe.height // options["processes"]
        self.probe = self.probe.slice(number * rows, rows).rechunk()
        self.store = Store.open(LIMIT) if address is None else Store.connect(address)

    def make(self, name: str) -> int:
        from craton.store import JoinMap

        return len(JoinMap.build(self.store, self.build, "k", name=name))

    def find(self, name: str) -> int:
        from craton.store import JoinMap

        return len(JoinMap.open(self.store, name).probe(self.probe)[0])

    def drop(self, name: str) -> int:
        from craton.store import JoinMap

        JoinMap.open(self.store, name).drop()
        return 0

    def own(self, _name: str) -> int:
        from craton.store import JoinMap

        with JoinMap.build(self.store, self.build, "k") as made:
            return len(made.probe(self.probe)[0])

    def rows(self, _name: str) -> int:
        from craton.store import JoinMap

        with JoinMap.build(self.store, self.build, "k") as made:
            return made.join(self.probe).num_rows

    def polars(self, _name: str) -> int:
        return self.probe.join(self.build, on="k", how="inner").height


def _alone(options: dict[str, Any]) -> tuple[float, int]:
    joins = _Joins(options, 0, None)
    run: Callable[[str], int] = {
        "craton": joins.own,
        "craton probe": joins.find,
        "craton rows": joins.rows,
        "polars": joins.polars,
    }[options["contestant"]]
    if options["contestant"] == "craton probe":
        joins.make("map")
    run("map")
    started = time.perf_counter()
    count = run("map")
    return time.perf_counter() - started, count


def _worker(options: dict[str, Any], number: int, channel: Any) -> None:
    """Call methods of `_Joins` by name, as they are received."""
    joins = _Joins(options, number, channel.recv())
    channel.send(joins.store.address or joins.store.serve())
    while (call := channel.recv()) is not None:
        method, name = call
        channel.send(getattr(joins, method)(name))


def _together(options: dict[str, Any]) -> tuple[float, int]:
    context = multiprocessing.get_context("spawn")
    channels, processes, address = [], [], None
    for number in range(options["processes"]):
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(options, number, theirs))
        process.start()
        ours.send(address)
        channels.append(ours)
        processes.append(process)
        found = ours.recv()
        address = found if options["contestant"] == "craton" else None

    def call(method: str, name: str, some: list[Any]) -> int:
        for channel in some:
            channel.send((method, name))
        return sum(channel.recv() for channel in some)

    def join(name: str) -> int:
        if options["contestant"] == "craton":
            call("make", name, channels[:1])
            return call("find", name, channels)
        return call("polars" if options["contestant"] == "polars" else "own", name, channels)

    join("first")
    if options["contestant"] == "craton":
        call("drop", "first", channels[:1])
    started = time.perf_counter()
    count = join("second")
    seconds = time.perf_counter() - started
    for channel in reversed(channels):
        channel.send(None)
    for process in reversed(processes):
        process.join()
    return seconds, count


def main(argument: str) -> None:
    """Run a turn, and print its seconds."""
    options = json.loads(argument)
    seconds, count = (_alone if options["processes"] == 1 else _together)(options)
    probe, _ = tables({**options, "keys": "int"})
    assert count == probe.filter(pl.col("k") < options["build"]).height, count
    print(json.dumps({"seconds": {"join": seconds}, "details": {"pairs": count}}))


if __name__ == "__main__":
    main(sys.argv[1])
