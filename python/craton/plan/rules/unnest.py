"""Unnests subqueries: turns tests of membership in another plan into joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, Member, conjunction, conjuncts, dtype_of, replaced, walk
from craton.plan.names import HIDDEN
from craton.plan.operators import Distinct, Filter, Join, Operator, Project, Scan, schema
from craton.plan.protocol import mapped
from craton.plan.rules.pushdown import push_predicates
from craton.plan.visit import rewritten, topological


def unnest(root: Operator, done: dict[Operator, Operator] | None = None) -> Operator:
    """Replace every :class:`~craton.plan.expr.Member` by a join with its plan.

    ``Filter[k in (P)](A)`` becomes ``SemiJoin[k = p](A, P)``, and its negation an anti join. In any other place a left join
    with the distinct values of ``P`` adds a marker column, which is null if the value is not a member.

    Always valid: the joins do not repeat or reorder rows of ``A``, and drop only those that the filter drops. Filters are
    pushed down first, so that the join is placed where the filter would be. A plan without a ``Member`` is returned unchanged.

    Parameters
    ----------
    done
        The results for plans inside of ``Member``, which are computed once: in a chain of filters by membership, each plan is
        inside of all later ones.
    """
    if not any(_members(op) for op in topological(root)):
        return root
    known = {} if done is None else done
    if root not in known:
        known[root] = rewritten(push_predicates(root), partial(_unnested, done=known))
    return known[root]


def every_operator(root: Operator) -> list[Operator]:
    """The operators of a plan and of the plans inside its expressions, each once."""
    found = dict.fromkeys([root])
    stack = [root]
    while stack:
        for below in (*(op := stack.pop()).inputs, *nested_plans(op)):
            if below not in found:
                found[below] = None
                stack.append(below)
    return list(found)


def nested_plans(op: Operator) -> list[Operator]:
    """The plans in which an operator's expressions test membership."""
    return [member.plan for member in _members(op)]  # type: ignore[misc]


def with_nested_plans(root: Operator, change: Callable[[Operator], Operator]) -> Operator:
    """A plan in which every plan of a ``Member`` is replaced by ``change`` of it."""

    def rule(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
        replacing: dict[Expr, Expr] = {}
        for member in reversed(_members(op)):  # the innermost first
            value = replaced(member.value, replacing)
            replacing[member] = Member(value, change(member.plan))  # type: ignore[arg-type]
        return mapped(op, replacing, inputs)

    return rewritten(root, rule)


def _members(op: Operator) -> list[Member]:
    return [node for exprs in op.expressions for expr in exprs for node in walk(expr) if isinstance(node, Member)]


def _unnested(op: Operator, inputs: tuple[Operator, ...], done: dict[Operator, Operator]) -> Operator:
    if not _members(op):
        return op.with_inputs(inputs)
    if isinstance(op, (Scan, Filter)):
        assert op.predicate is not None
        parts = conjuncts(op.predicate)
        plain = [part for part in parts if not _has_member(part)]
        below: Operator
        if isinstance(op, Scan):
            below = replace(op, predicate=conjunction(plain) if plain else None)
        else:
            below = Filter(inputs[0], conjunction(plain)) if plain else inputs[0]
        return _filter(below, [part for part in parts if _has_member(part)], done)
    marked = [_marked(below, exprs, done) for below, exprs in zip(inputs, op.expressions, strict=True)]
    change = {member: mark for _, mapping in marked for member, mark in mapping.items()}
    return _narrowed(mapped(op, change, tuple(below for below, _ in marked)), tuple(schema(op)))


def _filter(below: Operator, parts: list[Expr], done: dict[Operator, Operator]) -> Operator:
    names = tuple(schema(below))
    rest: list[Expr] = []
    for part in parts:
        how: Any = "semi"
        inner = part
        while isinstance(inner, Call) and inner.function == "not":
            how = "anti" if how == "semi" else "semi"
            inner = inner.args[0]
        if isinstance(inner, Member) and not _has_member(inner.value):
            below = _joined(below, inner, how, done)
        else:
            rest.append(part)
    if not rest:
        return below
    marked, mapping = _marked(below, rest, done)
    return _narrowed(mapped(Filter(below, conjunction(rest)), mapping, (marked,)), names)


def _joined(below: Operator, member: Member, how: Any, done: dict[Operator, Operator]) -> Operator:
    plan = unnest(member.plan, done)  # type: ignore[arg-type]
    (column,) = schema(plan)
    return Join(below, plan, how, (member.value,), (plan.column(column),), nulls_equal=True)


def _marked(base: Operator, exprs: Sequence[Expr], done: dict[Operator, Operator]) -> tuple[Operator, dict[Expr, Expr]]:
    """The base with a marker column for each ``Member``, and the expressions that replace the ``Member``s."""
    mapping: dict[Expr, Expr] = {}
    pending = [node for expr in exprs for node in walk(expr) if isinstance(node, Member)]
    for member in reversed(pending):  # the innermost first
        if member in mapping:
            continue
        plan = unnest(member.plan, done)  # type: ignore[arg-type]
        (column,) = schema(plan)
        stem = f"{HIDDEN}in {member.digest.hex()[:16]}"
        key, mark = f"{stem} key", f"{stem} mark"
        right = Project(
            Distinct(Project(plan, ((key, plan.column(column)),)), (key,), keep="any"),
            ((key, Column(key, dtype_of(member.value))), (mark, Literal(True, pl.Boolean()))),
        )
        value = replaced(member.value, mapping)
        base = Join(base, right, "left", (value,), (right.column(key),), nulls_equal=True)
        mapping[member] = Call("fill_null", (base.column(mark), Literal(False, pl.Boolean())), pl.Boolean())
    return base, mapping


def _has_member(expr: Expr) -> bool:
    return any(isinstance(node, Member) for node in walk(expr))


def _narrowed(op: Operator, names: tuple[str, ...]) -> Operator:
    """The operator with exactly the columns that it had before the markers."""
    if tuple(schema(op)) == names:
        return op
    return Project(op, tuple((name, op.column(name)) for name in names))
