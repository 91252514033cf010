"""Joins tell the group-bys beside them which keys matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from craton.plan.expr import Column, Expr, substitute
from craton.plan.names import HIDDEN
from craton.plan.operators import Aggregate, Distinct, Filter, Join, Operator, Project, schema
from craton.plan.size import estimate
from craton.plan.visit import readers, rewritten, topological

#: A side is worth asking if it has at most this share of the rows that are grouped,
SMALL_SHARE = 0.1
#: and filters have left at most this share of its own rows: else it has most of the keys.
FILTERED_SHARE = 0.5
#: Group-bys of fewer rows are left alone.
LARGE_ROWS = 100_000


def delay_semi_joins(root: Operator) -> Operator:
    """Join with selective tables first, and ask for membership in a group-by's result afterwards.

    ``Join[a = b](SemiJoin[k = v](L, Aggregate(…)), R)`` becomes ``SemiJoin[k = v](Join[a = b](L, R), Aggregate(…))``, and the
    same for anti joins and through projections to columns.

    Always valid for an inner join, since both keep or drop rows of ``L`` by their own values. Done where ``R`` is filtered and
    the other side groups or joins, so that fewer rows ask, and :func:`restrict_groups` can make it smaller.
    """
    return _bottom_up(root, _delay)


def restrict_groups(root: Operator) -> Operator:
    """Group only rows whose keys the other side of a join has.

    ``Join[k = g](L, Aggregate[by g](X))`` becomes ``Join[k = g](L, Aggregate[by g](SemiJoin[x_g = k](X, L)))``.

    Valid where the join drops groups without a match on ``L`` (inner, semi, anti; left if the groups are on the right), and the
    join's keys are among the group's: whole groups fall away, the rest are the same. Done where ``L`` is expected to have
    far fewer rows than ``X``; ``L`` is shared, not run twice.
    """
    return _bottom_up(root, _restrict)


def _bottom_up(root: Operator, rewrite: Callable[[Operator, Operator, Counter[Operator]], Operator]) -> Operator:
    count = readers(root)
    return rewritten(root, lambda op, inputs: rewrite(op, op.with_inputs(inputs), count))


def _delay(original: Operator, op: Operator, count: Counter[Operator]) -> Operator:
    if not isinstance(op, Join) or op.how != "inner" or count[original.inputs[0]] != 1:
        return op
    if estimate(op.right).share >= 1:
        return op
    names: dict[str, Expr] | None = None
    below = op.left
    if isinstance(below, Project) and all(isinstance(expr, Column) for _, expr in below.columns):
        names = dict(below.columns)
        below = below.input
    if not isinstance(below, Join) or below.how not in ("semi", "anti") or not _grouped(below.right):
        return op
    if not all(isinstance(key, Column) for key in below.left_on):
        return op
    if names is None:
        inner = _delay_again(replace(op, left=below.left))
        return replace(below, left=inner)
    # Above the projection the keys have other names; a key that it drops is carried along.
    renamed = {expr.name: name for name, expr in names.items() if isinstance(expr, Column)}
    if any(key.name not in renamed for key in below.left_on if isinstance(key, Column)):
        return op
    keys = tuple(Column(renamed[key.name], key.dtype) for key in below.left_on if isinstance(key, Column))
    projected = Project(below.left, tuple(names.items()))
    inner = _delay_again(replace(op, left=projected))
    return replace(below, left=inner, left_on=keys)


def _delay_again(join: Join) -> Operator:
    """The same for a second membership below the first."""
    return _delay(join, join, Counter({join.left: 1}))


def _grouped(op: Operator) -> bool:
    return any(
        isinstance(node, (Aggregate, Distinct)) and estimate(node.input).rows >= LARGE_ROWS for node in topological(op)
    )


def _restrict(original: Operator, op: Operator, count: Counter[Operator]) -> Operator:
    if not isinstance(op, Join):
        return op
    if op.how in ("inner", "left", "semi", "anti") and _alone(original.inputs[1], count):
        right = _narrowed(op.right, op.right_on, op.left, op.left_on, op.nulls_equal)
        if right is not None:
            return replace(op, right=right)
    if op.how in ("inner", "right", "semi") and _alone(original.inputs[0], count):
        left = _narrowed(op.left, op.left_on, op.right, op.right_on, op.nulls_equal)
        if left is not None:
            return replace(op, left=left)
    return op


def _narrowed(
    side: Operator, on: tuple[Expr, ...], other: Operator, other_on: tuple[Expr, ...], nulls_equal: bool
) -> Operator | None:
    """The side with a group-by in it restricted to the other side's keys; ``None`` if there is none, or no gain."""
    path: list[Operator] = []
    keys = list(on)
    op = side
    while isinstance(op, (Project, Filter)):
        if isinstance(op, Project):
            mapping = dict(op.columns)
            keys = [substitute(key, mapping) for key in keys]
        path.append(op)
        op = op.input
    if not isinstance(op, Aggregate) or not op.keys:
        return None
    group_keys = dict(op.keys)
    chosen = [i for i, key in enumerate(keys) if isinstance(key, Column) and key.name in group_keys]
    if not chosen or len(chosen) != len(keys):
        return None
    rows, asking_side = estimate(op.input).rows, estimate(other)
    if rows < LARGE_ROWS or asking_side.rows > rows * SMALL_SHARE or asking_side.share > FILTERED_SHARE:
        return None
    if _asks(op.input):
        return None
    names = tuple(f"{HIDDEN}asked key {i}" for i in range(len(keys)))
    asking = Project(other, tuple(zip(names, other_on, strict=True)))
    restricted = Join(
        op.input,
        asking,
        "semi",
        tuple(group_keys[key.name] for key in keys if isinstance(key, Column)),
        tuple(Column(name, schema(asking)[name]) for name in names),
        nulls_equal,
    )
    result: Operator = replace(op, input=restricted)
    for step in reversed(path):
        result = step.with_inputs((result,))
    return result


def _alone(op: Operator, count: Counter[Operator]) -> bool:
    """Whether nothing else reads the group-by below, so that changing it makes nothing run twice."""
    while isinstance(op, (Project, Filter)) and count[op] == 1:
        op = op.input
    return isinstance(op, Aggregate) and count[op] == 1


def _asks(op: Operator) -> bool:
    """Whether rows are restricted already."""
    while isinstance(op, (Project, Filter)):
        op = op.input
    return isinstance(op, Join) and op.how == "semi"
