"""Builds operators from the front end's expressions, in which windows can occur anywhere, also nested.

The functions take the windows out of the expressions, innermost first. Each window becomes a column of a
:class:`~craton.plan.operators.Window` below the new operator, whose own expressions then have no windows. So a window is
always computed over the rows that it was written for, in their order, whatever reads it.

Before: ``Filter[x > mean(shift(x)) over (k)](A)``; after, with hidden columns ``s`` and ``m``:
``Filter[x > m](Window[m = mean(s) over (k)](Window[s = shift(x)](A)))``. Always valid: a window operator keeps all rows and
columns of its input, and their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeVar

import polars as pl

from craton.config import options
from craton.plan.expr import Call, Column, Expr, WindowCall, dtype_of, parts, rebuild
from craton.plan.names import derived_name
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    JoinHow,
    Named,
    Operator,
    Project,
    Sort,
    SortKey,
    Window,
    schema,
)
from craton.plan.registry import FUNCTIONS, Kind

#: Parts of windows' arguments that are read elsewhere too get a column if they have at least this many nodes.
_SHARED = 12

_C = TypeVar("_C", AggregateCall, WindowCall)


def exact_if_required(call: _C) -> _C:
    """The exact variant of an aggregate or a window of floats, where one is required; else the call itself.

    ``craton.options.reproducible`` requires it for all calls. Aggregates that are broadcast to the rows of a group are always
    exact: they may be computed again for each evaluation, and must give the same bits each time. The results of group-bys are
    small enough to be kept instead.
    """
    if options.reproducible or (type(call) is WindowCall and FUNCTIONS[call.function].kind is Kind.AGGREGATE):
        from craton.plan.functions.exact import exact_variant

        return exact_variant(call)
    return call


def row_count() -> AggregateCall:
    """The number of rows, of all or of each group."""
    return AggregateCall("len", (), pl.Int64())


def row_number() -> WindowCall:
    """The number of each row, from 0."""
    return WindowCall("row_number", (), pl.UInt32())


def product_of(dtype: pl.DataType) -> str:
    """The name of the function that multiplies values of a dtype."""
    return "float_product" if dtype.is_float() else "product"


def windows_below(op: Operator, exprs: Sequence[Expr]) -> tuple[Operator, list[Expr]]:
    """Take the windows out of expressions over an operator.

    Returns
    -------
    tuple of (Operator, list of Expr)
        The operator with the windows as hidden columns, and the expressions in terms of these.
    """
    nodes = list(dict.fromkeys(parts(exprs)))
    windows = {node for node in nodes if isinstance(node, WindowCall)}
    if not windows:
        return op, list(exprs)
    shared = _shared_parts(nodes, exprs)
    made: dict[Expr, Expr] = {}  # each part in terms of the operator's columns
    for step in _steps(nodes, windows | shared):
        for node in step:
            made[node] = rebuild(node, made.__getitem__)
        op = _with_columns(op, {node: made[node] for node in step if node in shared}, made)
        op = _with_windows(op, {node: made[node] for node in step if node in windows}, made)
    return op, [made[expr] for expr in exprs]


def _shared_parts(nodes: Sequence[Expr], exprs: Sequence[Expr]) -> set[Expr]:
    """The parts of windows' arguments that other expressions read too, if they are not short; children come before parents.

    Without columns of their own, those of a loop ``x = (x + shift(x)) / 2`` would be written out again in each step.
    """
    readers = Counter(exprs)
    for node in nodes:
        readers.update(set(node.children))
    found: set[Expr] = set()
    lengths: dict[Expr, int] = {}  # in terms of the columns
    below = set(parts(child for node in nodes if isinstance(node, WindowCall) for child in node.children))
    for node in nodes:
        lengths[node] = 1 + sum(lengths[child] for child in node.children)
        if isinstance(node, WindowCall):
            lengths[node] = 1
        elif isinstance(node, Call) and node in below and readers[node] > 1 and lengths[node] >= _SHARED:
            lengths[node] = 1
            found.add(node)
    return found


def _steps(nodes: Sequence[Expr], columns: Set[Expr]) -> list[list[Expr]]:
    """Group parts by the step in which they can be computed; a part that gets a column can be read from the next step on."""
    first: dict[Expr, int] = {}
    steps: list[list[Expr]] = []
    for node in nodes:
        first[node] = max((first[child] + (child in columns) for child in node.children), default=0)
        while len(steps) <= first[node]:
            steps.append([])
        steps[first[node]].append(node)
    return steps


def _with_columns(op: Operator, exprs: Mapping[Expr, Expr], made: dict[Expr, Expr]) -> Operator:
    """Add expressions to an operator as hidden columns, and record in ``made`` that these replace the original expressions."""
    if not exprs:
        return op
    taken = schema(op)
    names = {expr: derived_name("part", expr.digest, taken) for expr in exprs.values()}
    made |= {node: Column(names[expr], dtype_of(expr)) for node, expr in exprs.items()}
    return Project(op, (*((name, op.column(name)) for name in taken), *((name, expr) for expr, name in names.items())))


def _with_windows(op: Operator, calls: Mapping[Expr, Any], made: dict[Expr, Expr]) -> Operator:
    """Add windows to an operator as hidden columns, and record in ``made`` that these replace the original windows."""
    if not calls:
        return op
    taken = schema(op)
    names = {call: derived_name(call.function, call.digest, taken) for call in calls.values()}
    made |= {node: Column(names[call], call.dtype) for node, call in calls.items()}
    return Window(op, tuple((name, exact_if_required(call)) for call, name in names.items()))


def _selected(op: Operator, like: Operator) -> Operator:
    """The operator with the columns of another only, without the hidden columns of windows."""
    names = schema(like)
    if list(schema(op)) == list(names):
        return op
    return Project(op, tuple((name, op.column(name)) for name in names))


def project(op: Operator, columns: Sequence[Named]) -> Operator:
    """A :class:`~craton.plan.operators.Project` of expressions that may contain windows."""
    below, exprs = windows_below(op, [expr for _, expr in columns])
    return Project(below, tuple((name, expr) for (name, _), expr in zip(columns, exprs, strict=True)))


def filter(op: Operator, predicate: Expr) -> Operator:
    """A :class:`~craton.plan.operators.Filter` by a predicate that may contain windows, over the rows before the filter."""
    below, (wanted,) = windows_below(op, [predicate])
    return _selected(Filter(below, wanted), op)


def sort(op: Operator, keys: Sequence[SortKey]) -> Operator:
    """A :class:`~craton.plan.operators.Sort` by keys that may contain windows."""
    below, exprs = windows_below(op, [key.expr for key in keys])
    sort = Sort(below, tuple(replace(key, expr=expr) for key, expr in zip(keys, exprs, strict=True)))
    return _selected(sort, op)


def aggregate(
    op: Operator, keys: Sequence[Named], calls: Sequence[tuple[str, AggregateCall]], sort: bool = True
) -> Aggregate:
    """An :class:`~craton.plan.operators.Aggregate` whose keys and arguments may contain windows."""
    below, exprs = windows_below(op, [*(expr for _, expr in keys), *(arg for _, call in calls for arg in call.args)])
    given = iter(exprs)
    named = tuple((name, next(given)) for name, _ in keys)
    made = tuple(
        (name, exact_if_required(replace(call, args=tuple(next(given) for _ in call.args)))) for name, call in calls
    )
    return Aggregate(below, named, made, sort)


def join(
    left: Operator,
    right: Operator,
    how: JoinHow,
    left_on: Sequence[Expr],
    right_on: Sequence[Expr],
    nulls_equal: bool = True,
) -> Operator:
    """A :class:`~craton.plan.operators.Join` on keys that may contain windows."""
    ours, ours_on = windows_below(left, left_on)
    theirs, theirs_on = windows_below(right, right_on)
    join = Join(ours, theirs, how, tuple(ours_on), tuple(theirs_on), nulls_equal)
    names = schema(left) if join.left_only else schema(left) | schema(right)
    if list(schema(join)) == list(names):
        return join
    return Project(join, tuple((name, join.column(name)) for name in names))
