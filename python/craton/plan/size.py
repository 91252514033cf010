"""How many rows an operator will produce: estimates, derived bottom-up beside the tree.

They start from what file metadata says and use fixed selectivities; whoever decides by them must stay correct when they
are wrong.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from craton.plan.expr import Call, Expr, conjuncts
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

UNKNOWN_ROWS = 1_000_000
_SELECTIVITY = {"eq": 0.1, "is_in": 0.2, "is_null": 0.1, "is_between": 0.25, "and": 0.25}

_estimates: WeakKeyDictionary[Operator, int] = WeakKeyDictionary()


def estimated_rows(op: Operator) -> int:
    """The number of rows that an operator is expected to produce."""
    known = _estimates.get(op)
    if known is None:
        known = _estimates[op] = _estimate(op)
    return known


def selectivity(predicate: Expr) -> float:
    """The share of rows that a predicate is expected to keep."""
    share = 1.0
    for part in conjuncts(predicate):
        share *= _SELECTIVITY.get(part.function, 0.4) if isinstance(part, Call) else 0.5
    return share


def _estimate(op: Operator) -> int:
    match op:
        case Scan():
            rows = getattr(op.source, "rows", None)
            rows = UNKNOWN_ROWS if rows is None else rows
            return rows if op.predicate is None else int(rows * selectivity(op.predicate))
        case Project() | RowNumber() | Sort() | Attach():
            return estimated_rows(op.input)
        case Filter():
            return int(estimated_rows(op.input) * selectivity(op.predicate))
        case Join():
            left, right = estimated_rows(op.left), estimated_rows(op.right)
            match op.how:
                case "cross":
                    return left * right
                case "semi" | "anti":
                    return left // 2
                case _:
                    return max(left, right)
        case Aggregate():
            return estimated_rows(op.input) // 10 if op.keys else 1
        case Distinct():
            return estimated_rows(op.input) // 10
        case Slice():
            rows = estimated_rows(op.input)
            return rows if op.length is None else min(rows, op.length)
        case Union():
            return sum(estimated_rows(part) for part in op.parts)
        case Unpivot():
            return estimated_rows(op.input) * len(op.values)
        case _:
            raise NotImplementedError(f"no size rule for {type(op).__name__}")
