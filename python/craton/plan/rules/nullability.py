"""Rules for columns that are known to have no nulls, without reading them."""

from __future__ import annotations

from dataclasses import replace

from craton.plan.expr import Column, Expr
from craton.plan.operators import Aggregate, AggregateCall, Join, Operator
from craton.plan.origin import origin
from craton.plan.sources import FileSource, MemorySource
from craton.plan.visit import rewritten


def count_rows(root: Operator) -> Operator:
    """Count rows instead of values that are never null, so that the values need not be read.

    ``Aggregate[count(x)](L)`` becomes ``Aggregate[len()](L)``.

    Valid where ``x`` is a stored column without nulls, by its null count in memory or by a file's metadata, and no operator
    in between computes it or adds nulls to it, as an outer join does.
    """
    return rewritten(root, lambda op, inputs: _counted(op.with_inputs(inputs)))


def _counted(op: Operator) -> Operator:
    if not isinstance(op, Aggregate) or not any(call.function == "count" for _, call in op.aggregates):
        return op
    calls = tuple(
        (name, AggregateCall("len", (), call.dtype) if _counts_rows(op.input, call) else call)
        for name, call in op.aggregates
    )
    return op if calls == op.aggregates else replace(op, aggregates=calls)


def _counts_rows(below: Operator, call: AggregateCall) -> bool:
    return call.function == "count" and not call.options and _is_non_null(below, call.args[0])


def ignore_null_keys(root: Operator) -> Operator:
    """Do not match null keys in joins where one side has none.

    ``Join[a = b, nulls equal](L, R)`` becomes ``Join[a = b](L, R)``. The kernel can then skip rows of one side by the keys of
    the other while it reads them.

    Valid where in each pair of keys one key is never null: a null of the other has no match either way.
    """
    return rewritten(root, lambda op, inputs: _without_null_keys(op.with_inputs(inputs)))


def _without_null_keys(op: Operator) -> Operator:
    if not isinstance(op, Join) or not op.nulls_equal or not op.left_on:
        return op
    pairs = zip(op.left_on, op.right_on, strict=True)
    if all(_is_non_null(op.left, ours) or _is_non_null(op.right, theirs) for ours, theirs in pairs):
        return replace(op, nulls_equal=False)
    return op


def _is_non_null(below: Operator, expr: Expr) -> bool:
    """Whether an expression over an operator is a stored column without nulls to which no operator in between adds any."""
    if not isinstance(expr, Column):
        return False
    found = origin(below, expr.name, joins=("inner", "left", "semi", "anti"), groups=True)
    if found is None:
        return False
    source, name = found[0].source, found[1]
    if isinstance(source, MemorySource):
        return name in source.frame.columns and source.frame[name].null_count() == 0
    return isinstance(source, FileSource) and name in source.complete
