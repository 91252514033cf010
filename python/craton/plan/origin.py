"""Traces columns and rows back to the operators that they come from."""

from __future__ import annotations

from collections.abc import Collection

from craton.plan.expr import Column
from craton.plan.operators import (
    Aggregate,
    Attach,
    Distinct,
    Filter,
    Join,
    JoinHow,
    Operator,
    Project,
    RowNumber,
    Scan,
    Slice,
    Sort,
    Window,
    schema,
)

_INNER: tuple[JoinHow, ...] = ("inner",)


def same_rows(op: Operator) -> Operator | None:
    """The input of an operator that only adds, computes or drops columns, so that it has the same rows in the same order."""
    return op.input if isinstance(op, (Project, Window, RowNumber, Attach)) else None


def origin(
    op: Operator, name: str, *, joins: Collection[JoinHow] = _INNER, groups: bool = False, positions: bool = False
) -> tuple[Scan, str] | None:
    """The scan that a column comes from unchanged, and its name there; ``None`` if an operator in between computes it.

    Parameters
    ----------
    op, name
        The operator, and which of its columns.
    joins
        The kinds of joins to trace through: an inner join to either side, the others to the left side only.
    groups
        Whether to trace group keys and distinct rows to the grouping's input.
    positions
        Whether to trace through operators that number, sort or select rows by position.
    """
    while not isinstance(op, Scan):
        match op:
            case Project():
                expr = dict(op.columns)[name]
                if not isinstance(expr, Column):
                    return None
                op, name = op.input, expr.name
            case Window() if name in dict(op.columns):
                return None
            case Filter() | Window():
                op = op.input
            case Join() if op.how in joins:
                if name not in schema(op.left) and op.how != "inner":
                    return None
                op = op.left if name in schema(op.left) else op.right
            case RowNumber() if positions and name != op.name:
                op = op.input
            case Sort() | Slice() if positions:
                op = op.input
            case Aggregate() if groups and name in dict(op.keys):
                expr = dict(op.keys)[name]
                if not isinstance(expr, Column):
                    return None
                op, name = op.input, expr.name
            case Distinct() if groups:
                op = op.input
            case _:
                return None
    return op, name
