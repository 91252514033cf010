"""Turns of `bench.spmd` about communication: its share of operators by communicator, and operators on ranks of other hosts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["communication", "hosts"]

#: Methods of communicators that are timed: what programs and frames call.
_METHODS = (
    "barrier",
    "broadcast",
    "gather",
    "allgather",
    "scatter",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "alltoall",
    "shuffle",
    "send",
    "receive",
)


class _Clock:
    """Adds up the seconds that a rank spends in calls of its communicator, which include waiting for other ranks."""

    def __init__(self, comm: Any) -> None:
        self.seconds, self._depth = 0.0, 0
        for name in _METHODS:
            setattr(comm, name, self._timed(getattr(comm, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **options: Any) -> Any:
            self._depth += 1
            began = time.perf_counter()
            try:
                return call(*given, **options)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - began

        return timed


def _join(rows: int, turns: int, env: Any) -> list[tuple[float, float, int]]:
    """Join tables a few times; return for each time the seconds, those of communication, and the rows of all ranks."""
    from bench.spmd.turns import tables
    from craton.spmd import frames

    left, right = tables(rows, 7, env.rank, env.world_size)
    clock = _Clock(env.comm)
    found = []
    for _ in range(turns):
        env.barrier()
        clock.seconds = 0.0
        began = time.perf_counter()
        joined = frames.merge(left, right, on="k", env=env)
        env.barrier()
        seconds, communication = time.perf_counter() - began, clock.seconds
        found.append((seconds, communication, int(env.comm.allreduce(len(joined)))))
    return found


def communication(options: dict[str, Any]) -> dict[str, Any]:
    """Time a join on ranks with a communicator, and the communication in it, as a mean of the ranks."""
    from craton.spmd import Executor

    with Executor(options["ranks"], communicator=options["communicator"]) as ex:
        found = ex.run(_join, options["rows"], 4).results()
    timed = [list(zip(*[rank[turn] for rank in found], strict=True)) for turn in range(1, 4)]
    timed.sort(key=lambda turn: max(turn[0]))
    seconds, inside, rows = timed[len(timed) // 2]
    shares = {"join": max(seconds), "communication": sum(inside) / len(inside)}
    return {"seconds": shares, "details": {"rows": rows[0]}}


def hosts(options: dict[str, Any]) -> dict[str, Any]:
    """Time operators on ranks in processes of this program, of Ray's or of Dask's workers."""
    import contextlib

    import craton
    from bench.spmd.turns import on_ranks
    from craton.spmd import Executor

    host, ranks = options["host"], options["ranks"]
    session: Any = contextlib.nullcontext() if host == "own" else craton.init(host, workers=ranks, threads=1)
    with session, Executor(ranks) as ex:
        every = [ex.run(on_ranks, options["rows"]).results() for _ in range(options["turns"] + 1)][1:]
    seconds = {}
    for phase in every[0][0][0]:
        turns = sorted(max(each[0][phase] for each in found) for found in every)
        seconds[phase] = turns[len(turns) // 2]
    return {"seconds": {**seconds, "all": sum(seconds.values())}, "details": {"rows": every[0][0][1]}}
