"""Builds operators from the front end's expressions, in which windows can occur anywhere, also nested.

The functions take the windows out of the expressions, innermost first. Each window becomes a column of a
:class:`~craton.plan.operators.Window` below the new operator, whose own expressions then have no windows. So a window is
always computed over the rows that it was written for, in their order, whatever reads it.

Before: ``Filter[x > mean(shift(x)) over (k)](A)``; after, with hidden columns ``s`` and ``m``:
``Filter[x > m](Window[m = mean(s) over (k)](Window[s = shift(x)](A)))``. Always valid: a window operator keeps all rows and
columns of its input, and their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import polars as pl

from craton.config import options
from craton.plan.expr import Column, Expr, WindowCall, parts, replaced
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
    found = list(exprs)
    while calls := _innermost(found):
        taken = schema(op)
        names = {call: derived_name(call.function, call.digest, taken) for call in calls}
        op = Window(op, tuple((name, exact_if_required(call)) for call, name in names.items()))
        columns: dict[Expr, Expr] = {call: Column(name, call.dtype) for call, name in names.items()}
        found = [replaced(expr, columns) for expr in found]
    return op, found


def _innermost(exprs: Sequence[Expr]) -> list[WindowCall]:
    """The distinct windows that contain no other window."""
    having: set[int] = set()  # the parts that are windows or contain one
    found: dict[WindowCall, None] = {}
    for node in parts(exprs):
        inside = any(id(child) in having for child in node.children)
        if isinstance(node, WindowCall) and not inside:
            found[node] = None
        if inside or isinstance(node, WindowCall):
            having.add(id(node))
    return list(found)


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
