"""Which group-bys may have other last bits if they are computed again, because the kernel's threads add floats in any order."""

from __future__ import annotations

from collections.abc import Callable

from craton.plan.expr import dtype_of
from craton.plan.operators import Aggregate, AggregateCall, Operator
from craton.plan.rules.unnest import nested_plans

#: Aggregates that add floats if their argument is one, and aggregates that always do.
_SUMS, _MOMENTS = {"sum", "float_product"}, {"mean", "var", "std", "sem", "skew", "kurtosis"}


def is_uncertain(op: Operator) -> bool:
    """Whether an operator is a group-by whose aggregates can differ in their last bits if they are computed again."""
    return isinstance(op, Aggregate) and bool(op.keys) and any(map(_adds_floats, (call for _, call in op.aggregates)))


def _adds_floats(call: AggregateCall) -> bool:
    return call.function in _MOMENTS or (call.function in _SUMS and dtype_of(call.args[0]).is_float())


def uncertain_groups(root: Operator, is_computed: Callable[[Operator], bool] = lambda op: True) -> list[Operator]:
    """The topmost uncertain group-bys of a plan.

    Parameters
    ----------
    is_computed
        Whether an operator is computed. What is below others is not searched.
    """
    found: list[Operator] = []
    seen: set[Operator] = set()
    stack = [root]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if is_uncertain(op):
            found.append(op)
        elif is_computed(op):
            stack += (*op.inputs, *nested_plans(op))
    return found
