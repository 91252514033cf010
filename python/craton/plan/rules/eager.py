"""Eager aggregation, which groups rows before they are joined, and joins of filtered tables first."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, dtype_of, has_unique_representation, roots
from craton.plan.names import HIDDEN
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project, schema
from craton.plan.rules.late_materialisation import COMBINED, below_projections
from craton.plan.size import estimate
from craton.plan.visit import readers, rewritten, rewritten_down, topological
from craton.records import dataclass

#: The rules do not apply to inputs of fewer rows.
LARGE_ROWS = 100_000
#: A side is grouped first if it has at least this many rows for each row of the other side.
ROWS_A_PARTNER = 4
#: A side counts as filtered if filters keep at most this share of its rows.
FILTERED_SHARE = 0.5

_Calls = tuple[tuple[str, AggregateCall], ...]


def join_filtered_first(root: Operator) -> Operator:
    """Join a table with the smaller of its two partners first.

    ``Join[o.x = c](Join[a = o](A, O), C)`` becomes ``Join[a = o](A, Join[o.x = c](O, C))``.

    Always valid for inner joins. They are associative, and that includes duplicates, null keys and the row order (by ``A``,
    then ``O``, then ``C``). Done where ``C`` is filtered and has fewer rows than ``A``, and ``O`` joined with ``C`` is not
    estimated to be much larger than ``A`` joined with ``O``: the smaller hash table is faster to build and to probe, and
    fewer rows of ``O`` remain.
    """
    count = readers(root)
    return rewritten(root, lambda op, inputs: _joined_first(op, op.with_inputs(inputs), count))


def _joined_first(original: Operator, op: Operator, count: Counter[Operator]) -> Operator:
    if not isinstance(op, Join) or op.how != "inner" or count[original.inputs[0]] != 1:
        return op
    below, filtered = op.left, estimate(op.right)
    if not isinstance(below, Join) or below.how != "inner" or filtered.share > FILTERED_SHARE:
        return op
    if not set().union(*map(roots, op.left_on)) <= schema(below.right).keys():
        return op
    first = Join(below.right, op.right, "inner", op.left_on, op.right_on, op.nulls_equal)
    rows, large = estimate(below.left).rows, estimate(below).rows
    if filtered.rows >= rows or large < LARGE_ROWS or estimate(first).rows > 2 * large:
        return op
    return Join(below.left, first, "inner", below.left_on, below.right_on, below.nulls_equal)


def group_before_joins(root: Operator) -> Operator:
    """Group the rows of a join's right side by the join key before the join.

    ``Aggregate[sum(r) by l](Join[l = k](L, R))`` becomes ``Aggregate[sum(p) by l](Join[l = k](L, Aggregate[p = sum(r) by k](R)))``.

    Valid for aggregates that can be computed in parts, of columns of ``R``, grouped by columns of ``L``: each row of ``L``
    joins with one partial aggregate instead of the rows that it stands for. Equal keys must be identical, which floats are
    not (0.0 and -0.0). In a left join a row without a match has a null partial aggregate, which is skipped as null values
    would be.

    Done where the rows are grouped by the join key alone and there are several for each row of ``L``, and wherever the plan
    contains the same group-by already. If a semi join restricts ``L`` to some of these groups, only these are joined.
    """
    known = _known_groups(root)
    return rewritten_down(root, lambda op: _grouped_first(op, known) if isinstance(op, Aggregate) else None)


@dataclass(frozen=True, slots=True)
class _Groups:
    """A group-by: the operator, its key column, and the column of each aggregate."""

    op: Operator
    key: str
    parts: dict[AggregateCall, str]


def _known_groups(root: Operator) -> dict[tuple[Operator, Expr], list[_Groups]]:
    """The group-bys of a plan that have one key, by their input and key."""
    found: dict[tuple[Operator, Expr], list[_Groups]] = defaultdict(list)
    for op in topological(root):
        if isinstance(op, Aggregate) and len(op.keys) == 1:
            ((name, key),), calls, base = below_projections(op)
            found[base, key].append(_Groups(op, name, {call: name for name, call in calls}))
    return found


def _grouped_first(op: Aggregate, known: dict[tuple[Operator, Expr], list[_Groups]]) -> Operator | None:
    if not op.sort or not all(_in_parts(call) for _, call in op.aggregates):
        return None
    keys, calls, join = below_projections(op)
    if not calls or not isinstance(join, Join) or join.how not in ("inner", "left") or len(join.left_on) != 1:
        return None
    (ours,), (theirs,) = join.left_on, join.right_on
    if (
        not isinstance(ours, Column)
        or dtype_of(ours) != dtype_of(theirs)
        or not has_unique_representation(dtype_of(ours))
    ):
        return None
    if not all(roots(key) <= schema(join.left).keys() for _, key in keys):
        return None
    if not all(roots(arg) and roots(arg) <= schema(join.right).keys() for _, call in calls for arg in call.args):
        return None
    if join.how == "left" and not all(_missing_stays(arg) for _, call in calls for arg in call.args):
        return None
    groups = _existing_groups(join, theirs, calls, known)
    if groups is None and [key for _, key in keys] == [ours]:
        groups = _new_groups(join, theirs, calls)
    if groups is None:
        return None
    side = _groups_to_join(join.left, ours.name, groups)
    names = {call: f"{HIDDEN}part {i}" for i, call in enumerate(dict.fromkeys(call for _, call in calls))}
    key = f"{HIDDEN}key of parts"
    taken = ((key, side.column(groups.key)), *((name, side.column(groups.parts[call])) for call, name in names.items()))
    parts = Project(side, taken)
    joined = Join(join.left, parts, join.how, (ours,), (parts.column(key),), join.nulls_equal)
    combined = tuple(
        (name, AggregateCall(COMBINED[call.function], (joined.column(names[call]),), call.dtype))
        for name, call in calls
    )
    return Aggregate(joined, keys, combined, op.sort)


def _in_parts(call: AggregateCall) -> bool:
    """Whether an aggregate can be computed in parts. Partial sums of 32-bit floats would be rounded to 32 bits."""
    return call.function in COMBINED and not call.options and bool(call.args) and call.dtype != pl.Float32()


def _missing_stays(arg: Expr) -> bool:
    """Whether an expression is null wherever its column is."""
    if isinstance(arg, Call) and arg.function == "fill_nan" and isinstance(arg.args[1], Literal):
        return arg.args[1].value is None and isinstance(arg.args[0], Column)
    return isinstance(arg, Column)


def _existing_groups(
    join: Join, key: Expr, calls: _Calls, known: dict[tuple[Operator, Expr], list[_Groups]]
) -> _Groups | None:
    """A group-by of the right side's rows that the plan contains already, with its columns by this aggregate's calls."""
    ((_, below_key),), below, base = below_projections(Aggregate(join.right, (("key", key),), calls))
    for groups in known.get((base, below_key), ()):
        if all(call in groups.parts for _, call in below):
            here = {call: groups.parts[same] for (_, call), (_, same) in zip(calls, below, strict=True)}
            return _Groups(groups.op, groups.key, here)
    return None


def _new_groups(join: Join, key: Expr, calls: _Calls) -> _Groups | None:
    """A new group-by of the right side's rows, if there are several for each row of the left."""
    rows = estimate(join.right).rows
    if rows < LARGE_ROWS or rows < ROWS_A_PARTNER * estimate(join.left).rows:
        return None
    distinct = tuple(dict.fromkeys(call for _, call in calls))
    parts = {call: f"{HIDDEN}of key {i}" for i, call in enumerate(distinct)}
    name = f"{HIDDEN}key"
    op = Aggregate(join.right, ((name, key),), tuple((parts[call], call) for call in distinct))
    return _Groups(op, name, parts)


def _groups_to_join(op: Operator, name: str, groups: _Groups) -> Operator:
    """The groups whose keys can occur in a column: those of a semi join with some of the groups, or all."""
    while True:
        match op:
            case Project():
                expr = dict(op.columns)[name]
                if not isinstance(expr, Column):
                    return groups.op
                op, name = op.input, expr.name
            case Filter():
                op = op.input
            case Join() if op.how == "semi" and op.left_on == (Column(name, schema(op.left)[name]),):
                chosen = _chosen(op.right, op.right_on[0], groups)
                if chosen is not None:
                    return chosen
                op = op.left
            case Join() if name in schema(op.left) and op.how in ("inner", "left", "semi", "anti"):
                op = op.left
            case Join(how="inner"):
                op = op.right
            case _:
                return groups.op


def _chosen(side: Operator, key: Expr, groups: _Groups) -> Operator | None:
    """A side of a join, if it consists of some of the groups and is joined by their key."""
    while isinstance(side, Project) and isinstance(key, Column):
        key, side = dict(side.columns)[key.name], side.input
    below = side
    while isinstance(below, Filter):
        below = below.input
    return side if below == groups.op and isinstance(key, Column) and key.name == groups.key else None
