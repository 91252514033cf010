"""Joins neighbouring slices of one table that a union puts together again, as in loops that take a table apart."""

from __future__ import annotations

from craton.plan.expr import has_window
from craton.plan.operators import Operator, Project, Slice, Union
from craton.plan.visit import rewritten

__all__ = ["join_slices"]


def join_slices(root: Operator) -> Operator:
    """Make one slice of consecutive inputs of a union that are neighbouring slices of one input, or the same columns of such slices.

    Before: ``Union(Slice[0, 10](x), Slice[10, 5](x), y)``; after: ``Union(Slice[0, 15](x), y)``.

    Valid for slices that count from the start: if the input has fewer rows than the first slice takes, the second one has none.
    """
    return rewritten(root, _rewrite)


def _rewrite(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
    if not isinstance(op, Union):
        return op.with_inputs(inputs)
    parts = [inputs[0]]
    for part in inputs[1:]:
        joined = _joined(parts[-1], part)
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    if len(parts) == len(inputs):
        return op.with_inputs(inputs)
    return Union(tuple(parts)) if len(parts) > 1 else parts[0]


def _joined(left: Operator, right: Operator) -> Operator | None:
    """The rows of one operator and then those of another as one operator without a union; None if they are not neighbours."""
    if isinstance(left, Project) and isinstance(right, Project):
        if left.columns != right.columns or any(has_window(expr) for _, expr in left.columns):
            return None
        below = _joined(left.input, right.input)
        return None if below is None else Project(below, left.columns)
    if not isinstance(left, Slice) or not isinstance(right, Slice) or left.input != right.input:
        return None
    if left.offset < 0 or left.length is None or right.offset != left.offset + left.length:
        return None
    return Slice(left.input, left.offset, None if right.length is None else left.length + right.length)
