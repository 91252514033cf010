"""Fuses adjacent projections and filters, and moves row numbers into scans."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from craton.plan.expr import Column, conjunction, conjuncts, may_raise, occurrences, substitute
from craton.plan.operators import Filter, Operator, Project, RowNumber, Scan, schema
from craton.plan.visit import readers, rewritten, topological


def fuse(root: Operator) -> Operator:
    """Fuse projections and fold row numbers into scans.

    ``Project[b = a + 1](Project[a = x * 2](S))`` becomes ``Project[b = x * 2 + 1](S)``;
    ``RowNumber(Scan)`` becomes a scan that numbers its rows, also through a projection of the scan.

    Always valid. Not done where another operator reads the inner projection, or where an inner expression that is more than
    a column would be computed twice.
    """
    count = readers(root)
    merged = _merged(root, count)
    return rewritten(root, lambda original, inputs: _rewrite(original, original.with_inputs(inputs), count, merged))


def _rewrite(original: Operator, op: Operator, count: Counter[Operator], merged: set[Operator]) -> Operator:
    if isinstance(op, RowNumber):
        if isinstance(op.input, Scan) and op.input.row_number is None and op.input.predicate is None:
            return replace(op.input, row_number=op.name)
        inner = op.input
        if isinstance(inner, Project) and isinstance(inner.input, Scan):
            scan = inner.input
            if scan.row_number is None and scan.predicate is None and op.name not in schema(scan):
                numbered = replace(scan, row_number=op.name)
                return Project(numbered, ((op.name, numbered.column(op.name)), *inner.columns))
    if isinstance(op, Project) and isinstance(op.input, Project):
        if count[original.inputs[0]] > 1:
            return op
        mapping = dict(op.input.columns)
        uses: Counter[str] = Counter()
        for node, times in occurrences([expr for _, expr in op.columns]):
            if isinstance(node, Column):
                uses[node.name] += times
        if all(times == 1 or isinstance(mapping[name], Column) for name, times in uses.items()):
            return Project(op.input.input, tuple((name, substitute(expr, mapping)) for name, expr in op.columns))
    if isinstance(op, Filter) and isinstance(original, Filter) and original not in merged:
        return _merged_filters(original, op, merged)
    return op


def _merged(root: Operator, count: Counter[Operator]) -> set[Operator]:
    """The filters that become part of the filter which reads them.

    A predicate that may raise must not see the rows that an inner filter drops.
    """
    return {
        op.input
        for op in topological(root)
        if isinstance(op, Filter)
        and isinstance(op.input, Filter)
        and count[op.input] == 1
        and not may_raise(op.predicate)
    }


def _merged_filters(original: Filter, op: Filter, merged: set[Operator]) -> Filter:
    """One filter for a chain of filters, so that a chain of any length takes one step."""
    predicates = [op.predicate]
    inner, before = op.input, original.input
    while before in merged and isinstance(inner, Filter) and isinstance(before, Filter):
        predicates.append(inner.predicate)
        inner, before = inner.input, before.input
    if len(predicates) == 1:
        return op
    parts = dict.fromkeys(part for predicate in reversed(predicates) for part in conjuncts(predicate))
    return Filter(inner, conjunction(list(parts)))
