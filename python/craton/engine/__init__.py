"""Chooses the engine that runs a plan, runs it, and caches results.

The front end runs plans with the functions below. They load the rest of this package when the first plan runs, so programs
that work only on small frames never load it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from craton.plan.operators import Operator

__all__ = [
    "best_computed_once",
    "collect_rows",
    "collect_scalars",
    "has_few_rows",
    "keep_rows",
    "may_keep",
    "reads_memory",
    "run_into_sink",
]


def collect_rows(plans: list[Operator], *, ordered: bool = False) -> list[pl.DataFrame]:
    """As :func:`craton.engine.sharing.collect_rows`."""
    from craton.engine import sharing

    return sharing.collect_rows(plans, ordered=ordered)


def collect_scalars(plans: list[Operator], *, ordered: bool = False) -> list[pl.DataFrame]:
    """As :func:`craton.engine.sharing.collect_scalars`."""
    from craton.engine import sharing

    return sharing.collect_scalars(plans, ordered=ordered)


def run_into_sink(plan: Operator, attach: Callable[[pl.LazyFrame], pl.LazyFrame]) -> None:
    """As :func:`craton.engine.sharing.run_into_sink`."""
    from craton.engine import sharing

    sharing.run_into_sink(plan, attach)


def best_computed_once(plan: Operator, few: int) -> bool:
    """As :func:`craton.engine.repeated_runs.best_computed_once`."""
    from craton.engine import repeated_runs

    return repeated_runs.best_computed_once(plan, few)


def has_few_rows(plan: Operator, most: int) -> bool:
    """As :func:`craton.engine.repeated_runs.has_few_rows`."""
    from craton.engine import repeated_runs

    return repeated_runs.has_few_rows(plan, most)


def keep_rows(plan: Operator, names: set[str]) -> None:
    """As :func:`craton.engine.repeated_runs.keep_rows`."""
    from craton.engine import repeated_runs

    repeated_runs.keep_rows(plan, names)


def may_keep(plan: Operator) -> bool:
    """As :func:`craton.engine.repeated_runs.may_keep`."""
    from craton.engine import repeated_runs

    return repeated_runs.may_keep(plan)


def reads_memory(plan: Operator) -> bool:
    """As :func:`craton.engine.result_cache.reads_memory`."""
    from craton.engine import result_cache

    return result_cache.reads_memory(plan)
