"""Before a plan is tiled: windows stand in projections only, so that one rule knows how to tile them."""

from __future__ import annotations

from dataclasses import replace

from craton.lower.tiled.tiles import columns_of, hidden_name, selected
from craton.plan.expr import Column, Expr, dtype_of, has_window
from craton.plan.operators import Aggregate, Filter, Join, Operator, Project, Scan, Sort, schema


def separate_windows(root: Operator) -> Operator:
    """Compute every expression with windows in a projection below the operator that reads it.

    Before: ``Aggregate[sum(shift(x))](A)``; after: ``Aggregate[sum(w)](Project[…, w = shift(x)](A))``. Always valid.
    """
    done: dict[Operator, Operator] = {}

    def visit(op: Operator) -> Operator:
        if op not in done:
            done[op] = _separated(op.with_inputs(tuple(map(visit, op.inputs))))
        return done[op]

    return visit(root)


class _Taken:
    """Expressions that are computed below, and what stands for them."""

    def __init__(self) -> None:
        self.columns: dict[Expr, str] = {}

    def __call__(self, expr: Expr) -> Expr:
        if not has_window(expr):
            return expr
        name = self.columns.setdefault(expr, hidden_name())
        return Column(name, dtype_of(expr))

    def under(self, op: Operator) -> Operator:
        computed = [(name, expr) for expr, name in self.columns.items()]
        return Project(op, (*columns_of(op, schema(op)), *computed)) if computed else op


def _separated(op: Operator) -> Operator:
    taken = _Taken()
    match op:
        case Aggregate():
            keys = tuple((name, taken(expr)) for name, expr in op.keys)
            calls = tuple((name, replace(call, args=tuple(map(taken, call.args)))) for name, call in op.aggregates)
            return replace(op, input=taken.under(op.input), keys=keys, aggregates=calls) if taken.columns else op
        case Filter() if has_window(op.predicate):
            predicate = taken(op.predicate)
            return selected(Filter(taken.under(op.input), predicate), schema(op))
        case Scan() if op.predicate is not None and has_window(op.predicate):
            predicate = taken(op.predicate)
            names = dict.fromkeys([*op.columns, *(name for name, _ in op.source.columns)])
            every = replace(op, columns=tuple(names), predicate=None)
            return selected(Filter(taken.under(every), predicate), schema(op))
        case Sort():
            sort = tuple(replace(key, expr=taken(key.expr)) for key in op.keys)
            return selected(Sort(taken.under(op.input), sort), schema(op)) if taken.columns else op
        case Join():
            ours, theirs = _Taken(), _Taken()
            left_on, right_on = tuple(map(ours, op.left_on)), tuple(map(theirs, op.right_on))
            if not ours.columns and not theirs.columns:
                return op
            left, right = ours.under(op.left), theirs.under(op.right)
            return selected(replace(op, left=left, right=right, left_on=left_on, right_on=right_on), schema(op))
        case _:
            return op
