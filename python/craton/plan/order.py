"""Which operators' row order somebody can observe: derived top-down, beside the tree.

An operator keeps pandas' row order only where something above looks at it: the final result, a slice, a running sum,
the first row of a group. A join below ``groupby(sort=True)`` pays nothing for order.
"""

from __future__ import annotations

from craton.plan.expr import Window, walk
from craton.plan.operators import (
    Aggregate,
    Attach,
    Distinct,
    Filter,
    Join,
    Operator,
    Project,
    RowNumber,
    Scan,
    Slice,
    Sort,
    Union,
    Unpivot,
)


def topological(root: Operator) -> list[Operator]:
    """Every distinct operator once, each before its inputs."""
    order: list[Operator] = []
    state: set[Operator] = set()

    def visit(op: Operator) -> None:
        if op in state:
            return
        state.add(op)
        for child in op.inputs:
            visit(child)
        order.append(op)

    visit(root)
    return order[::-1]


def observed_order(root: Operator, observed: bool = True) -> dict[Operator, bool]:
    """For each operator whether the order of its rows can be observed.

    Parameters
    ----------
    root
        The plan.
    observed
        Whether whoever asked for the plan sees the order of its result.
    """
    needed: dict[Operator, bool] = {root: observed}
    for op in topological(root):
        for child, wanted in zip(op.inputs, _input_orders(op, needed.get(op, False)), strict=True):
            needed[child] = needed.get(child, False) or wanted
    return needed


def _input_orders(op: Operator, observed: bool) -> tuple[bool, ...]:
    match op:
        case Scan():
            return ()
        case Project():
            ordered = any(isinstance(node, Window) and node.ordered for _, expr in op.columns for node in walk(expr))
            return (observed or ordered,)
        case Filter() | Unpivot():
            return (observed,)
        case RowNumber() | Slice() | Attach():
            return (True,)
        case Join():
            return (observed, observed and op.how not in ("semi", "anti"))
        case Aggregate():
            ordered = any(call.ordered for _, call in op.aggregates)
            return (ordered or (observed and not op.sort),)
        case Sort():
            return (observed,)
        case Distinct():
            return (observed or op.keep in ("first", "last"),)
        case Union():
            return (observed,) * len(op.parts)
        case _:
            raise NotImplementedError(f"no order rule for {type(op).__name__}")
