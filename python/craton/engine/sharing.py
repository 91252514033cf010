"""Runs reductions to scalars, and caches the expensive rows below them for the queries that are likely to follow.

``total = joined["value"].sum()`` must run immediately, and the program most likely continues with ``joined``. So the same run
also returns the rows of the join or aggregation below the sum, up to some megabytes, with the columns that other live objects
read from it. The kernel computes the common part once, and the later query finds the rows in the result cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl

from craton.engine.evaluations import keep_values
from craton.engine.live_objects import live_views
from craton.engine.repeated_runs import keep_repeated, may_keep
from craton.engine.result_cache import results
from craton.engine.run import execute, sink
from craton.plan import build
from craton.plan.operators import Aggregate, Distinct, Join, Operator, Project, RowNumber, schema
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns, prune_columns
from craton.plan.size import estimated_rows
from craton.plan.visit import topological

#: The greatest size in bytes of the rows that a run caches besides its result.
SHARED_BYTES = 64 << 20
#: A frame directly over the rows is assumed to be read completely later only if it has at most this many columns.
FEW_COLUMNS = 8
_STRING_BYTES = 40
_HEAVY = (Join, Aggregate, Distinct)


def run_into_sink(plan: Operator, attach: Callable[[pl.LazyFrame], pl.LazyFrame]) -> None:
    """Run a plan into a sink as :func:`craton.engine.run.sink` does; later results agree with the rows that were written."""
    keep_values([plan])
    sink(plan, attach)


def collect_rows(plans: list[Operator], *, ordered: bool = False) -> list[pl.DataFrame]:
    """Run plans whose rows the front end or the program uses; later results agree with them."""
    keep_values(plans)
    return execute(plans, ordered=ordered, before=partial(keep_repeated, ordered=ordered))


def collect_scalars(plans: list[Operator], *, ordered: bool = False) -> list[pl.DataFrame]:
    """Run small plans over one base, and cache the rows below the first of them if they are expensive.

    Parameters
    ----------
    plans
        As for :func:`~craton.pandas.core.execute.execute`.
    ordered
        Whether the order of their rows is observed.
    """
    keep_values(plans)
    run = partial(execute, plans, ordered=ordered, before=partial(keep_repeated, ordered=ordered))
    core = _expensive(plans[0])
    if core is None or all(results.get(plan, ordered) is not None for plan in plans):
        return run()
    if may_keep(core) and any(view.base == core for view in live_views()):
        return run()  # which keeps the rows itself
    own: set[str] = set().union(*(needed_columns(plan).get(core, set()) for plan in plans))
    wanted = _wanted(core, own)
    if not wanted or results.covers(core, wanted):
        return run()
    if any(observed_order(plan, ordered).get(core, False) for plan in plans):
        return run()
    columns = tuple(name for name in schema(core) if name in wanted)
    rows = SHARED_BYTES // sum(_STRING_BYTES if schema(core)[name] == pl.String() else 8 for name in columns)
    if estimated_rows(core) > 50 * rows:
        return run()
    shared = build.project(core, tuple((name, core.column(name)) for name in columns))
    seen = observed_order(prune_columns(shared), observed=False)
    if any(seen[op] for op in seen if isinstance(op, _HEAVY)):
        # Sorting the rows first would cost more than the reduction itself.
        return run()
    return run(beside=(core, shared, rows))


def _expensive(plan: Operator) -> Operator | None:
    """The topmost operator below projections and aggregates without keys, if it contains a join or an aggregation."""
    core = plan
    while (isinstance(core, Aggregate) and not core.keys) or isinstance(core, (RowNumber, Project)):
        core = core.input  # type: ignore[attr-defined]
    return core if any(isinstance(op, _HEAVY) for op in topological(core)) else None


def _wanted(core: Operator, own: set[str]) -> set[str]:
    """The columns of an operator that the present query reads, and those that the plans of live objects would read."""
    if isinstance(core, Aggregate):
        return set(schema(core))
    wanted = set(own)
    for view in live_views():
        base = view.base
        if core not in topological(base):
            continue
        if _expensive(base) == core:
            exprs = view.exprs
            sealed = build.project(base, tuple((f"c{i}", expr) for i, expr in enumerate(exprs))) if exprs else base
            needed = needed_columns(sealed)[core]
            if len(needed) > FEW_COLUMNS:
                continue
        else:
            needed = needed_columns(base)[core]
        wanted |= needed
    return wanted
