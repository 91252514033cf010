"""Merges two semi joins with group-bys of the same rows into one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, conjunction, dtype_of, roots, substitute
from craton.plan.names import HIDDEN, derived_name
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project, Scan
from craton.plan.visit import readers, rewritten_down
from craton.records import dataclass

#: The column that counts the rows of a group that the second semi join's group-by includes.
_INCLUDED_ROWS = f"{HIDDEN}some rows"

#: Aggregates that skip nulls: a row is excluded from them by making its values null.
_NULL_SKIPPING = {"min", "max", "sum", "count", "mean"}


@dataclass(frozen=True, slots=True)
class _Groups:
    """The right side of a semi join: a filtered group-by of a scan's rows. ``keys`` are in the order of the join's keys."""

    keys: tuple[Expr, ...]
    predicate: Expr
    aggregate: Aggregate
    scan: Scan


def merge_semi_joins(root: Operator) -> Operator:
    """Group the same rows once for two semi joins on the same keys.

    Before: ``SemiJoin(SemiJoin(L, Filter[f](Aggregate[a by k](X))), Filter[g](Aggregate[b by k](Scan[X where p])))``; after:
    ``SemiJoin(L, Filter[f and g' and n > 0](Aggregate[a, b', n = count(when p) by k](X)))``, where ``b'`` aggregates
    ``when(p, value)``.

    Valid for aggregates that skip nulls: rows that fail ``p`` do not change them, and a group of such rows only, which the
    second group-by does not contain, has ``n = 0``. Done where both sides group a scan of the same source and nothing else
    reads the groups.
    """
    count = readers(root)
    return rewritten_down(root, lambda op: _merged(op, count))


def _merged(op: Operator, count: Counter[Operator]) -> Join | None:
    if not isinstance(op, Join) or op.how != "semi":
        return None
    below = op.left
    if not isinstance(below, Join) or below.how != "semi" or count[below] != 1:
        return None
    if below.left_on != op.left_on or below.nulls_equal != op.nulls_equal:
        return None
    whole, part = _groups(below, count), _groups(op, count)
    if whole is None or part is None:
        return None
    if whole.scan.predicate is not None:
        whole, part = part, whole
    if whole.scan.source != part.scan.source or whole.keys != part.keys or whole.scan.predicate is not None:
        return None
    right = _merged_groups(whole, part)
    keys = tuple(Column(name, dtype_of(key)) for (name, _), key in zip(right.columns, whole.keys, strict=True))
    return replace(below, right=right, right_on=keys)


def _groups(join: Join, count: Counter[Operator]) -> _Groups | None:
    """The right side of a semi join, if it has the form that can be merged."""
    selected = join.right
    if not isinstance(selected, Project) or not isinstance(selected.input, Filter) or count[selected] != 1:
        return None
    chosen = selected.input
    groups = chosen.input
    if not isinstance(groups, Aggregate) or count[chosen] != 1 or count[groups] != 1:
        return None
    if not isinstance(groups.input, Scan) or groups.input.row_number is not None:
        return None
    if any(call.function not in _NULL_SKIPPING for _, call in groups.aggregates):
        return None
    columns, keys = dict(selected.columns), dict(groups.keys)
    selected_keys = [columns.get(key.name) if isinstance(key, Column) else None for key in join.right_on]
    found = [keys.get(key.name) if isinstance(key, Column) else None for key in selected_keys]
    if len(found) != len(keys) or any(key is None for key in found) or len(set(found)) != len(keys):
        return None
    return _Groups(tuple(key for key in found if key is not None), chosen.predicate, groups, groups.input)


def _merged_groups(whole: _Groups, part: _Groups) -> Project:
    """The keys of the groups that both semi joins keep, in the order of the join keys."""
    condition = part.scan.predicate
    calls = dict(whole.aggregate.aggregates)
    renamed: dict[str, Expr] = {}
    for (name, key), (other, _) in zip(_in_order(whole), _in_order(part), strict=True):
        renamed[other] = Column(name, dtype_of(key))
    for name, call in part.aggregate.aggregates:
        new = derived_name("of some rows", call.digest, calls)
        args = call.args if condition is None else tuple(_where(condition, arg) for arg in call.args)
        calls[new] = replace(call, args=args)
        renamed[name] = Column(new, call.dtype)
    tests = [whole.predicate, substitute(part.predicate, renamed)]
    if condition is not None:
        present = _where(condition, Literal(True, pl.Boolean()))
        calls[_INCLUDED_ROWS] = AggregateCall("count", (present,), pl.Int64())
        some = Column(_INCLUDED_ROWS, pl.Int64())
        tests.append(Call("gt", (some, Literal(0, pl.Int64())), pl.Boolean()))
    read = {*whole.scan.columns, *part.scan.columns, *(roots(condition) if condition is not None else ())}
    scan = replace(whole.scan, columns=tuple(name for name, _ in whole.scan.source.columns if name in read))
    groups = replace(whole.aggregate, input=scan, aggregates=tuple(calls.items()))
    keys = tuple((f"{HIDDEN}value {i}", Column(name, dtype_of(key))) for i, (name, key) in enumerate(_in_order(whole)))
    return Project(Filter(groups, conjunction(tests)), keys)


def _in_order(side: _Groups) -> list[tuple[str, Expr]]:
    """The names and expressions of a group-by's keys, in the order of the join keys."""
    names = {key: name for name, key in side.aggregate.keys}
    return [(names[key], key) for key in side.keys]


def _where(condition: Expr, value: Expr) -> Expr:
    dtype = dtype_of(value)
    return Call("when", (condition, value, Literal(None, dtype)), dtype)
