"""Keeps group-bys whose values the program has read, if computing them again might not give the same bits.

The kernel's threads add the floats of a group in any order, so that a sum that is computed twice can differ in its last bit,
and ``r[r.x == r.x.max()]`` could lose its row. Once a value of such groups has been returned to the program, everything that
is computed from them later must agree with it. So their rows are kept for as long as a lazy object is based on them. They are
kept in the process's memory, or, if it holds many results already, in the store, which evicts them to disk when memory is
short. This is needed for correct results, not for speed, and does not depend on the limit of the result cache.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial

import polars as pl

from craton import forks
from craton.config import options
from craton.engine.live_objects import LiveView, live_views
from craton.engine.repeated_runs import keep_repeated
from craton.engine.result_cache import results
from craton.engine.run import execute
from craton.engine.uncertain import is_uncertain, uncertain_groups
from craton.plan.expr import Column
from craton.plan.operators import Operator, Project, RowNumber, schema
from craton.plan.rules.prune import needed_columns
from craton.plan.rules.unnest import nested_plans
from craton.plan.size import estimated_rows, value_bytes
from craton.plan.visit import topological

#: For each group-by that is kept, by its digest: the finalizer of the operator that it is kept for.
_kept: dict[bytes, weakref.finalize[..., Operator]] = {}


def keep_values(plans: Sequence[Operator]) -> None:
    """Keep the groups that the plans' values depend on, before these are computed and returned to the program."""
    if forks.kernel_lost():
        return
    _forget_unused()
    for plan in plans:
        for groups in _computed(plan):
            _keep(groups)


def collect_and_keep(
    plans: Sequence[Operator], others: Sequence[Operator] = (), views: Sequence[LiveView] = ()
) -> list[pl.DataFrame]:
    """Run plans and return their rows; the rows of groups are kept, so that later results agree with what was returned.

    If a result has all columns of the groups, the result itself is kept. If it has only some, the groups are computed and
    kept first. The same is done for groups below a plan that another lazy object is based on.

    Parameters
    ----------
    plans
        The plans.
    others
        Further plans for the same run; their results are returned last.
    views
        The views of the objects that are evaluated, which hold the rows afterwards and so do not need the groups.
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
        if is_uncertain(groups):
            names = _named_anew(groups, plan)
            if names is None or results.persisted(groups):
                _keep(groups)
            else:
                whole[i] = groups, names
    tops = [top for i, plan in enumerate(every) for top in (whole[i][0].inputs if i in whole else (plan,))]
    keep_used(tops, views)
    frames = execute(every, before=partial(keep_repeated, ordered=True, views=views))
    for i, (groups, names) in whole.items():
        _keep(groups, frames[i].select(pl.col(names[name]).alias(name) for name in schema(groups)))
        results.confirm(plans[i])
    return frames


def keep_used(plans: Sequence[Operator], views: Sequence[LiveView]) -> None:
    """Keep the groups below plans on which a lazy object is based, other than the objects of ``views``."""
    below = {groups for plan in plans for groups in _computed(plan)}
    wanted = {groups for groups in below if groups.digest not in _kept or not results.persisted(groups)}
    used: set[Operator] = set()
    for view in live_views() if wanted else ():
        if not any(view is one for one in views):
            used |= wanted.intersection(topological(view.base))
    for groups in used:
        _keep(groups)


def _named_anew(groups: Operator, plan: Operator) -> dict[str, str] | None:
    """The name in a plan of each column of the groups; None if the plan lacks one."""
    if plan == groups:
        return {name: name for name in schema(groups)}
    if not isinstance(plan, Project) or plan.input != groups:
        return None
    names = {expr.name: name for name, expr in plan.columns if isinstance(expr, Column)}
    return names if names.keys() >= schema(groups).keys() else None


def _computed(root: Operator) -> list[Operator]:
    """The uncertain group-bys that a run of the plan computes or reads, not those below a cached result."""
    groups = uncertain_groups(root)
    if not groups:
        return []
    needed = {op: columns for plan in _nested(root) for op, columns in needed_columns(plan).items()}
    return uncertain_groups(root, lambda op: not results.covers(op, needed.get(op, set(schema(op)))))


def _nested(root: Operator) -> list[Operator]:
    """A plan, and the plans inside its expressions."""
    found = [root]
    for plan in found:
        found += (nested for op in topological(plan) for nested in nested_plans(op) if nested not in found)
    return found


def _keep(groups: Operator, rows: pl.DataFrame | None = None) -> None:
    if groups.digest in _kept and results.persisted(groups):
        return
    if estimated_rows(groups) * sum(map(value_bytes, schema(groups).values())) > _most_bytes():
        return
    if rows is None:
        (rows,) = execute([groups], before=partial(keep_repeated, ordered=True, kept=groups))
    results.persist(groups, rows, stored=False)
    _watch(groups)


def _most_bytes() -> int:
    """The greatest estimated bytes of groups that are kept, since their rows must fit into memory once."""
    return options.memory_limit // 4


def _watch(groups: Operator) -> None:
    # The finalizer may run while the result cache is locked, so it only queues the digest.
    watch = weakref.finalize(groups, results.unused.append, groups.digest)
    watch.atexit = False
    _kept[groups.digest] = watch


def _forget_unused() -> None:
    """Drop groups whose operator was garbage-collected, unless a lazy object is based on an equal one."""
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
