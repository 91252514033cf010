"""Takes the numbers of rows from the column in which a partitioned set stores them."""

from __future__ import annotations

from craton.plan.expr import Call, Column, Expr
from craton.plan.operators import Operator, Project, RowNumber, Scan, Sort, schema
from craton.plan.sources import FileSource
from craton.plan.visit import rewritten

__all__ = ["number_by_position"]


def number_by_position(root: Operator) -> Operator:
    """Do not count rows that are sorted by their numbers, so that filters can be pushed below.

    Before: ``RowNumber #row(Sort position(Scan))``; after: ``Project #row = cast(position), …(Sort position(Scan))``.

    Valid if the scan reads all rows of files whose layout has that column as the position: it has each number from 0 on once.
    """
    return rewritten(root, _rewrite)


def _rewrite(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
    if not isinstance(op, RowNumber) or not _is_in_stored_order(inputs[0]):
        return op.with_inputs(inputs)
    (below,) = inputs
    assert isinstance(below, Sort)
    dtypes = schema(op)

    def value(name: str) -> Expr:
        if name == op.name:
            return Call("cast", (below.keys[0].expr,), dtypes[name])
        return Column(name, dtypes[name])

    return Project(below, tuple((name, value(name)) for name in dtypes))


def _is_in_stored_order(op: Operator) -> bool:
    if not isinstance(op, Sort) or len(op.keys) != 1 or not isinstance(op.input, Scan):
        return False
    (key,), scan = op.keys, op.input
    layout = scan.source.layout if isinstance(scan.source, FileSource) else None
    whole = scan.predicate is None and not key.descending
    return whole and layout is not None and isinstance(key.expr, Column) and key.expr.name == layout.position
