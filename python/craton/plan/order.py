"""Which operators' row order somebody can observe: derived top-down, beside the tree.

An operator keeps pandas' row order only where something above looks at it: the final result, a slice, a running sum,
the first row of a group. A join below ``groupby(sort=True)`` pays nothing for order. What each operator needs it states
itself (:meth:`~craton.plan.protocol.Operator.needs_order`).
"""

from __future__ import annotations

from craton.plan.protocol import Operator
from craton.plan.visit import spread


def observed_order(root: Operator, observed: bool = True) -> dict[Operator, bool]:
    """For each operator whether the order of its rows can be observed.

    Parameters
    ----------
    root
        The plan.
    observed
        Whether whoever asked for the plan sees the order of its result.
    """
    return spread(root, observed, lambda op, seen: op.needs_order(seen), lambda one, other: one or other)
