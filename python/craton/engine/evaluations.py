"""What one object stands for is computed once, where computing it again may not give the same bits.

The kernel adds the floating numbers of a group in whatever order its threads come to them, so that a sum that is computed
twice may differ in its last bit, and ``r[r.x == r.x.max()]`` may lose its row. Once a value of such groups has come back to
the program, all that is computed of them later has to agree with it. So their rows are kept then, for as long as an object
lives that was made of them: in the store, which evicts them to disk when memory is short. That is no matter of speed, and does
not depend on how much memory results may have.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import polars as pl

from craton import forks
from craton.config import options
from craton.engine.living import Live, live_views
from craton.engine.results import results
from craton.engine.run import execute
from craton.plan.expr import Column, dtype_of
from craton.plan.operators import Aggregate, AggregateCall, Operator, Project, RowNumber, schema
from craton.plan.rules.unnest import nested_plans
from craton.plan.size import estimated_rows, value_bytes
from craton.plan.visit import topological

#: Aggregates that add floating numbers up, and those that do so whatever they are of.
_SUMS, _MOMENTS = {"sum", "float_product"}, {"mean", "var", "std", "sem", "skew", "kurtosis"}

#: For each group-by that is kept, by its digest: what tells when the operator that it is kept for is gone.
_kept: dict[bytes, weakref.finalize[..., Operator]] = {}


def keep_values(plans: Sequence[Operator]) -> None:
    """Keep the groups that values of plans depend on, before they are computed and come back to the program."""
    if forks.kernel_lost():
        return
    _forget_unused()
    for plan in plans:
        for groups in _computed(plan):
            _keep(groups)


def rows_kept(
    plans: Sequence[Operator], others: Sequence[Operator] = (), views: Sequence[Live] = ()
) -> list[pl.DataFrame]:
    """Run plans whose rows come back as they are, and keep those of groups: what comes back is what is kept.

    Where a result has all columns of the groups it is kept itself; where it has some, the groups are computed before. So they
    are where rows come back that were made of groups, as long as an object lives that more can be made of.

    Parameters
    ----------
    plans
        The plans.
    others
        What is run with them; their results come last.
    views
        Of the objects whose rows these are: they hold them afterwards.
    """
    every = [*plans, *others]
    if forks.kernel_lost():
        return execute(every)
    _forget_unused()
    whole: dict[int, tuple[Operator, dict[str, str]]] = {}
    for i, plan in enumerate(plans):
        groups = plan
        while isinstance(groups, (Project, RowNumber)):
            groups = groups.input
        if _is_uncertain(groups):
            names = _named_anew(groups, plan)
            if names is None or results.persisted(groups):
                _keep(groups)
            else:
                whole[i] = groups, names
    tops = [top for i, plan in enumerate(every) for top in (whole[i][0].inputs if i in whole else (plan,))]
    keep_used(tops, views)
    frames = execute(every)
    for i, (groups, names) in whole.items():
        _keep(groups, frames[i].select(pl.col(names[name]).alias(name) for name in schema(groups)))
    return frames


def keep_used(plans: Sequence[Operator], views: Sequence[Live]) -> None:
    """Keep those groups below plans that an object was made of beside those, of these views, whose rows come back."""
    below = {groups for plan in plans for groups in _computed(plan)}
    wanted = {groups for groups in below if groups.digest not in _kept or not results.persisted(groups)}
    used: set[Operator] = set()
    for view in live_views() if wanted else ():
        if not any(view is one for one in views):
            used |= wanted.intersection(topological(view.base))
    for groups in used:
        _keep(groups)


def _named_anew(groups: Operator, plan: Operator) -> dict[str, str] | None:
    """What a plan that has all columns of groups calls each of them; None if it has not."""
    if plan == groups:
        return {name: name for name in schema(groups)}
    if not isinstance(plan, Project) or plan.input != groups:
        return None
    names = {expr.name: name for name, expr in plan.columns if isinstance(expr, Column)}
    return names if names.keys() >= schema(groups).keys() else None


def _uncertain(root: Operator) -> list[Operator]:
    """The topmost group-bys whose aggregates may differ in their last bits when they are computed again."""
    found: list[Operator] = []
    seen: set[Operator] = set()
    stack = [root]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if _is_uncertain(op):
            found.append(op)
        else:
            stack += (*op.inputs, *nested_plans(op))
    return found


def _computed(root: Operator) -> list[Operator]:
    """Those of :func:`_uncertain` that a run of the plan computes, or reads: what a result above them answers is not computed again."""
    uncertain = _uncertain(root)
    run = set(topological(results.substitute(root, ordered=False))) if uncertain else set()
    return [one for one in uncertain if one in run or results.covers(one, set(schema(one)), ordered=True)]


def _is_uncertain(op: Operator) -> bool:
    return isinstance(op, Aggregate) and bool(op.keys) and any(_adds_floats(call) for _, call in op.aggregates)


def _adds_floats(call: AggregateCall) -> bool:
    return call.function in _MOMENTS or (call.function in _SUMS and dtype_of(call.args[0]).is_float())


def _keep(groups: Operator, rows: pl.DataFrame | None = None) -> None:
    if groups.digest in _kept and results.persisted(groups):
        return
    if estimated_rows(groups) * sum(map(value_bytes, schema(groups).values())) > _most_bytes():
        return
    results.persist(groups, execute([groups])[0] if rows is None else rows)
    _watch(groups)


def _most_bytes() -> int:
    """The most bytes that groups are expected to have where they are kept: the rows are in memory once."""
    return options.memory_limit // 4


def _watch(groups: Operator) -> None:
    # The finalizer may run while the memory of results is locked: what is to be done is done later.
    watch = weakref.finalize(groups, results.unused.append, groups.digest)
    watch.atexit = False
    _kept[groups.digest] = watch


def _forget_unused() -> None:
    """Keep groups no longer whose operator is gone, unless an object lives that was made of an equal one."""
    if not results.unused:
        return
    gone = set()
    while results.unused:
        gone.add(results.unused.popleft())
    for view in live_views():
        for op in topological(view.base):
            if op.digest in gone:
                gone.remove(op.digest)
                _watch(op)
    for digest in gone:
        _kept.pop(digest, None)
        results.unpersist(digest)
