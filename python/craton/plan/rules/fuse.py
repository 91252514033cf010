"""Small simplifications: neighbouring projections become one, row numbers move into scans."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from craton.plan.expr import Column, conjunction, conjuncts, substitute, walk
from craton.plan.operators import Filter, Operator, Project, RowNumber, Scan, schema
from craton.plan.order import topological


def fuse(root: Operator) -> Operator:
    """Fuse projections and fold row numbers into scans.

    ``Project[b = a + 1](Project[a = x * 2](S))`` becomes ``Project[b = x * 2 + 1](S)``;
    ``RowNumber(Scan)`` becomes a scan that numbers its rows, also below a renaming projection.

    Not valid, and not done: where the inner projection holds windows or has another reader, or where an inner expression
    that is more than a column would be computed twice.
    """
    readers = Counter(child for op in topological(root) for child in op.inputs)
    done: dict[Operator, Operator] = {}

    def rewrite(op: Operator) -> Operator:
        if op not in done:
            done[op] = _rewrite(op, op.with_inputs(tuple(rewrite(child) for child in op.inputs)), readers)
        return done[op]

    return rewrite(root)


def _rewrite(original: Operator, op: Operator, readers: Counter[Operator]) -> Operator:
    if isinstance(op, RowNumber):
        if isinstance(op.input, Scan) and op.input.row_number is None and op.input.predicate is None:
            return replace(op.input, row_number=op.name)
        inner = op.input
        if isinstance(inner, Project) and isinstance(inner.input, Scan) and not inner.windowed:
            scan = inner.input
            if scan.row_number is None and scan.predicate is None and op.name not in schema(scan):
                numbered = replace(scan, row_number=op.name)
                return Project(numbered, ((op.name, numbered.column(op.name)), *inner.columns))
    if isinstance(op, Project) and isinstance(op.input, Project) and not op.input.windowed:
        if readers[original.inputs[0]] > 1:
            return op
        mapping = dict(op.input.columns)
        uses = Counter(node.name for _, expr in op.columns for node in walk(expr) if isinstance(node, Column))
        if all(count == 1 or isinstance(mapping[name], Column) for name, count in uses.items()):
            return Project(op.input.input, tuple((name, substitute(expr, mapping)) for name, expr in op.columns))
    if isinstance(op, Filter) and isinstance(op.input, Filter) and readers[original.inputs[0]] == 1:
        parts = [*conjuncts(op.input.predicate), *conjuncts(op.predicate)]
        return Filter(op.input.input, conjunction(parts))
    return op
