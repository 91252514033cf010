"""Membership in another plan becomes a join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, Member, conjunction, conjuncts, dtype_of, rebuild, walk
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Operator,
    Project,
    Scan,
    Sort,
    SortKey,
    schema,
)
from craton.plan.order import topological
from craton.plan.rules.pushdown import push_predicates


def unnest(root: Operator) -> Operator:
    """Replace every :class:`~craton.plan.expr.Member` by a join with the plan that it asks.

    ``Filter[k in (P)](A)`` becomes ``SemiJoin[k = p](A, P)``, and ``not`` an anti join; anywhere else a left join with
    the distinct values of ``P`` brings a marker column, which is null where the value is no member.

    Always valid: neither join drops, repeats or reorders rows of ``A`` otherwise. Filters are pushed first, so that the
    join stands where the filter would; a plan without a membership comes back as it is.
    """
    if not any(_members(op) for op in topological(root)):
        return root
    done: dict[Operator, Operator] = {}

    def visit(op: Operator) -> Operator:
        if op not in done:
            done[op] = _unnest(op, op.with_inputs(tuple(visit(child) for child in op.inputs)) if op.inputs else op)
        return done[op]

    return visit(push_predicates(root))


def nested_plans(op: Operator) -> list[Operator]:
    """The plans that an operator's expressions ask for membership."""
    return [member.plan for member in _members(op)]  # type: ignore[misc]


def _expressions(op: Operator) -> list[Expr]:
    match op:
        case Scan():
            return [] if op.predicate is None else [op.predicate]
        case Filter():
            return [op.predicate]
        case Project():
            return [expr for _, expr in op.columns]
        case Aggregate():
            return [expr for _, expr in op.keys] + [arg for _, call in op.aggregates for arg in call.args]
        case Sort():
            return [key.expr for key in op.keys]
        case Join():
            return [*op.left_on, *op.right_on]
        case _:
            return []


def _members(op: Operator) -> list[Member]:
    return [node for expr in _expressions(op) for node in walk(expr) if isinstance(node, Member)]


def _unnest(original: Operator, op: Operator) -> Operator:
    if not _members(original):
        return op
    if isinstance(op, Scan):
        assert op.predicate is not None
        parts = conjuncts(op.predicate)
        plain = [part for part in parts if not _has_member(part)]
        scan = replace(op, predicate=conjunction(plain) if plain else None)
        return _filter(scan, [part for part in parts if _has_member(part)])
    if isinstance(op, Filter):
        parts = conjuncts(op.predicate)
        plain = [part for part in parts if not _has_member(part)]
        below = Filter(op.input, conjunction(plain)) if plain else op.input
        return _filter(below, [part for part in parts if _has_member(part)])
    names = tuple(schema(op))
    if isinstance(op, Join):
        left, left_map = _marked(op.left, list(op.left_on))
        right, right_map = _marked(op.right, list(op.right_on))
        op = replace(
            op,
            left=left,
            right=right,
            left_on=tuple(_replaced(key, left_map) for key in op.left_on),
            right_on=tuple(_replaced(key, right_map) for key in op.right_on),
        )
        return _narrowed(op, names)
    base, mapping = _marked(op.input, _expressions(op))  # type: ignore[attr-defined]
    return _narrowed(_with_expressions(op, base, mapping), names)


def _with_expressions(op: Operator, base: Operator, mapping: dict[Member, Expr]) -> Operator:
    match op:
        case Project():
            return Project(base, tuple((name, _replaced(expr, mapping)) for name, expr in op.columns))
        case Aggregate():
            calls = tuple(
                (name, AggregateCall(c.function, tuple(_replaced(a, mapping) for a in c.args), c.dtype, c.options))
                for name, c in op.aggregates
            )
            return Aggregate(base, tuple((name, _replaced(expr, mapping)) for name, expr in op.keys), calls, op.sort)
        case Sort():
            return Sort(base, tuple(SortKey(_replaced(k.expr, mapping), k.descending, k.nulls_last) for k in op.keys))
        case _:
            raise NotImplementedError(f"no membership rule for {type(op).__name__}")


def _filter(below: Operator, parts: list[Expr]) -> Operator:
    names = tuple(schema(below))
    rest: list[Expr] = []
    for part in parts:
        how: Any = "semi"
        inner = part
        while isinstance(inner, Call) and inner.function == "not":
            how = "anti" if how == "semi" else "semi"
            inner = inner.args[0]
        if isinstance(inner, Member) and not _has_member(inner.value):
            below = _joined(below, inner, how)
        else:
            rest.append(part)
    if not rest:
        return below
    marked, mapping = _marked(below, rest)
    return _narrowed(Filter(marked, conjunction([_replaced(part, mapping) for part in rest])), names)


def _joined(below: Operator, member: Member, how: Any) -> Operator:
    plan = unnest(member.plan)  # type: ignore[arg-type]
    (column,) = schema(plan)
    return Join(below, plan, how, (member.value,), (plan.column(column),), nulls_equal=True)


def _marked(base: Operator, exprs: list[Expr]) -> tuple[Operator, dict[Member, Expr]]:
    """The base with a marker column for each membership, and what stands for them."""
    mapping: dict[Member, Expr] = {}
    pending = [node for expr in exprs for node in walk(expr) if isinstance(node, Member)]
    for member in reversed(pending):  # the innermost first
        if member in mapping:
            continue
        plan = unnest(member.plan)  # type: ignore[arg-type]
        (column,) = schema(plan)
        stem = f"__in_{member.digest.hex()[:12]}"
        key, mark = f"{stem}_key", f"{stem}_mark"
        right = Project(
            Distinct(Project(plan, ((key, plan.column(column)),)), (key,), keep="any"),
            ((key, Column(key, dtype_of(member.value))), (mark, Literal(True, pl.Boolean()))),
        )
        base = Join(base, right, "left", (_replaced(member.value, mapping),), (right.column(key),), nulls_equal=True)
        mapping[member] = Call("fill_null", (base.column(mark), Literal(False, pl.Boolean())), pl.Boolean())
    return base, mapping


def _replaced(expr: Expr, mapping: dict[Member, Expr]) -> Expr:
    if isinstance(expr, Member):
        return mapping[expr]
    return rebuild(expr, lambda child: _replaced(child, mapping))


def _has_member(expr: Expr) -> bool:
    return any(isinstance(node, Member) for node in walk(expr))


def _narrowed(op: Operator, names: tuple[str, ...]) -> Operator:
    """The operator with exactly the columns that it had before the markers."""
    if tuple(schema(op)) == names:
        return op
    return Project(op, tuple((name, op.column(name)) for name in names))
