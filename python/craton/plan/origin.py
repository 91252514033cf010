"""Where a column comes from."""

from __future__ import annotations

from collections.abc import Collection

from craton.plan.expr import Column
from craton.plan.operators import Aggregate, Distinct, Filter, Join, JoinHow, Operator, Project, Scan, Window, schema

_INNER: tuple[JoinHow, ...] = ("inner",)


def origin(
    op: Operator, name: str, *, joins: Collection[JoinHow] = _INNER, groups: bool = False
) -> tuple[Scan, str] | None:
    """The scan that a column's values come from as they are, and its name there; ``None`` if they are computed on the way.

    Parameters
    ----------
    op, name
        The operator, and which of its columns.
    joins
        Through which kinds of joins it is followed: through an inner one to either side, through others to the left.
    groups
        Whether keys of groups and distinct rows are followed to what is grouped.
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
