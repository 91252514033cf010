"""Fuses adjacent projections and filters, and moves row numbers into scans."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from craton.plan.expr import Column, conjunction, conjuncts, may_raise, occurrences, substitute
from craton.plan.operators import Filter, Operator, Project, RowNumber, Scan, schema
from craton.plan.visit import readers, rewritten


def fuse(root: Operator) -> Operator:
    """Fuse projections and fold row numbers into scans.

    ``Project[b = a + 1](Project[a = x * 2](S))`` becomes ``Project[b = x * 2 + 1](S)``;
    ``RowNumber(Scan)`` becomes a scan that numbers its rows, also through a projection of the scan.

    Always valid. Not done where another operator reads the inner projection, or where an inner expression that is more than
    a column would be computed twice.
    """
    count = readers(root)
    return rewritten(root, lambda original, inputs: _rewrite(original, original.with_inputs(inputs), count))


def _rewrite(original: Operator, op: Operator, count: Counter[Operator]) -> Operator:
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
    if isinstance(op, Filter) and isinstance(op.input, Filter) and count[original.inputs[0]] == 1:
        if may_raise(op.predicate):
            return op  # it must not see the rows that the inner filter drops
        parts = [*conjuncts(op.input.predicate), *conjuncts(op.predicate)]
        return Filter(op.input.input, conjunction(parts))
    return op
