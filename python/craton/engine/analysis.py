"""Runs a plan to measure it: the engine that ran it, its stages, rows and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from craton import forks
from craton.engine.choice import expected_engine, present_engine
from craton.engine.result_cache import results
from craton.engine.run import run_on_single_node, same_rows_digests, single_node_fallback, with_pandas_errors
from craton.plan.operators import Operator
from craton.plan.stages import optimize
from craton.records import dataclass

if TYPE_CHECKING:
    from craton.lower.tiled.planner import Tiling


@dataclass(frozen=True, slots=True)
class PlanRun:
    """The measurements of a plan's run.

    Parameters
    ----------
    plan
        The plan that was run, after the rewrite rules.
    tiling
        The tiled run with its stages; None if the plan ran on a single node.
    where
        Where it ran, as text. If it ran on a single node although there are workers, the text says why.
    seconds, rows
        The run time in seconds, and the number of rows of the result.
    """

    plan: Operator
    tiling: Tiling | None
    where: str
    seconds: float
    rows: int


def analyze(plan: Operator, made_of: Iterable[bytes] = ()) -> PlanRun:
    """Measure a run of a plan; if it was among the last tiled runs, return the measurements of that run.

    Parameters
    ----------
    plan
        The plan, before the rewrite rules.
    made_of
        The digests of plans whose results are the plan's data in memory.
    """
    if forks.kernel_lost():
        raise RuntimeError(
            "plans cannot be measured in a process that was forked from one that had run plans; "
            "start it with multiprocessing's 'spawn' or 'forkserver' method"
        )
    engine = present_engine()
    if engine is not None:
        known = next(filter(None, map(engine.find_run, [plan.digest, *made_of])), None)
        if known is not None:
            return PlanRun(known.root, known, engine.where, known.seconds or 0.0, known.rows)
    started = time.perf_counter()
    optimized = [optimize(plan)]
    engine, refusal = expected_engine([plan])
    frames: list[pl.DataFrame] = []
    if engine is not None and refusal is None:
        refusal = "it did not fit into memory as tiles either"
        with single_node_fallback(engine, optimized):
            frames = with_pandas_errors(
                partial(engine.collect, optimized, True, [same_rows_digests(plan, plan)]), optimized
            )
    if engine is not None and frames:
        (tiling,) = engine.last
        ran = PlanRun(tiling.root, tiling, engine.where, time.perf_counter() - started, frames[0].height)
    else:
        frames = run_on_single_node(optimized, True, [], [])
        where = "in this process" if refusal is None else f"in this process: {refusal}"
        ran = PlanRun(optimized[0], None, where, time.perf_counter() - started, frames[0].height)
    results.put(plan, frames[0])
    return ran
