"""Keeps rows that several runs compute for an object that the program still holds.

``d = f[f.v > 0]`` stands for a plan, and each number that the program takes from ``d`` would filter ``f`` again. The second run
that computes these rows keeps the columns that it needs in the result cache, and later runs read them there. This includes the
decoded columns of a file, and all columns of a file of JSON lines. If the rows come from a join, a group-by or a sort and live
objects can read few other columns of them, it keeps these, too. Rows that only one run needs are not kept, so that a program which
asks for one number streams its data.

If the plan reads only data in memory, or small files that an earlier run has read, pandas would have the object in memory as well. Then
the first run keeps what a join, a group-by or a sort computes for it, and a run that needs other columns again computes all of them.
The first run also keeps columns that are costly to compute, such as matches of patterns, and windows.

Kept rows are dropped when the operator that produces them is garbage-collected.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence

import polars as pl

from craton import forks, locks
from craton.config import options
from craton.engine import kept_columns
from craton.engine.choice import chosen_engine, present_engine
from craton.engine.kept_columns import WindowValues, costly_columns
from craton.engine.live_objects import LiveView, live_views
from craton.engine.result_cache import LARGEST_PART, most_memory, results
from craton.engine.run import execute
from craton.kernel.sizes import bytes_of
from craton.plan import build
from craton.plan.expr import Expr, WindowCall, dtype_of, roots, walk
from craton.plan.operators import (
    Aggregate,
    Attach,
    Distinct,
    Filter,
    Join,
    Operator,
    Project,
    RowNumber,
    Scan,
    Slice,
    Sort,
    Window,
    schema,
)
from craton.plan.order import observed_order
from craton.plan.rules.prune import needed_columns
from craton.plan.rules.unnest import every_operator, nested_plans
from craton.plan.size import estimated_rows, most_rows, value_bytes
from craton.plan.sources import FileSource, MemorySource
from craton.plan.visit import topological
from craton.records import dataclass

#: Operators that compute all of their rows before the first.
_GATHERING = (Join, Aggregate, Distinct, Sort, Window)
#: Operators for which the order of their rows costs time.
_SHUFFLING = (Join, Aggregate, Distinct, Sort)

#: Formats of files that are read with all columns, whichever are needed.
_READ_WHOLE = frozenset(["ndjson"])
#: The second run keeps all columns of a join, group-by or sort if a row has at most this many times the bytes of those that it reads.
_WIDER = 8

#: For each operator of a plan: the columns that are needed of it, and whether the order of its rows is observed.
_Uses = tuple[dict[Operator, set[str]], dict[Operator, bool]]

#: How many runs have computed an operator for an object that the program still held, until the operator is garbage-collected.
_computed: weakref.WeakKeyDictionary[Operator, int] = weakref.WeakKeyDictionary()
#: Operators that are not kept: their rows take more memory than estimated, or their computation failed.
_not_kept: weakref.WeakSet[Operator] = weakref.WeakSet()
#: Digests of kept rows whose operators were garbage-collected. Finalizers append to it.
_unused: deque[bytes] = deque()
_lock = forks.lock()


def keep_repeated(
    plans: Sequence[Operator], ordered: bool, views: Sequence[LiveView] = (), kept: Operator | None = None
) -> None:
    """Before plans run: keep the rows of live objects that they compute and an earlier run has computed already.

    Parameters
    ----------
    plans
        The plans that are about to run, whose own results are not cached.
    ordered
        Whether the order of their rows is observed.
    views
        The views of the objects that are evaluated, which hold their rows afterwards.
    kept
        An operator whose rows the caller keeps.
    """
    _drop_unused()
    kept_columns.drop_unused()
    if not options.result_memory or forks.kernel_lost() or present_engine() is not None:
        return
    _keep_columns(plans, views)
    bases = {view.base: view.base for view in live_views() if not any(view is one for one in views)}
    live = {base: base for base in bases.values() if base != kept and not _is_cheap(base)}
    if not live:
        return
    counted: dict[Operator, int] = {}
    any_kept = False
    for plan in plans:
        for op, columns, observed in _repeated(plan, live, ordered, counted):
            _keep(op, columns, observed)
            any_kept = True
    if any_kept:  # columns over these rows are over rows in memory now
        _keep_columns(plans, views)


def _keep_columns(plans: Sequence[Operator], views: Sequence[LiveView]) -> None:
    """Keep costly columns and windows of live objects that plans are about to compute."""
    _keep_costly(plans, views)
    _keep_windows(plans, views)


def _keep_windows(plans: Sequence[Operator], views: Sequence[LiveView]) -> None:
    """Keep windows of live objects over rows in memory that plans are about to compute, as pandas does when they are called."""
    needed: dict[bytes, WindowValues] = {}
    for plan in plans:
        needed |= {values.plan.digest: values for values in _computing_windows(plan)}
    if not needed:
        return
    wanted: dict[Operator, dict[bytes, WindowCall]] = {}
    for view in live_views():
        for call in () if any(view is one for one in views) else kept_columns.windows_of(view.exprs):
            values = kept_columns.window_values(view.base, call)
            if values is not None and values.plan.digest in needed:
                wanted.setdefault(values.rows, {})[values.plan.digest] = (
                    call  # the one that lives as long as the object
                )
    for rows, calls in wanted.items():
        plan = build.project(rows, [needed[digest].column for digest in calls])
        if not may_keep(plan) or chosen_engine([plan]) is not None:
            continue
        try:
            (frame,) = execute([plan], remember=False)
        except Exception:
            _not_kept.update(needed[digest].plan for digest in calls)  # the run itself raises the error
            continue
        for digest, call in calls.items():
            values = needed[digest]
            results.put(values.plan, frame.select(values.column[0]), over_memory=True, stored=False)
            kept_columns.register(values.plan, call, digest)


def _computing_windows(plan: Operator) -> Iterator[WindowValues]:
    """The windows that a plan computes over rows in memory, and that are not too large to be kept."""
    stack, reached = [plan], {plan}
    while stack:
        op = stack.pop()
        if results.covers(op, set()):
            continue
        for _, call in op.columns if isinstance(op, Window) else ():
            values = kept_columns.window_values(op.inputs[0], call)
            if values is None or values.plan in _not_kept or not _is_over_memory(values.plan):
                continue
            kept = results.covers(values.plan, set(schema(values.plan)), True)
            if not kept and estimated_rows(values.rows) * value_bytes(call.dtype) <= _most_bytes():
                yield values
        for below in op.inputs:
            if below not in reached:
                reached.add(below)
                stack.append(below)


def _keep_costly(plans: Sequence[Operator], views: Sequence[LiveView]) -> None:
    """Keep costly columns of live objects that plans are about to compute: over rows in memory, or over a part of these."""
    for op in (found for plan in plans for found in _computing_costly(plan)):
        live: dict[bytes, Expr] = {}
        for view in live_views():
            if not any(view is one for one in views):
                live |= {expr.digest: expr for expr in view.exprs if kept_columns.may_be_kept(expr)}
        (below,) = op.inputs
        together: list[tuple[Project, Expr]] = []
        for found in kept_columns.innermost_first(op, live.keys()):
            values = kept_columns.values_of(below, found)
            if not _is_over_memory(values, selected=True) and not kept_columns.is_kept_below(below, found):
                continue
            if estimated_rows(values) * value_bytes(dtype_of(found)) > _most_bytes() or values in _not_kept:
                continue
            if together and not _fits_to(together, values, found):
                _keep_values(together)
                together = []
            together.append((values, live[found.digest]))  # the one that lives as long as the object
        if together:
            _keep_values(together)


def _fits_to(together: list[tuple[Project, Expr]], values: Project, expr: Expr) -> bool:
    """Whether values are computed with others in one run, which computes common parts once: of the same rows, and of none of these."""
    others = {one.digest for _, one in together}
    size = (len(together) + 1) * estimated_rows(values) * value_bytes(dtype_of(expr))
    same_rows = values.input == together[0][0].input
    return same_rows and size <= _most_bytes() and not any(node.digest in others for node in walk(expr))


def _computing_costly(plan: Operator) -> Iterator[Operator]:
    """The operators of a plan that compute a costly expression for all rows of an input."""
    stack, reached = [plan], {plan}
    while stack:
        op = stack.pop()
        if (isinstance(op, Slice) and not _gathers(op)) or results.covers(op, set()):
            continue
        if len(op.inputs) == 1 and kept_columns.computes_costly(op):
            yield op
        for below in op.inputs:
            if below not in reached:
                reached.add(below)
                stack.append(below)


def _keep_values(wanted: list[tuple[Project, Expr]]) -> None:
    """Keep the values of expressions over the same rows: of all in one run, or else of each in a run of its own."""
    with locks.plans.hold(*(values.digest for values, _ in wanted)):  # another thread may be keeping them
        wanted = [(values, expr) for values, expr in wanted if not results.covers(values, set(schema(values)), True)]
        if not wanted or not all(may_keep(values) for values, _ in wanted):
            return
        together = Project(wanted[0][0].input, tuple(column for values, _ in wanted for column in values.columns))
        if len(wanted) > 1 and chosen_engine([together]) is None and _compute_values(together, wanted):
            return
        for values, expr in wanted:
            if chosen_engine([values]) is None and not _compute_values(values, [(values, expr)]):
                _not_kept.add(values)  # the run itself raises the error, if it needs these values


def _compute_values(plan: Project, wanted: list[tuple[Project, Expr]]) -> bool:
    """Compute a plan of the values of some expressions, and keep each of them; whether that succeeds."""
    try:
        (frame,) = execute([plan], remember=False)
    except Exception:
        return False
    for values, expr in wanted:
        column = frame.select(list(schema(values)))
        if bytes_of(column) > _most_bytes():
            _not_kept.add(values)
            continue
        results.put(values, column, over_memory=True, stored=False)
        kept_columns.register(values, expr, expr.digest)
    return True


def _gathers(plan: Operator) -> bool:
    return any(isinstance(op, _GATHERING) for op in topological(plan))


def may_keep(plan: Operator) -> bool:
    """Whether what a plan computes may be kept in memory: it runs in this process, on data in memory or on small files in use."""
    return not forks.kernel_lost() and present_engine() is None and _reads_data_in_use(plan)


def _reads_data_in_use(plan: Operator) -> bool:
    for op in every_operator(plan):
        if isinstance(op, Scan) and isinstance(op.source, FileSource):
            size = estimated_rows(op) * sum(value_bytes(dtype) for _, dtype in op.source.columns)
            if op not in _computed or size > _most_bytes():
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
    return may_keep(plan) and _gathers(plan)


def keep_rows(plan: Operator, names: set[str]) -> None:
    """Keep columns of rows that the next runs of the program compute again, if the kernel computes all rows before the first.

    Parameters
    ----------
    plan
        The plan of the rows, which is the base of a live object.
    names
        The columns that these runs need.
    """
    if not options.result_memory or forks.kernel_lost() or present_engine() is not None or plan in _not_kept:
        return
    remaining = results.substitute(plan)
    if _gathers(remaining) and not _is_cheap(remaining):
        _keep(plan, names, True)


def _is_cheap(op: Operator) -> bool:
    """Whether the rows of an operator are in memory, except for parts of rows that take no time to compute."""
    while isinstance(op, (RowNumber, Slice)) or (isinstance(op, Attach) and isinstance(op.source, MemorySource)):
        op = op.input
    return isinstance(op, Scan) and not isinstance(op.source, FileSource)


def _is_over_memory(values: Operator, selected: bool = False) -> bool:
    """Whether a plan of columns computes them over rows in memory; with ``selected``, or over some of these, chosen at little cost."""
    for op in (values, results.substitute(values)):
        while isinstance(op, (Project, Window)) or (
            selected and isinstance(op, Filter) and not kept_columns.computes_costly(op)
        ):
            op = op.inputs[0]
        if _is_cheap(op):
            return True
    return False


def _repeated(
    plan: Operator, live: dict[Operator, Operator], ordered: bool, counted: dict[Operator, int]
) -> list[tuple[Operator, set[str], bool]]:
    """The operators whose rows are kept, the columns, and whether in order, the lowest first; runs of all operators are counted.

    Below an operator whose rows are kept, only those are kept that an earlier run has computed: no later run needs the others.

    Parameters
    ----------
    counted
        For each operator that this run computes: how many earlier runs did. Several plans of the run may compute it.
    """
    found: list[tuple[Operator, set[str], bool]] = []
    uses: _Uses | None = None
    inside: set[Operator] = set()  # operators below those whose rows are kept
    stack, reached = [plan], {plan}
    while stack:
        op = stack.pop()
        is_live = op in live and op not in _not_kept
        if is_live or results.covers(op, set()):
            uses = uses or (needed_columns(plan), observed_order(plan, ordered))
            needed, observed = uses[0].get(op, set()), uses[1].get(op, True)
            if op in uses[0] and results.covers(op, needed, observed):
                continue
        if is_live:
            op = live[op]  # an equal operator, but the one that lives as long as the object
            # Below cached rows, nothing is computed again.
            remaining = results.substitute(op)
            if not _is_cheap(remaining):
                if op not in counted:
                    counted[op] = _count(op)
                rows = _rows_to_keep(op, remaining, _Use(needed, observed, counted[op], op in inside))
                if rows is not None:
                    inside.update(op.inputs)
                    found.append(rows)
                    if uses is not None and (rows[1] > needed or rows[2] > observed):
                        _add_uses(uses, *rows)
        if isinstance(op, Slice) and not _gathers(op):
            continue  # a few rows are computed without the others
        if isinstance(op, Scan) and isinstance(op.source, FileSource) and op not in counted:
            counted[op] = _count(op)  # so that a later run knows that the file was read
        for below in (*op.inputs, *nested_plans(op)):
            if op in inside:
                inside.add(below)
            if below not in reached:
                reached.add(below)
                stack.append(below)
    return found[::-1]


@dataclass(frozen=True, slots=True)
class _Use:
    """What a run needs of an operator; how many runs computed it before; and whether it is below rows that are kept."""

    needed: set[str]
    observed: bool
    before: int
    inside: bool


def _rows_to_keep(op: Operator, remaining: Operator, use: _Use) -> tuple[Operator, set[str], bool] | None:
    """The columns of an operator that are kept, and whether in order; None if its rows are not kept.

    Parameters
    ----------
    op
        The operator.
    remaining
        The operator, with scans of what is cached below it.
    use
        What the run needs of it.
    """
    before, in_memory, gathers = use.before, may_keep(op), _gathers(remaining)
    if not use.inside and in_memory and (gathers or use.needed & costly_columns(remaining)):
        before += 1
    if not before:
        return None
    readable = use.needed
    if isinstance(op, Scan):
        whole = isinstance(op.source, FileSource) and op.source.format in _READ_WHOLE
        readable = set(schema(op)) if whole else readable
    else:
        if (in_memory and before > 1) or gathers:
            readable = _readable(op, readable)
        whole = (in_memory and before > 1) or (gathers and _is_most_of(op, readable, use.needed))
    if whole and not use.inside and _bytes_of(op, readable) <= _most_bytes():
        return op, readable, True
    return op, use.needed, use.observed


def _add_uses(uses: _Uses, op: Operator, columns: set[str], observed: bool) -> None:
    """Add what a run of some columns of an operator needs of the operators below."""
    plan = build.project(op, tuple((name, op.column(name)) for name in schema(op) if name in columns))
    for below, names in needed_columns(plan).items():
        uses[0][below] = uses[0].get(below, set()) | names
    for below, seen in observed_order(plan, observed).items():
        uses[1][below] = uses[1].get(below, False) or seen


def _readable(op: Operator, needed: set[str]) -> set[str]:
    """The columns of an operator that a run needs or that live objects can read."""
    found = set(needed)
    for view in live_views():
        if view.base == op:
            found |= {name for expr in view.exprs for name in roots(expr)}
        elif op in topological(view.base):
            found |= needed_columns(view.base).get(op, set())
    return found


def _is_most_of(op: Operator, readable: set[str], needed: set[str]) -> bool:
    """Whether the columns of an operator that can be read take not much more memory than those that a run needs or reads for these."""
    read = sum(_row_bytes(below, names) for below, names in zip(op.inputs, op.required(needed), strict=True))
    return _row_bytes(op, readable) <= _WIDER * max(read, _row_bytes(op, needed))


def _bytes_of(op: Operator, names: set[str]) -> int:
    """The estimated bytes of some columns of an operator."""
    return estimated_rows(op) * _row_bytes(op, names)


def _row_bytes(op: Operator, names: set[str]) -> int:
    return sum(value_bytes(dtype) for name, dtype in schema(op).items() if name in names)


def _count(op: Operator) -> int:
    """Count a run that computes an operator; returns the number of earlier ones."""
    with _lock:
        before = _computed.get(op, 0)
        _computed[op] = before + 1
        return before


def _keep(op: Operator, needed: set[str], observed: bool) -> None:
    if _bytes_of(op, needed) > _most_bytes():
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
        for one in topological(rows):
            if isinstance(one, Scan) and isinstance(one.source, FileSource):
                _count(one)
        _put(op, frame if kept is None else kept.hstack(frame), observed)


def _most_bytes() -> int:
    """The most bytes of rows that are kept: a small part of the memory limit, so that plans over them need no tiles."""
    return min(most_memory() // LARGEST_PART, options.memory_limit // 8)


def _put(op: Operator, frame: pl.DataFrame, ordered: bool) -> None:
    if bytes_of(frame) > _most_bytes():
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
