"""Column pruning: every operator produces only the columns that something above reads."""

from __future__ import annotations

from collections.abc import Callable

from craton.plan.expr import roots
from craton.plan.operators import Operator, Project, Scan, schema
from craton.plan.visit import propagated_down, rewritten


def prune_columns(root: Operator, known: Callable[[Operator, set[str]], Operator | None] | None = None) -> Operator:
    """Drop columns that nothing reads, through every operator.

    Before: ``Aggregate[sum(x) by k](Filter[p > 0](Scan[k, x, p, q, r]))``;
    after: ``Aggregate[sum(x) by k](Filter[p > 0](Scan[k, x, p]))``.

    Always valid. An operator that several others read keeps the columns that any of them needs, so that it still runs once.
    Row numbers and windows that nothing reads are removed.

    Parameters
    ----------
    root
        The plan.
    known
        Given an operator and the columns that are needed of it: a replacement with at least these columns, or ``None``.
    """
    needed = needed_columns(root)

    def narrow(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
        return op.narrowed(needed[op], inputs)

    instead = {op: found for op in needed if (found := known(op, needed[op]))} if known is not None else {}
    result = rewritten(root, narrow, instead)
    names = tuple(schema(root))
    if tuple(schema(result)) != names:
        result = Project(result, tuple((name, result.column(name)) for name in names))
    return result


def needed_columns(root: Operator) -> dict[Operator, set[str]]:
    """For each operator of a plan, the columns that something above it reads; at least one, so that rows can be counted."""
    needed = propagated_down(
        root, set(schema(root)), lambda op, read: op.required(read or _carrier(op)), lambda one, other: one | other
    )
    return {op: read or _carrier(op) for op, read in needed.items()}


def _carrier(op: Operator) -> set[str]:
    """The one column to keep of an operator if none is needed: preferably one that has to be read anyway."""
    names = schema(op)
    read = (
        roots(op.predicate) if isinstance(op, Scan) and op.predicate is not None else set().union(*op.required(set()))
    )
    found = next((name for name in names if name in read), None)
    if found is None and len(op.inputs) == 1:
        found = next((name for name in _carrier(op.inputs[0]) if name in names), None)
    return {found} if found is not None else set(tuple(names)[:1])
