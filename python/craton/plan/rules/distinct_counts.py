"""Replaces counts of distinct values that are only compared with one, which extremes answer at less cost."""

from __future__ import annotations

from collections import Counter

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, conjunction, conjuncts, dtype_of, roots
from craton.plan.names import derived_name
from craton.plan.operators import Aggregate, AggregateCall, Filter, Operator, Project
from craton.plan.visit import readers, rewritten

_SEVERAL = {("gt", 1), ("ge", 2)}
_ONE = {("eq", 1)}


def compare_distinct_counts(root: Operator) -> Operator:
    """Compare a group's smallest and greatest value where its count of distinct values is only compared with one.

    Before: ``Filter[n > 1](Aggregate[n = n_unique(x) by k])``;
    after: ``Filter[lo != hi](Aggregate[lo = min(x), hi = max(x) by k])``.

    Valid where nothing else reads the count, for ordered values with one representation each (integers, strings, dates; not
    floats, which have two zeros), if nulls are not counted. A group of nulls only has null extremes, so that both comparisons
    drop it, as ``0 > 1`` and ``0 == 1`` do. ``n != 1`` keeps such a group and is not rewritten.
    """
    count = readers(root)
    return rewritten(root, lambda original, inputs: _rewrite(original, inputs, count))


def _rewrite(op: Operator, inputs: tuple[Operator, ...], count: Counter[Operator]) -> Operator:
    if isinstance(op, Project) and isinstance(op.input, Filter) and isinstance(op.input.input, Aggregate):
        selection, groups = op.input, op.input.input
        read_above = set().union(*(roots(expr) for _, expr in op.columns))
        if count[selection] == 1 and count[groups] == 1:
            changed = _compared(selection, groups, read_above)
            if changed is not None:
                predicate, calls = changed
                (below,) = inputs[0].inputs[0].inputs  # the group-by's rewritten input
                return Project(Filter(Aggregate(below, groups.keys, calls, groups.sort), predicate), op.columns)
    return op.with_inputs(inputs)


def _compared(
    selection: Filter, groups: Aggregate, read_above: set[str]
) -> tuple[Expr, tuple[tuple[str, AggregateCall], ...]] | None:
    calls = dict(groups.aggregates)
    parts = conjuncts(selection.predicate)
    replaced: dict[Expr, Expr] = {}
    added: dict[str, AggregateCall] = {}
    for part in parts:
        name = _count_name(part)
        if name is None or name in read_above or not _orderable(calls.get(name)):
            continue
        if any(name in roots(other) for other in parts if other is not part):
            continue
        assert isinstance(part, Call)
        (value,) = calls[name].args
        low, high = (derived_name(word, calls[name].digest) for word in ("least", "greatest"))
        dtype = dtype_of(value)
        added |= {low: AggregateCall("min", (value,), dtype), high: AggregateCall("max", (value,), dtype)}
        test = "ne" if (part.function, _constant(part)) in _SEVERAL else "eq"
        replaced[part] = Call(test, (Column(low, dtype), Column(high, dtype)), pl.Boolean())
        del calls[name]
    if not replaced:
        return None
    return conjunction([replaced.get(part, part) for part in parts]), tuple((calls | added).items())


def _count_name(part: Expr) -> str | None:
    """The column that a predicate compares with one, if it is such a comparison."""
    if not isinstance(part, Call) or len(part.args) != 2:
        return None
    column = part.args[0]
    asked = (part.function, _constant(part))
    if isinstance(column, Column) and asked in _SEVERAL | _ONE:
        return column.name
    return None


def _constant(part: Call) -> object:
    operand = part.args[1]
    return operand.value if isinstance(operand, Literal) else None


def _orderable(call: AggregateCall | None) -> bool:
    if call is None or call.function != "n_unique" or call.option("nulls", False):
        return False
    dtype = dtype_of(call.args[0])
    return dtype.is_integer() or dtype.is_temporal() or dtype == pl.String()
