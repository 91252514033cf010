"""Predicate push-down: rows are dropped as early as they can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from craton.plan.expr import Expr, conjunction, conjuncts, has_window, roots, substitute
from craton.plan.operators import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Operator,
    Project,
    RowNumber,
    Scan,
    Sort,
    Union,
    Unpivot,
    schema,
)
from craton.plan.order import topological

_Push = Callable[[Operator, list[Expr]], Operator]


def push_predicates(root: Operator) -> Operator:
    """Move filters towards the scans, conjunct by conjunct.

    Before: ``Filter[a > 1 and b < 2](Join(A, B))``; after: ``Join(Filter[a > 1](A), Filter[b < 2](B))``.

    Not valid, and not done: through a window, a slice or a row number (they see the dropped rows), into the side of a
    join that fills in missing rows, and into an operator that something else reads too (it would run twice), scans
    excepted.
    """
    readers = Counter(child for op in topological(root) for child in op.inputs)
    done: dict[tuple[Operator, tuple[Expr, ...]], Operator] = {}

    def push(op: Operator, parts: list[Expr]) -> Operator:
        key = (op, tuple(parts))
        if key not in done:
            if parts and readers[op] > 1 and not isinstance(op, Scan):
                done[key] = _filtered(push(op, []), parts)
            else:
                done[key] = _push(op, parts, push)
        return done[key]

    return push(root, [])


def _filtered(op: Operator, parts: list[Expr]) -> Operator:
    return Filter(op, conjunction(parts)) if parts else op


def _push(op: Operator, parts: list[Expr], push: _Push) -> Operator:
    match op:
        case Filter():
            return push(op.input, [*conjuncts(op.predicate), *parts])
        case Scan():
            if not parts:
                return op
            if op.row_number and any(op.row_number in roots(part) for part in parts):
                return _filtered(op, parts)
            existing = conjuncts(op.predicate) if op.predicate is not None else []
            return replace(op, predicate=conjunction([*existing, *parts]))
        case Project():
            if op.windowed:
                return _filtered(op.with_inputs((push(op.input, []),)), parts)
            mapping = dict(op.columns)
            return op.with_inputs((push(op.input, [substitute(part, mapping) for part in parts]),))
        case Sort() | Unpivot() | Distinct() | Aggregate():
            if isinstance(op, Unpivot):
                movable = set(op.keep)
            elif isinstance(op, Distinct):
                movable = set(op.subset)
            elif isinstance(op, Aggregate):
                movable = {name for name, _ in op.keys}
            else:
                movable = set(schema(op))
            down = [part for part in parts if roots(part) and roots(part) <= movable and not has_window(part)]
            stay = [part for part in parts if part not in down]
            if isinstance(op, Aggregate):
                below = [substitute(part, dict(op.keys)) for part in down]
            else:
                below = down
            return _filtered(op.with_inputs((push(op.input, below),)), stay)
        case Join():
            return _push_join(op, parts, push)
        case Union():
            return Union(tuple(push(part, list(parts)) for part in op.parts))
        case RowNumber():
            return _filtered(op.with_inputs((push(op.input, []),)), parts)
        case _:
            return _filtered(op.with_inputs(tuple(push(child, []) for child in op.inputs)), parts)


def _push_join(op: Join, parts: list[Expr], push: _Push) -> Operator:
    left_names, right_names = set(schema(op.left)), set(schema(op.right))
    left: list[Expr] = []
    right: list[Expr] = []
    stay: list[Expr] = []
    for part in parts:
        names = roots(part)
        if names and names <= left_names and op.how in ("inner", "left", "semi", "anti", "cross"):
            left.append(part)
        elif names and names <= right_names and op.how in ("inner", "right", "cross"):
            right.append(part)
        else:
            stay.append(part)
    return _filtered(op.with_inputs((push(op.left, left), push(op.right, right))), stay)
