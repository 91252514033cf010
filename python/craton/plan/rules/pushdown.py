"""Predicate push-down, which drops rows as early as possible."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from craton.plan.expr import Expr, conjunction, conjuncts, may_raise, roots
from craton.plan.lengths import is_long
from craton.plan.operators import Filter, Operator, Scan
from craton.plan.visit import readers, unwound

#: An operator, and the conjuncts by which its rows are to be filtered.
_Pushed = tuple[Operator, tuple[Expr, ...]]


def push_predicates(root: Operator) -> Operator:
    """Move filters towards the scans, conjunct by conjunct.

    Before: ``Filter[a > 1 and b < 2](Join(A, B))``; after: ``Join(Filter[a > 1](A), Filter[b < 2](B))``.

    Valid where the operator allows it (:meth:`~craton.plan.protocol.Operator.below`): not through a window, a slice or a row
    number, whose results depend on the dropped rows, nor into a side of a join to which the join adds rows of nulls. Not done
    into an operator that something else reads too, which would then run twice; scans are an exception. A predicate that may
    raise an error is not moved below an operator that drops rows: the program never evaluated it for these.
    """
    count = readers(root)

    def push(key: _Pushed) -> Generator[_Pushed, Operator, Operator]:
        op, parts = key
        if parts and count[op] > 1 and not isinstance(op, Scan):
            return _filtered((yield op, ()), parts)
        if isinstance(op, Scan):
            return _into_scan(op, parts)
        if isinstance(op, Filter):
            above = [part for part in parts if may_raise(part)]
            through = [part for part in parts if part not in above]
            return _filtered((yield op.input, (*conjuncts(op.predicate), *through)), above)
        stay: list[Expr] = []
        moved: list[list[Expr]] = [[] for _ in op.inputs]
        for part in parts:
            places = op.below(part) if op.keeps_rows or not may_raise(part) else ()
            if not places:
                stay.append(part)
            for number, predicate in places:
                moved[number].append(predicate)
        inputs = []
        for child, found in zip(op.inputs, moved, strict=True):
            inputs.append((yield child, tuple(found)))
        return _filtered(op.with_inputs(tuple(inputs)), stay)

    return unwound(push)((root, ()))


def _filtered(op: Operator, parts: Sequence[Expr]) -> Operator:
    return Filter(op, conjunction(parts)) if parts else op


def _into_scan(op: Scan, parts: Sequence[Expr]) -> Operator:
    if not parts:
        return op
    if is_long(parts) or (op.row_number and any(op.row_number in roots(part) for part in parts)):
        return _filtered(op, parts)
    existing = [] if op.predicate is None else conjuncts(op.predicate)
    plain = [part for part in parts if not may_raise(part)]
    if len(plain) == len(parts) or not (existing or plain):
        return replace(op, predicate=conjunction([*existing, *parts]))
    scan = replace(op, predicate=conjunction([*existing, *plain]))
    return _filtered(scan, [part for part in parts if part not in plain])
