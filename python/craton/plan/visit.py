"""The visitors of a plan: every pass is one of these, over what operators state of themselves.

A plan is a graph: an operator that several others read is visited once, and whatever a pass makes of it is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar
from weakref import WeakKeyDictionary

from craton.plan.protocol import Operator

T = TypeVar("T")


def topological(root: Operator) -> list[Operator]:
    """Every distinct operator once, each before its inputs."""
    order: list[Operator] = []
    seen: set[bytes] = set()  # digests: equal for equal operators, and quick to look for
    stack: list[tuple[Operator, bool]] = [(root, False)]
    while stack:
        op, done = stack.pop()
        if done:
            order.append(op)
        elif op.digest not in seen:
            seen.add(op.digest)
            stack.append((op, True))
            for child in reversed(op.inputs):
                if child.digest not in seen:
                    stack.append((child, False))
    order.reverse()
    return order


def readers(root: Operator) -> Counter[Operator]:
    """How many operators read each operator."""
    return Counter(child for op in topological(root) for child in op.inputs)


def derived(rule: Callable[[Operator], T]) -> Callable[[Operator], T]:
    """Decorate a pass from the inputs up: a value of each operator, found once for as long as the operator lives.

    The rule calls the decorated function for the inputs.
    """
    known: WeakKeyDictionary[Operator, T] = WeakKeyDictionary()

    def value(op: Operator) -> T:
        if op not in known:
            known[op] = rule(op)
        return known[op]

    value.__doc__, value.__name__, value.__wrapped__ = rule.__doc__, rule.__name__, rule  # type: ignore[attr-defined]
    return value


def spread(
    root: Operator, start: T, step: Callable[[Operator, T], tuple[T, ...]], join: Callable[[T, T], T]
) -> dict[Operator, T]:
    """A pass from the root down: a value of each operator, of what all that read it say of it.

    Parameters
    ----------
    start
        The value of the root.
    step
        Given an operator and its value: what it says of each of its inputs.
    join
        One value of two, where several read an operator.
    """
    values = {root: start}
    for op in topological(root):
        for child, value in zip(op.inputs, step(op, values[op]), strict=True):
            values[child] = join(values[child], value) if child in values else value
    return values


def rewritten(
    root: Operator,
    rule: Callable[[Operator, tuple[Operator, ...]], Operator],
    instead: Mapping[Operator, Operator] | None = None,
) -> Operator:
    """A rewriting pass from the inputs up.

    Parameters
    ----------
    rule
        Given an operator as it was, and its rewritten inputs: what stands in its place.
    instead
        What stands in the place of some operators, whatever the rule says; it is taken as it is.
    """
    done: dict[Operator, Operator] = dict(instead or {})
    for op in reversed(topological(root)):
        if op not in done:
            done[op] = rule(op, tuple(done[child] for child in op.inputs))
    return done[root]


def rewritten_down(root: Operator, rule: Callable[[Operator], Operator | None]) -> Operator:
    """A rewriting pass from the root down: what the rule makes of an operator, or the operator, goes on to be visited below.

    Parameters
    ----------
    rule
        Given an operator: what stands in its place, or ``None``.
    """
    done: dict[Operator, Operator] = {}

    def visit(op: Operator) -> Operator:
        if op not in done:
            made = rule(op) or op
            done[op] = made.with_inputs(tuple(map(visit, made.inputs)))
        return done[op]

    return visit(root)
