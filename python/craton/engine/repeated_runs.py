"""Keeps rows that several runs compute for an object that the program still holds.

``d = f[f.v > 0]`` stands for a plan, and each number that the program takes from ``d`` would filter ``f`` again. The second run
that computes these rows keeps the columns that it needs in the result cache, and later runs read them there. This includes the
decoded columns of a file. If the rows come from a join, a group-by or a sort and have few other columns, it keeps these, too.
Rows that only one run needs are not kept, so that a program which asks for one number streams its data.

If the plan reads only data in memory, or small files that an earlier run has read, pandas would have the object in memory as well. Then
the first run keeps what a join, a group-by or a sort computes for it, and a run that needs other columns again computes all of them.

Kept rows are dropped when the operator that produces them is garbage-collected.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence

import polars as pl

from craton import forks, locks
from craton.config import options
from craton.engine.choice import chosen_engine, present_engine
from craton.engine.live_objects import LiveView, live_views
from craton.engine.result_cache import results
from craton.engine.run import execute
from craton.plan import build
from craton.plan.operators import (
    Aggregate,
    Attach,
    Distinct,
    Join,
    Operator,
    RowNumber,
    Scan,
    Slice,
    Sort,
    Window,
    schema,
)
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns
from craton.plan.rules.unnest import nested_plans
from craton.plan.size import estimated_rows, most_rows, value_bytes
from craton.plan.sources import FileSource, MemorySource
from craton.plan.visit import topological

#: Operators that compute all of their rows before the first.
_GATHERING = (Join, Aggregate, Distinct, Sort, Window)
#: Operators for which the order of their rows costs time.
_SHUFFLING = (Join, Aggregate, Distinct, Sort)

#: The second run keeps all columns of a join, group-by or sort if a row has at most this many times the bytes of those that it needs.
_WIDER = 8

#: How many runs have computed an operator for an object that the program still held, until the operator is garbage-collected.
_computed: weakref.WeakKeyDictionary[Operator, int] = weakref.WeakKeyDictionary()
#: Operators that are not kept: their rows take more memory than estimated, or their computation failed.
_not_kept: weakref.WeakSet[Operator] = weakref.WeakSet()
#: Digests of kept rows whose operators were garbage-collected. Finalizers append to it.
_unused: deque[bytes] = deque()
_lock = forks.lock()


def keep_repeated(plans: Sequence[Operator], ordered: bool, views: Sequence[LiveView] = ()) -> None:
    """Before plans run: keep the rows of live objects that they compute and an earlier run has computed already.

    Parameters
    ----------
    plans
        The plans that are about to run, whose own results are not cached.
    ordered
        Whether the order of their rows is observed.
    views
        The views of the objects that are evaluated, which hold their rows afterwards.
    """
    _drop_unused()
    if not options.result_memory or forks.kernel_lost() or present_engine() is not None:
        return
    bases = {view.base: view.base for view in live_views() if not any(view is one for one in views)}
    live = {base: base for base in bases.values() if not _is_cheap(base)}
    if not live:
        return
    counted: dict[Operator, int] = {}
    for plan in plans:
        for op, columns, observed in _repeated(plan, live, ordered, counted):
            _keep(op, columns, observed)


def may_keep(plan: Operator) -> bool:
    """Whether what a plan computes may be kept in memory: it runs in this process, on data in memory or on small files in use."""
    return not forks.kernel_lost() and present_engine() is None and _reads_data_in_use(plan)


def _reads_data_in_use(plan: Operator) -> bool:
    for op in topological(plan):
        if isinstance(op, Scan) and isinstance(op.source, FileSource):
            size = estimated_rows(op) * sum(value_bytes(dtype) for _, dtype in op.source.columns)
            if op not in _computed or size > _most_bytes():
                return False
        elif not all(map(_reads_data_in_use, nested_plans(op))):
            return False
    return True


def has_few_rows(plan: Operator, most: int) -> bool:
    """Whether it is known without a run that a plan has at most ``most`` rows."""
    limit = most_rows(plan)
    return limit is not None and limit <= most


def best_computed_once(plan: Operator, few: int) -> bool:
    """Whether all rows of a plan should be computed when some are needed: they are at most ``few``, or in memory anyway.

    The latter holds if the plan reads data in memory, so that pandas would have its result in memory too, and if the kernel
    computes all rows before the first.
    """
    if has_few_rows(plan, few):
        return True
    return may_keep(plan) and any(isinstance(op, _GATHERING) for op in topological(plan))


def _is_cheap(op: Operator) -> bool:
    """Whether the rows of an operator are in memory, except for parts of rows that take no time to compute."""
    while isinstance(op, (RowNumber, Slice)) or (isinstance(op, Attach) and isinstance(op.source, MemorySource)):
        op = op.input
    return isinstance(op, Scan) and not isinstance(op.source, FileSource)


def _repeated(
    plan: Operator, live: dict[Operator, Operator], ordered: bool, counted: dict[Operator, int]
) -> list[tuple[Operator, set[str], bool]]:
    """The topmost operators whose rows are kept, the columns, and whether in order; runs of the other operators are counted.

    Parameters
    ----------
    counted
        For each operator that this run computes: how many earlier runs did. Several plans of the run may compute it.
    """
    found: list[tuple[Operator, set[str], bool]] = []
    uses: tuple[dict[Operator, set[str]], dict[Operator, bool]] | None = None
    stack, reached = [plan], {plan}
    while stack:
        op = stack.pop()
        if op in live and op not in _not_kept:
            op = live[op]  # an equal operator, but the one that lives as long as the object
            uses = uses or (needed_columns(plan), observed_order(plan, ordered))
            needed, observed = uses[0].get(op, set()), uses[1].get(op, True)
            if results.covers(op, needed, observed):
                continue
            # Below cached rows, nothing is computed again.
            remaining = results.substitute(op)
            if not _is_cheap(remaining):
                if op not in counted:
                    counted[op] = _count(op)
                before, in_memory = counted[op], may_keep(op)
                gathers = any(isinstance(one, _GATHERING) for one in topological(remaining))
                if in_memory and gathers:
                    before += 1
                whole = (in_memory and before > 1) or (before and gathers and _is_most_of(op, needed))
                if whole and not isinstance(op, Scan):
                    found.append((op, set(schema(op)), True))
                    continue
                if before:
                    found.append((op, needed, observed))
                    continue
        if isinstance(op, Slice) and not any(isinstance(one, _GATHERING) for one in topological(op)):
            continue  # a few rows are computed without the others
        for below in (*op.inputs, *nested_plans(op)):
            if below not in reached:
                reached.add(below)
                stack.append(below)
    return found


def _is_most_of(op: Operator, needed: set[str]) -> bool:
    """Whether all columns of an operator take not much more memory than those that are needed."""
    return _row_bytes(op, set(schema(op))) <= _WIDER * _row_bytes(op, needed)


def _row_bytes(op: Operator, names: set[str]) -> int:
    return sum(value_bytes(dtype) for name, dtype in schema(op).items() if name in names)


def _count(op: Operator) -> int:
    """Count a run that computes an operator; returns the number of earlier ones."""
    with _lock:
        before = _computed.get(op, 0)
        _computed[op] = before + 1
        return before


def _keep(op: Operator, needed: set[str], observed: bool) -> None:
    if estimated_rows(op) * _row_bytes(op, needed) > _most_bytes():
        return
    # Without a join or group-by, the rows are in order at no cost, and serve plans that observe it.
    observed = observed or not any(isinstance(one, _SHUFFLING) for one in topological(op))
    with locks.plans.hold(op.digest):  # another thread may be keeping them
        if results.covers(op, needed, observed):
            return
        kept = results.kept_in_order(op)
        if kept is not None:
            needed, observed = needed - set(kept.columns), True
        columns = tuple((name, op.column(name)) for name in schema(op) if name in needed)
        rows = build.project(op, columns) if columns else None
        if rows is None or chosen_engine([rows]) is not None:
            return
        try:
            (frame,) = execute([rows], ordered=observed, remember=False)
        except Exception:
            # The run itself raises the error, unless it does not need these rows: those of a damaged file are not read to be counted.
            _not_kept.add(op)
            return
        _put(op, frame if kept is None else kept.hstack(frame), observed)


def _most_bytes() -> int:
    """The most bytes of rows that are kept: a small part of the memory limit, so that plans over them need no tiles."""
    return min(options.result_memory // 4, options.memory_limit // 16)


def _put(op: Operator, frame: pl.DataFrame, ordered: bool) -> None:
    if frame.estimated_size() > _most_bytes():
        _not_kept.add(op)
        return
    results.put(op, frame, ordered, over_memory=True, stored=False)
    # The finalizer may run while the result cache is locked, so it only queues the digest.
    weakref.finalize(op, _unused.append, op.digest).atexit = False


def _drop_unused() -> None:
    while _unused:
        digest = _unused.popleft()
        if not any(op.digest == digest for view in live_views() for op in topological(view.base)):
            results.drop(digest)
