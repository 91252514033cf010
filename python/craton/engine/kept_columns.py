"""Columns that are costly to compute and are kept for objects that the program still holds.

``log["page"] = log["url"].str.extract(pattern)`` is an expression over the rows of ``log``, and each number that the program takes from
it would search all texts again. pandas searches them once. So the first run that reads such an expression over rows in memory
keeps its values in the result cache (:mod:`craton.engine.repeated_runs`), and this run and later ones read them there.

The value of such an expression in a row depends on no other row, so it does not matter for which rows it is computed, nor when.
Windows, as ``g.cumsum()``, are kept too. Their values depend on other rows, so they are read only over the very rows of the plan for which
they were computed. Values are dropped when the expression is garbage-collected.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import islice

from craton import forks
from craton.engine.live_objects import live_views
from craton.engine.result_cache import results
from craton.plan.build import exact_if_required, project
from craton.plan.expr import (
    Column,
    Expr,
    Member,
    WindowCall,
    dtype_of,
    is_costly,
    parts,
    rebuild,
    roots,
    substitute,
    walk,
)
from craton.plan.names import derived_name
from craton.plan.operators import Attach, Filter, Operator, Project, RowNumber, Scan, Slice, Window, schema
from craton.plan.protocol import derived, mapped
from craton.plan.sources import MemorySource
from craton.plan.visit import rewritten, topological
from craton.records import dataclass

#: For each expression whose values were kept, by its digest: the digests of the plans of its values.
_kept: dict[bytes, set[bytes]] = {}
#: The digest of each such expression that was garbage-collected, and of the plan of its values. Finalizers append to it.
_unused: deque[tuple[bytes, bytes]] = deque()
_lock = forks.lock()
#: Windows whose expressions have as many parts, or windows of more other windows, are not kept: in a loop, each step would look at all
#: steps before it.
_LONGEST = 50
_MOST_WINDOWS = 3

#: The rows from which operators select some, with kept values where these are read; None if rows that are selected are cached.
_BeforeSelection = Callable[[Sequence[Operator]], Operator | None]


@derived
def costly_columns(op: Operator) -> frozenset[str]:
    """The columns of an operator that take far longer to compute than to read: see :func:`craton.plan.expr.is_costly`.

    All columns, if the choice of rows depends on such a value.
    """
    below = frozenset[str]().union(*map(costly_columns, op.inputs))
    if isinstance(op, Project):
        return frozenset(name for name, expr in op.columns if is_costly(expr) or roots(expr) & below)
    names = frozenset(schema(op))
    if any(is_costly(expr) or roots(expr) & below for exprs in op.expressions for expr in exprs):
        return names
    return below & names


@derived
def computes_costly(op: Operator) -> bool:
    """Whether an operator itself computes a costly expression."""
    return any(is_costly(expr) for exprs in op.expressions for expr in exprs)


def may_be_kept(expr: Expr) -> bool:
    """Whether the values of an expression are worth keeping, and depend on no other row and no other plan."""
    return is_costly(expr) and not any(isinstance(node, (WindowCall, Member)) for node in walk(expr))


def outermost(op: Operator, digests: Set[bytes]) -> list[Expr]:
    """The parts of an operator's expressions that have one of the digests, without those inside another one."""
    found: dict[Expr, None] = {}
    stack = [expr for exprs in op.expressions for expr in exprs]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node.digest in digests:
            found[node] = None
        elif id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.children)
    return list(found)


def innermost_first(op: Operator, digests: Set[bytes]) -> list[Expr]:
    """The parts of an operator's expressions that have one of the digests, each after those inside it."""
    every = [expr for exprs in op.expressions for expr in exprs]
    return [node for node in parts(every) if node.digest in digests] if digests else []


def values_of(op: Operator, expr: Expr) -> Project:
    """The plan of an expression's values for the rows of an operator; one column, whose name is unique to the expression.

    Columns that the expression does not read and that were only added to the rows are left out, so that they do not matter.
    """
    names = roots(expr)
    while isinstance(op, (RowNumber, Attach)) and names <= schema(op.input).keys():
        op = op.input
    return Project(op, ((derived_name("value", expr.digest, ()), expr),))


def windows_of(exprs: Iterable[Expr]) -> list[WindowCall]:
    """The windows in expressions."""
    calls = {id(node): node for expr in exprs for node in walk(expr) if isinstance(node, WindowCall)}
    return list(calls.values())


@dataclass(frozen=True, slots=True)
class WindowValues:
    """The values of a window: the operator over whose rows it is computed, its name and expression, and the plan of this one column."""

    rows: Operator
    column: tuple[str, Expr]
    plan: Operator


def window_values(op: Operator, call: WindowCall) -> WindowValues | None:
    """A window's values for the rows of an operator; None if its expression is long, or has many windows.

    The plan computes the window from the rows below all operators that only add, compute or drop columns, since these differ
    from run to run.
    """
    expr: Expr = call
    while True:
        nodes = list(islice(walk(expr), _LONGEST))
        if len(nodes) == _LONGEST or sum(isinstance(node, WindowCall) for node in nodes) > _MOST_WINDOWS:
            return None
        names = roots(expr)
        if isinstance(op, (Project, Window)):
            expr = substitute(expr, {name: made for name, made in op.columns if name in names})
        elif not isinstance(op, (RowNumber, Attach)) or not names <= schema(op.input).keys():
            break
        op = op.input
    exact = _exact(expr)
    column = (derived_name("value", exact.digest, ()), exact)
    return WindowValues(op, column, project(op, (column,)))


def _exact(expr: Expr) -> Expr:
    """An expression with the exact variants of its windows, which plans compute."""
    made: dict[Expr, Expr] = {}
    for node in parts([expr]):
        new = rebuild(node, made.__getitem__)
        made[node] = exact_if_required(new) if isinstance(new, WindowCall) else new
    return made[expr]


def register(values: Operator, expr: Expr, digest: bytes) -> None:
    """Record that the result cache has the values of an expression, until this object is garbage-collected.

    Parameters
    ----------
    values
        The plan of the values.
    expr
        The expression of an object.
    digest
        The digest of the expression that plans compute.
    """
    with _lock:
        _kept.setdefault(digest, set()).add(values.digest)
    weakref.finalize(expr, _unused.append, (digest, values.digest)).atexit = False


def is_any_kept() -> bool:
    """Whether values of an expression are kept."""
    return bool(_kept)


def drop_unused() -> None:
    """Drop the values of expressions that were garbage-collected."""
    while _unused:
        expr, values = _unused.popleft()
        other = _another_object(expr, values)
        if other is not None:
            weakref.finalize(other, _unused.append, (expr, values)).atexit = False
            continue
        results.drop(values)
        with _lock:
            known = _kept.get(expr, set())
            known.discard(values)
            if not known:
                _kept.pop(expr, None)


def _another_object(expr: bytes, values: bytes) -> Expr | None:
    """An expression of a live object with the same values, given the digests of the expression and of the plan of its values."""
    for view in live_views():
        for one in view.exprs:
            if one.digest == expr and any(_has_values(op, one, values) for op in topological(view.base)):
                return one
    return None


def _has_values(op: Operator, expr: Expr, values: bytes) -> bool:
    """Whether the plan of an expression's values for the rows of an operator, which may lack columns that it reads, has this digest."""
    return roots(expr) <= schema(op).keys() and values_of(op, expr).digest == values


def with_kept_columns(plan: Operator, ordered: bool = True) -> Operator:
    """The plan, which reads kept values where it would compute them.

    Operators whose own rows are cached stay as they are, since the cache finds them by their digests.

    Parameters
    ----------
    plan
        The plan.
    ordered
        Whether the order of its result is observed.
    """
    if not is_any_kept():
        return plan
    known = frozenset(_kept)
    cached = results.cached_within(plan, ordered)

    def rule(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
        if op in cached:
            return op
        if isinstance(op, Window) and (made := _reading_windows(op, inputs[0], known)) is not None:
            return made
        reading = len(inputs) == 1 and computes_costly(op)
        return _reading(op, inputs[0], known, before_selection) if reading else op.with_inputs(inputs)

    def before_selection(selecting: Sequence[Operator]) -> Operator | None:
        return None if cached.intersection(selecting) else rewritten(selecting[-1].inputs[0], rule)

    return rewritten(plan, rule)


def _kept_scan(values: Operator, digest: bytes) -> Scan | None:
    """The scan of kept values; None if they are not kept any more."""
    scan = results.substitute(values) if values.digest in _kept.get(digest, ()) else values
    return scan if isinstance(scan, Scan) and isinstance(scan.source, MemorySource) else None


def is_kept_below(op: Operator, expr: Expr) -> bool:
    """Whether the values of an expression are kept for rows of which an operator selects some."""
    return expr.digest in _kept and _selected_from(op, expr) is not None


def _selected_from(op: Operator, expr: Expr) -> tuple[list[Operator], Scan] | None:
    """The operators that select rows, the last first, and the scan of an expression's values for the rows from which they do."""
    selecting: list[Operator] = []
    names = roots(expr)
    while True:
        scan = _kept_scan(values_of(op, expr), expr.digest)
        if scan is not None:
            return selecting, scan
        if not isinstance(op, (Filter, Slice, RowNumber, Attach)) or not names <= schema(op.input).keys():
            return None
        selecting.append(op)
        op = op.input


def _attached(below: Operator, scan: Scan) -> Operator:
    """The rows with kept values, unless they have them already: the values of an expression have one name, and are the same in a row."""
    return below if scan.columns[0] in schema(below) else Attach(below, scan.source, scan.columns)


def _reading_windows(op: Window, below: Operator, known: frozenset[bytes]) -> Operator | None:
    """The rows with windows of which some are kept; None if none are."""
    sources: dict[str, str] = {}
    for name, call in op.columns:
        values = window_values(op.input, call)
        scan = _kept_scan(values.plan, values.plan.digest) if values and values.plan.digest in known else None
        if scan is not None:
            below = _attached(below, scan)
            sources[name] = scan.columns[0]
    if not sources:
        return None
    rest = tuple((name, call) for name, call in op.columns if name not in sources)
    made = Window(below, rest) if rest else below
    return Project(made, tuple((name, made.column(sources.get(name, name))) for name in schema(op)))


def _reading(op: Operator, below: Operator, known: frozenset[bytes], before_selection: _BeforeSelection) -> Operator:
    """An operator that reads kept values of its input's rows, or else of the rows from which its input selects some."""
    made = _with_values(op, below, known) or _with_values_below(op, known, before_selection) or op.with_inputs((below,))
    names = tuple(schema(op))
    return made if tuple(schema(made)) == names else Project(made, tuple((name, made.column(name)) for name in names))


def _with_values(op: Operator, below: Operator, known: frozenset[bytes]) -> Operator | None:
    """An operator over another input with the same rows, and its kept values attached; None if none are kept."""
    columns: dict[Expr, Expr] = {}
    for expr in outermost(op, known):
        scan = _kept_scan(values_of(op.inputs[0], expr), expr.digest)
        if scan is not None:
            below = _attached(below, scan)
            columns[expr] = Column(scan.columns[0], dtype_of(expr))
    return mapped(op, columns, (below,)) if columns else None


def _with_values_below(op: Operator, known: frozenset[bytes], before_selection: _BeforeSelection) -> Operator | None:
    """An operator whose input selects rows from those for which values are kept; the values are attached before the selection."""
    columns: dict[Expr, Expr] = {}
    selecting: list[Operator] = []
    scans: list[Scan] = []
    for expr in outermost(op, known):
        found = _selected_from(op.inputs[0], expr)
        if found is not None and (not scans or found[0] == selecting):
            selecting, scan = found
            scans.append(scan)
            columns[expr] = Column(scan.columns[0], dtype_of(expr))
    below = before_selection(selecting) if scans else None
    if below is None:
        return None
    for scan in scans:
        below = _attached(below, scan)
    for one in reversed(selecting):
        below = _with_values(one, below, known) or one.with_inputs((below,))
    return mapped(op, columns, (below,))
