"""Visitors of a plan; every pass uses one of them.

A plan is a graph without cycles: an operator that several others read is visited once, and its result is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Any, TypeVar

from craton.plan.protocol import Operator

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def topological(root: Operator) -> list[Operator]:
    """Every distinct operator once, each before its inputs."""
    order: list[Operator] = []
    seen: set[bytes] = set()  # digests, which are equal for equal operators and faster to look up
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


def propagated_down(
    root: Operator, start: T, step: Callable[[Operator, T], tuple[T, ...]], join: Callable[[T, T], T]
) -> dict[Operator, T]:
    """A top-down pass: a value for each operator, joined from what each operator that reads it passes down.

    Parameters
    ----------
    start
        The value of the root.
    step
        Given an operator and its value: the value that it passes to each of its inputs.
    join
        Combines two values, for an operator that several others read.
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
    """A bottom-up rewrite.

    Parameters
    ----------
    rule
        Given an original operator and its rewritten inputs: the replacement.
    instead
        Replacements of some operators; the rule is not called for these.
    """
    done: dict[Operator, Operator] = dict(instead or {})
    for op in reversed(topological(root)):
        if op not in done:
            done[op] = rule(op, tuple(done[child] for child in op.inputs))
    return done[root]


def rewritten_down(root: Operator, rule: Callable[[Operator], Operator | None]) -> Operator:
    """A top-down rewrite; the inputs of a replacement are visited next.

    Parameters
    ----------
    rule
        Given an operator: its replacement, or ``None`` to keep it.
    """

    def visit(op: Operator) -> Generator[Operator, Operator, Operator]:
        made = rule(op) or op
        inputs = []
        for child in made.inputs:
            inputs.append((yield child))
        return made.with_inputs(tuple(inputs))

    return unwound(visit)(root)


def unwound(step: Callable[[K], Generator[K, T, T]]) -> Callable[[K], T]:
    """A recursive function with one result for each key, whose depth Python's call stack does not limit.

    Parameters
    ----------
    step
        A generator function, which yields the keys whose results it needs, gets these, and returns the result.
    """
    done: dict[K, T] = {}

    def result(key: K) -> T:
        stack = [(key, step(key))]
        given: Any = None
        while stack:
            current, running = stack[-1]
            try:
                wanted = running.send(given)
            except StopIteration as finished:
                stack.pop()
                done[current] = given = finished.value
                continue
            given = done.get(wanted)
            if wanted not in done:
                stack.append((wanted, step(wanted)))
        return done[key]

    return result
