"""Semi-join reduction: a group-by below a join groups only the rows whose keys occur on the join's other side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from craton.plan.expr import Column, Expr, substitute
from craton.plan.names import HIDDEN
from craton.plan.operators import Aggregate, Distinct, Filter, Join, Operator, Project, schema
from craton.plan.size import estimate
from craton.plan.visit import readers, rewritten, topological

#: The other side of the join must have at most this share of the number of rows that are grouped,
SMALL_SHARE = 0.1
#: and filters must keep at most this share of its own rows; otherwise it contains most of the keys.
FILTERED_SHARE = 0.5
#: The rules do not apply to group-bys of fewer rows.
LARGE_ROWS = 100_000


def delay_semi_joins(root: Operator) -> Operator:
    """Move a semi join with a group-by's result above an inner join with a filtered table.

    ``Join[a = b](SemiJoin[k = v](L, Aggregate(…)), R)`` becomes ``SemiJoin[k = v](Join[a = b](L, R), Aggregate(…))``, and the
    same for anti joins and through projections to columns.

    Always valid for an inner join, since both joins keep or drop rows of ``L`` by the values in ``L``. Done where ``R`` is
    filtered and the semi join's right side contains a group-by of many rows: fewer rows are then probed, and
    :func:`restrict_groups` can reduce the group-by.
    """
    return _bottom_up(root, _delay)


def restrict_groups(root: Operator) -> Operator:
    """Group only the rows whose keys occur on the other side of a join.

    ``Join[k = g](L, Aggregate[by g](X))`` becomes ``Join[k = g](L, Aggregate[by g](SemiJoin[x_g = k](X, L)))``.

    Valid where the join drops groups without a match in ``L`` (inner, semi, anti; left if the groups are on the right), and
    the join keys are among the group keys: whole groups are removed, and the others are unchanged. Done where ``L`` is
    estimated to have far fewer rows than ``X``. ``L`` is shared by both joins and runs once.
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
    # Above the projection the keys have other names. A key that the projection drops prevents the rewrite.
    renamed = {expr.name: name for name, expr in names.items() if isinstance(expr, Column)}
    if any(key.name not in renamed for key in below.left_on if isinstance(key, Column)):
        return op
    keys = tuple(Column(renamed[key.name], key.dtype) for key in below.left_on if isinstance(key, Column))
    projected = Project(below.left, tuple(names.items()))
    inner = _delay_again(replace(op, left=projected))
    return replace(below, left=inner, left_on=keys)


def _delay_again(join: Join) -> Operator:
    """Delay a second semi join below the first."""
    return _delay(join, join, Counter({join.left: 1}))


def _grouped(op: Operator) -> bool:
    return any(
        isinstance(node, (Aggregate, Distinct)) and estimate(node.input).rows >= LARGE_ROWS for node in topological(op)
    )


def _restrict(original: Operator, op: Operator, count: Counter[Operator]) -> Operator:
    if not isinstance(op, Join):
        return op
    if op.how in ("inner", "left", "semi", "anti") and _has_one_reader(original.inputs[1], count):
        right = _narrowed(op.right, op.right_on, op.left, op.left_on, op.nulls_equal)
        if right is not None:
            return replace(op, right=right)
    if op.how in ("inner", "right", "semi") and _has_one_reader(original.inputs[0], count):
        left = _narrowed(op.left, op.left_on, op.right, op.right_on, op.nulls_equal)
        if left is not None:
            return replace(op, left=left)
    return op


def _narrowed(
    side: Operator, on: tuple[Expr, ...], other: Operator, other_on: tuple[Expr, ...], nulls_equal: bool
) -> Operator | None:
    """A side whose group-by is restricted to the other side's keys; ``None`` without a group-by or without a gain."""
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
    rows, other_size = estimate(op.input).rows, estimate(other)
    if rows < LARGE_ROWS or other_size.rows > rows * SMALL_SHARE or other_size.share > FILTERED_SHARE:
        return None
    if _is_restricted(op.input):
        return None
    names = tuple(f"{HIDDEN}other key {i}" for i in range(len(keys)))
    other_keys = Project(other, tuple(zip(names, other_on, strict=True)))
    restricted = Join(
        op.input,
        other_keys,
        "semi",
        tuple(group_keys[key.name] for key in keys if isinstance(key, Column)),
        tuple(Column(name, schema(other_keys)[name]) for name in names),
        nulls_equal,
    )
    result: Operator = replace(op, input=restricted)
    for step in reversed(path):
        result = step.with_inputs((result,))
    return result


def _has_one_reader(op: Operator, count: Counter[Operator]) -> bool:
    """Whether nothing else reads the group-by below, so that restricting it does not make it run twice."""
    while isinstance(op, (Project, Filter)) and count[op] == 1:
        op = op.input
    return isinstance(op, Aggregate) and count[op] == 1


def _is_restricted(op: Operator) -> bool:
    """Whether the rows are restricted by a semi join already."""
    while isinstance(op, (Project, Filter)):
        op = op.input
    return isinstance(op, Join) and op.how == "semi"
