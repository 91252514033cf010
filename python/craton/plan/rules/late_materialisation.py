"""Late materialisation of group keys: groups by a table's row numbers first and fetches its strings afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl

from craton.plan.expr import Column, Expr, dtype_of, roots, substitute
from craton.plan.names import HIDDEN
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project, Scan
from craton.plan.origin import origin
from craton.plan.size import estimate
from craton.plan.visit import rewritten_down, topological

#: The rule does not apply to smaller tables, whose few values are hashed quickly.
LARGE_TABLE = 100_000
#: The rule applies if at least this many string keys come from one table.
LEAST_STRINGS = 2

_ROW, _FETCHED_ROW = f"{HIDDEN}group row", f"{HIDDEN}group row fetch"
#: The aggregate that combines partial results, by the aggregate that computes them.
COMBINED = {"sum": "sum", "count": "sum", "len": "sum", "min": "min", "max": "max"}


def group_by_rows(root: Operator) -> Operator:
    """Group by the row numbers of a large table instead of its strings, and fetch the strings afterwards.

    Before: ``Aggregate[sum(x) by t.a, t.b, t.c, k](Join(L, T))``; after:
    ``Aggregate[sum(x) by a, b, c, k](Join[row = row](Aggregate[sum(x) by row, k](Join(L, T[row])), T[row, a, b, c]))``.

    Valid for aggregates that can be computed in parts: rows with one row number of ``T`` agree in all columns of ``T``. The
    joins then pass on one integer instead of the strings, and far fewer rows are grouped by strings. Done where ``T`` is
    large, occurs once in the joins, provides several string keys, and is not itself aggregated. Not done if ``T`` is the largest
    table: each of its rows would be a group.
    """
    return rewritten_down(root, lambda op: _by_rows(op) if isinstance(op, Aggregate) else None)


def _by_rows(op: Aggregate) -> Operator | None:
    if any(call.function not in COMBINED or call.options for _, call in op.aggregates) or not op.sort:
        return None
    if sum(dtype_of(key) == pl.String for _, key in op.keys) < LEAST_STRINGS or estimate(op.input).rows < LARGE_TABLE:
        return None
    keys, calls, base = below_projections(op)
    table = _table_of_strings(base, keys)
    if table is None or not _is_repeated(table, base):
        return None
    if any(_origins(base, arg) & {table, None} for _, call in calls for arg in call.args):
        return None
    numbered = _with_row(base, table)
    if numbered is None:
        return None
    fetched = [(name, key) for name, key in keys if _origins(base, key) == {table}]
    others = tuple(pair for pair in keys if pair not in fetched)
    row = Column(_ROW, pl.UInt32())
    parts = Aggregate(numbered, (*others, (_ROW, row)), calls)
    fetch = replace(table, columns=_read(base, fetched), predicate=None, row_number=_ROW)
    fetched_columns = Project(fetch, ((_FETCHED_ROW, row), *((name, _at_table(base, key)) for name, key in fetched)))
    joined = Join(parts, fetched_columns, "inner", (row,), (Column(_FETCHED_ROW, pl.UInt32()),), nulls_equal=False)
    combined = tuple(
        (name, AggregateCall(COMBINED[call.function], (Column(name, call.dtype),), call.dtype)) for name, call in calls
    )
    numbers = (name for name, key in fetched if dtype_of(key).is_integer())
    # An integer among the fetched keys may be the table's primary key, whose values are unique: it is compared first.
    return Aggregate(joined, tuple((n, joined.column(n)) for n, _ in keys), combined, op.sort, next(numbers, None))


def below_projections(
    op: Aggregate,
) -> tuple[tuple[tuple[str, Expr], ...], tuple[tuple[str, AggregateCall], ...], Operator]:
    """A group-by's keys and aggregates in terms of the operator below the projections under it, and that operator."""
    keys, calls, base = op.keys, op.aggregates, op.input
    while isinstance(base, Project):
        mapping = dict(base.columns)
        keys = tuple((name, substitute(key, mapping)) for name, key in keys)
        calls = tuple(
            (name, replace(call, args=tuple(substitute(arg, mapping) for arg in call.args))) for name, call in calls
        )
        base = base.input
    return keys, calls, base


def _table_of_strings(base: Operator, keys: tuple[tuple[str, Expr], ...]) -> Scan | None:
    """The large table that several string keys come from, if there is one."""
    strings = Counter(
        origin
        for _, key in keys
        if dtype_of(key) == pl.String
        for origin in (_origins(base, key) if len(_origins(base, key)) == 1 else ())
        if origin is not None
    )
    for table, count in strings.most_common(1):
        large = (getattr(table.source, "rows", None) or 0) >= LARGE_TABLE
        if count >= LEAST_STRINGS and large and table.row_number is None:
            return table
    return None


def _is_repeated(table: Scan, base: Operator) -> bool:
    """Whether a row of the table may be in many rows of the joins: another table has at least as many rows."""
    others = [op for op in topological(base) if isinstance(op, Scan) and op != table]
    return any(estimate(replace(op, predicate=None)).rows >= estimate(table).rows for op in others)


def _origins(op: Operator, expr: Expr) -> set[Scan | None]:
    """The scans that an expression's columns come from; ``None`` stands for a computed column."""
    return {found[0] if (found := origin(op, name)) else None for name in roots(expr)}


def _at_table(base: Operator, expr: Expr) -> Expr:
    """An expression over the columns of the scan that they come from."""
    found = {name: origin(base, name) for name in roots(expr)}
    return substitute(expr, {name: at[0].column(at[1]) for name, at in found.items() if at is not None})


def _read(base: Operator, keys: list[tuple[str, Expr]]) -> tuple[str, ...]:
    return tuple(sorted(set().union(*(roots(_at_table(base, key)) for _, key in keys))))


def _with_row(op: Operator, table: Scan) -> Operator | None:
    """The same rows with the table's row numbers.

    ``None`` if the table is read more than once, or through other operators than projections, filters and inner joins.
    """
    if op == table:
        return replace(table, row_number=_ROW)
    match op:
        case Project():
            below = _with_row(op.input, table)
            return None if below is None else Project(below, (*op.columns, (_ROW, Column(_ROW, pl.UInt32()))))
        case Filter():
            below = _with_row(op.input, table)
            return None if below is None else replace(op, input=below)
        case Join(how="inner"):
            on_left, on_right = (table in topological(side) for side in op.inputs)
            below = _with_row(op.left if on_left else op.right, table) if on_left != on_right else None
            if below is None:
                return None
            return replace(op, left=below) if on_left else replace(op, right=below)
        case _:
            return None
