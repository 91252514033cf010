"""Takes the numbers of rows from the column in which a partitioned set stores them."""

from __future__ import annotations

from craton.plan.expr import Call, Column, Expr
from craton.plan.operators import Operator, Project, RowNumber, Scan, Sort, schema
from craton.plan.sources import FileLayout, FileSource
from craton.plan.visit import rewritten

__all__ = ["keep_stored_order", "number_by_position", "sorted_layout"]


def number_by_position(root: Operator) -> Operator:
    """Do not count rows that are sorted by their numbers, so that filters can be pushed below.

    Before: ``RowNumber #row(Sort position(Scan))``; after: ``Project #row = cast(position), …(Sort position(Scan))``.

    Valid if the scan reads all rows of files whose layout has that column as the position: it has each number from 0 on once.
    """
    return rewritten(root, _numbered)


def keep_stored_order(root: Operator) -> Operator:
    """Do not sort rows by their numbers that are read in that order. Before: ``Sort position(Scan)``; after: ``Scan``.

    Valid if the layout of the files says that they have the rows in order: then any selection of them is in order, too.
    """
    return rewritten(root, _unsorted)


def _numbered(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
    layout = sorted_layout(op.input) if isinstance(op, RowNumber) else None
    if not isinstance(op, RowNumber) or not isinstance(op.input, Sort) or layout is None:
        return op.with_inputs(inputs)
    if isinstance(op.input.input, Scan) and op.input.input.predicate is not None:
        return op.with_inputs(inputs)
    dtypes = schema(op)
    (number,) = op.input.keys

    def value(name: str) -> Expr:
        if name == op.name:
            return Call("cast", (number.expr,), dtypes[name])
        return Column(name, dtypes[name])

    return Project(inputs[0], tuple((name, value(name)) for name in dtypes))


def _unsorted(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
    layout = sorted_layout(op)
    return inputs[0] if layout is not None and layout.in_order else op.with_inputs(inputs)


def sorted_layout(op: Operator) -> FileLayout | None:
    """The layout of the files that a sort reads, if it sorts rows of theirs by their positions."""
    if not isinstance(op, Sort) or len(op.keys) != 1 or not isinstance(op.input, Scan):
        return None
    (key,), source = op.keys, op.input.source
    layout = source.layout if isinstance(source, FileSource) else None
    if layout is None or key.descending or not isinstance(key.expr, Column) or key.expr.name != layout.position:
        return None
    return layout
