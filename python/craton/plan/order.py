"""Determines which operators must produce their rows in order; derived top-down, beside the tree.

An operator keeps pandas' row order only if something above it depends on the order: the final result, a slice, a running
sum, the first row of a group. A join below ``groupby(sort=True)`` may return its rows in any order, which is cheaper. Each
operator declares what it needs (:meth:`~craton.plan.protocol.Operator.needs_order`).
"""

from __future__ import annotations

from craton.plan.protocol import Operator
from craton.plan.visit import propagated_down


def observed_order(root: Operator, observed: bool = True) -> dict[Operator, bool]:
    """For each operator, whether the order of its rows can be observed.

    Parameters
    ----------
    root
        The plan.
    observed
        Whether the order of the plan's result is observed.
    """
    return propagated_down(root, observed, lambda op, seen: op.needs_order(seen), lambda one, other: one or other)
