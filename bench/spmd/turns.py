"""The process of one turn of `bench.spmd`. It times its own phases.

It is started as ``python -m bench.spmd.turns OPTIONS`` (JSON), and prints a line of JSON with the ``seconds`` of each phase and
``details``, in the format of `bench.store.turns`.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.spmd.shares import communication, hosts

__all__ = ["main", "on_ranks", "tables"]

Found = dict[str, Any]
_CALLS = 200
AGGREGATES = ["sum", "mean", "max"]


def _nothing() -> None:
    """Do nothing."""


def _start(options: Found) -> Found:
    """Time the first executor, the next one, barriers and empty calls; the import of Craton is not included."""
    from craton.spmd import Executor

    began = time.perf_counter()
    with Executor(options["ranks"]) as ex:
        ex.run(_barriers, 1).results()
        first = time.perf_counter() - began
    began = time.perf_counter()
    with Executor(options["ranks"]) as ex:
        ex.run(_barriers, 1).results()
        second = time.perf_counter() - began
        barrier = max(ex.run(_barriers, 1000).results()) / 1000
        calls = []
        for _ in range(_CALLS):
            began = time.perf_counter()
            ex.run(_nothing).results()
            calls.append(time.perf_counter() - began)
    seconds = {
        "first executor to its first barrier": first,
        "next executor to its first barrier": second,
        "a barrier": barrier,
        "an empty call": statistics.median(calls),
    }
    return {"seconds": seconds}


def _barriers(count: int, env: Any) -> float:
    env.barrier()
    began = time.perf_counter()
    for _ in range(count):
        env.barrier()
    return time.perf_counter() - began


# ---- operators ----


def tables(rows: int, seed: int, part: int, parts: int) -> tuple[Any, Any]:
    """Return a part of the two tables; the tables are the same for any number of parts."""
    import numpy as np
    import pandas as pd

    first, last = part * rows // parts, (part + 1) * rows // parts
    made = []
    for number in range(2):
        chance = np.random.default_rng(seed + number)
        keys = chance.integers(0, rows * 9 // 10, rows)[first:last]
        made.append(pd.DataFrame({"k": keys, f"v{number}": chance.integers(0, 1000, rows)[first:last]}))
    return made[0], made[1]


def on_ranks(rows: int, env: Any) -> tuple[dict[str, float], int]:
    """Run the operators on a rank; return the seconds of each, and the rows of the join on all ranks."""
    from craton.spmd import frames

    left, right = tables(rows, 7, env.rank, env.world_size)
    few = left.assign(k=left["k"] % 100)
    joined: Any = None

    def join() -> None:
        nonlocal joined
        joined = frames.merge(left, right, on="k", env=env)

    seconds = _timed(
        {
            "join": join,
            "group-by": lambda: frames.groupby(left, "k", env=env).agg({"v0": "sum"}),
            "100 groups": lambda: frames.groupby(few, "k", env=env).agg({"v0": AGGREGATES}),
            "sort": lambda: frames.sort_values(left, "k", env=env),
        },
        env.barrier,
    )
    return seconds, int(env.comm.allreduce(len(joined)))


def _in_one(rows: int, options: Found) -> Found:
    left, right = tables(rows, 7, 0, 1)
    few = left.assign(k=left["k"] % 100)
    joined: Any = None
    if options["engine"] == "session":
        import craton
        import craton.pandas as pd

        craton.init("local", workers=options["ranks"])
        left, right, few = (pd.DataFrame(one).persist() for one in (left, right, few))

    def whole(frame: Any) -> Any:
        len(frame)
        return frame._mgr and frame

    def join() -> None:
        nonlocal joined
        joined = whole(left.merge(right, on="k"))

    phases = {
        "join": join,
        "group-by": lambda: whole(left.groupby("k").agg({"v0": "sum"})),
        "100 groups": lambda: whole(few.groupby("k").agg({"v0": AGGREGATES})),
        "sort": lambda: whole(left.sort_values("k", kind="stable")),
    }
    return {"seconds": _timed(phases, lambda: None), "details": {"rows": len(joined)}}


def _timed(phases: dict[str, Callable[[], Any]], together: Callable[[], None]) -> dict[str, float]:
    seconds = {}
    for name, run in phases.items():
        together()
        began = time.perf_counter()
        run()
        together()
        seconds[name] = time.perf_counter() - began
    return seconds


def _operators(options: Found) -> Found:
    if options["engine"] != "ranks":
        return _in_one(options["rows"], options)
    from craton.spmd import Executor

    with Executor(options["ranks"]) as ex:
        found = ex.run(on_ranks, options["rows"]).results()
    seconds = {phase: max(each[0][phase] for each in found) for phase in found[0][0]}
    return {"seconds": seconds, "details": {"rows": found[0][1]}}


PARTS: dict[str, Callable[[Found], Found]] = {
    "start": _start,
    "operators": _operators,
    "communication": communication,
    "hosts": hosts,
}


def main() -> None:
    """Run the turn, and print what it has found."""
    options = json.loads(sys.argv[1])
    print(json.dumps({"details": {}, **PARTS[options["part"]](options)}))


if __name__ == "__main__":
    main()
