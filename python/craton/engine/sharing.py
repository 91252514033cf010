"""Small answers over expensive rows: what a scalar is computed from is kept for the query that comes next.

``total = joined["value"].sum()`` has to run at once, and a program asks for such a number because it goes on with
``joined``. So the run that answers also hands over the rows of the join or aggregation below, at most some megabytes of
them, with the columns that other live objects read from it; the kernel computes what both need once. The later query finds
them in the memory of results.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from craton.engine.evaluations import keep_values
from craton.engine.living import live_views
from craton.engine.results import results
from craton.engine.run import execute, sink
from craton.plan import build
from craton.plan.operators import Aggregate, Distinct, Join, Operator, Project, RowNumber, schema
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns, prune_columns
from craton.plan.size import estimated_rows
from craton.plan.visit import topological

#: The most bytes of rows that a run hands over beside its answer.
SHARED_BYTES = 64 << 20
#: A frame directly over the rows is taken to want all of its columns again only if it has no more than these.
FEW_COLUMNS = 8
_STRING_BYTES = 40
_HEAVY = (Join, Aggregate, Distinct)


def sunk(plan: Operator, attach: Callable[[pl.LazyFrame], pl.LazyFrame]) -> None:
    """Run a plan into a sink, as :func:`craton.engine.run.sink` does: what is computed later agrees with what was written."""
    keep_values([plan])
    sink(plan, attach)


def asked(plans: list[Operator], *, ordered: bool = False) -> list[pl.DataFrame]:
    """Run plans whose rows decide something or come back: what is computed later agrees with them."""
    keep_values(plans)
    return execute(plans, ordered=ordered)


def answer(plans: list[Operator], *, ordered: bool = False) -> list[pl.DataFrame]:
    """Run small plans over one base, the first of them over rows that are worth keeping.

    Parameters
    ----------
    plans
        As for :func:`~craton.pandas.core.execute.execute`.
    ordered
        Whether the order of their rows is seen.
    """
    keep_values(plans)
    core = _expensive(plans[0])
    if core is None or all(results.get(plan, ordered) is not None for plan in plans):
        return execute(plans, ordered=ordered)
    own: set[str] = set().union(*(needed_columns(plan).get(core, set()) for plan in plans))
    wanted = _wanted(core, own)
    if not wanted or results.covers(core, wanted):
        return execute(plans, ordered=ordered)
    if any(observed_order(plan, ordered).get(core, False) for plan in plans):
        return execute(plans, ordered=ordered)
    columns = tuple(name for name in schema(core) if name in wanted)
    rows = SHARED_BYTES // sum(_STRING_BYTES if schema(core)[name] == pl.String() else 8 for name in columns)
    if estimated_rows(core) > 50 * rows:
        return execute(plans, ordered=ordered)
    shared = build.project(core, tuple((name, core.column(name)) for name in columns))
    seen = observed_order(prune_columns(shared), observed=False)
    if any(seen[op] for op in seen if isinstance(op, _HEAVY)):
        # The rows would have to be put in order first: more work than the answer itself.
        return execute(plans, ordered=ordered)
    return execute(plans, ordered=ordered, beside=(core, shared, rows))


def _expensive(plan: Operator) -> Operator | None:
    """The topmost operator below aggregates without keys and projections, if what it reads was joined or aggregated."""
    core = plan
    while (isinstance(core, Aggregate) and not core.keys) or isinstance(core, (RowNumber, Project)):
        core = core.input  # type: ignore[attr-defined]
    return core if any(isinstance(op, _HEAVY) for op in topological(core)) else None


def _wanted(core: Operator, own: set[str]) -> set[str]:
    """The columns of an operator that the present query reads, and those that plans of live objects will."""
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
