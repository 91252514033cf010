"""Runs a plan for what is to be known of it: which engine took it, its stages, rows and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from craton import forks
from craton.engine.choice import expected_engine, present_engine
from craton.engine.results import results
from craton.engine.run import as_a_whole, or_as_a_whole, raising, rows_of
from craton.plan.operators import Operator
from craton.plan.stages import optimize
from craton.records import dataclass

if TYPE_CHECKING:
    from craton.lower.tiled.planner import Tiling


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a plan.

    Parameters
    ----------
    plan
        What was run: after the rewrite rules.
    tiling
        What is known of its stages; None if it was run as a whole.
    where
        Where it ran, for people; and if it was run as a whole in a session with workers, why.
    seconds, rows
        How long it took, and how many rows it has.
    """

    plan: Operator
    tiling: Tiling | None
    where: str
    seconds: float
    rows: int


def analyze(plan: Operator, made_of: Iterable[bytes] = ()) -> Ran:
    """Run a plan for what is to be known of it; what ran last as tiles is not run again.

    Parameters
    ----------
    plan
        As the front end built it.
    made_of
        The digests of what its data was made of, if it is in memory now.
    """
    if forks.kernel_lost():
        raise RuntimeError(
            "plans can't be measured in a process that was forked from one that had run plans; "
            "start it with multiprocessing's 'spawn' or 'forkserver' method"
        )
    engine = present_engine()
    if engine is not None:
        known = next(filter(None, map(engine.ran, [plan.digest, *made_of])), None)
        if known is not None:
            return Ran(known.root, known, engine.where, known.seconds or 0.0, known.rows)
    started = time.perf_counter()
    optimized = [optimize(plan)]
    engine, refusal = expected_engine([plan])
    frames: list[pl.DataFrame] = []
    if engine is not None and refusal is None:
        refusal = "as tiles it did not fit into memory either"
        with or_as_a_whole(engine, optimized):
            frames = raising(partial(engine.collect, optimized, True, [rows_of(plan, plan)]), optimized)
    if engine is not None and frames:
        (tiling,) = engine.last
        ran = Ran(tiling.root, tiling, engine.where, time.perf_counter() - started, frames[0].height)
    else:
        frames = as_a_whole(optimized, True, [], [])
        where = "in this process" if refusal is None else f"in this process: {refusal}"
        ran = Ran(optimized[0], None, where, time.perf_counter() - started, frames[0].height)
    results.put(plan, frames[0])
    return ran
