"""Column pruning: every operator produces only the columns that something above reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from craton.plan.expr import Column, Expr, roots
from craton.plan.operators import (
    Aggregate,
    AggregateCall,
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
    schema,
)
from craton.plan.order import topological

T = TypeVar("T")


def prune_columns(root: Operator, known: Callable[[Operator, set[str]], Operator | None] | None = None) -> Operator:
    """Drop columns that nothing reads, through every operator.

    Before: ``Aggregate[sum(x) by k](Filter[p > 0](Scan[k, x, p, q, r]))``;
    after: ``Aggregate[sum(x) by k](Filter[p > 0](Scan[k, x, p]))``.

    Always valid. An operator that several others read keeps what any of them needs, so that it still runs once; a row
    number that nobody reads disappears.

    Parameters
    ----------
    root
        The plan.
    known
        Takes an operator and the columns that are needed of it; returns what stands in for it, with at least these
        columns, or ``None``.
    """
    needed = needed_columns(root)
    done: dict[Operator, Operator] = {}

    def rebuild(op: Operator) -> Operator:
        if op not in done:
            instead = known(op, needed[op]) if known is not None else None
            done[op] = instead or _narrow(op, needed[op], tuple(rebuild(child) for child in op.inputs))
        return done[op]

    result = rebuild(root)
    names = tuple(schema(root))
    if tuple(schema(result)) != names:
        result = Project(result, tuple((name, result.column(name)) for name in names))
    return result


def needed_columns(root: Operator) -> dict[Operator, set[str]]:
    """For each operator of a plan, the columns that something above it reads."""
    needed: dict[Operator, set[str]] = {root: set(schema(root))}
    for op in topological(root):
        for child, names in zip(op.inputs, _required(op, needed[op]), strict=True):
            needed.setdefault(child, set()).update(names)
    return needed


def _reads(exprs: list[Expr]) -> set[str]:
    return set().union(*(roots(expr) for expr in exprs)) if exprs else set()


def _kept(columns: tuple[tuple[str, T], ...], needed: set[str]) -> tuple[tuple[str, T], ...]:
    """The columns that are needed, or one, since an operator without columns has no rows."""
    return tuple(column for column in columns if column[0] in needed) or columns[:1]


def _aggregates(op: Aggregate, needed: set[str]) -> tuple[tuple[str, AggregateCall], ...]:
    if op.keys:
        return tuple((name, call) for name, call in op.aggregates if name in needed)
    return _kept(op.aggregates, needed)


def _required(op: Operator, needed: set[str]) -> list[set[str]]:
    match op:
        case Scan():
            return []
        case Project():
            return [_reads([expr for _, expr in _kept(op.columns, needed)])]
        case Filter():
            return [needed | roots(op.predicate)]
        case RowNumber():
            return [needed - {op.name}]
        case Attach():
            return [needed - set(op.columns)]
        case Join():
            left, right = set(schema(op.left)), set(schema(op.right))
            return [(needed & left) | _reads(list(op.left_on)), (needed & right) | _reads(list(op.right_on))]
        case Aggregate():
            kept = [arg for _, call in _aggregates(op, needed) for arg in call.args]
            return [_reads([expr for _, expr in op.keys] + kept)]
        case Sort():
            return [needed | _reads([key.expr for key in op.keys])]
        case Slice():
            return [needed]
        case Distinct():
            return [needed | set(op.subset or schema(op.input))]
        case Union():
            return [needed & set(schema(op)) or set(tuple(schema(op))[:1])] * len(op.parts)
        case Unpivot():
            values = set(op.values) if op.value in needed else {op.values[0]}
            return [(needed & set(op.keep)) | values]
        case _:
            raise NotImplementedError(f"no pruning rule for {type(op).__name__}")


def _narrow(op: Operator, needed: set[str], inputs: tuple[Operator, ...]) -> Operator:
    match op:
        case Scan():
            row_number = op.row_number if op.row_number in needed else None
            reads = needed | (roots(op.predicate) if op.predicate is not None else set())
            columns = tuple(name for name in op.columns if name in reads)
            if not columns and row_number is None:
                columns = op.columns[:1]  # a row count needs some column
            return replace(op, columns=columns, row_number=row_number)
        case Project():
            return _project(inputs[0], _kept(op.columns, needed))
        case RowNumber():
            return RowNumber(inputs[0], op.name) if op.name in needed else inputs[0]
        case Attach():
            columns = tuple(name for name in op.columns if name in needed)
            return Attach(inputs[0], op.source, columns) if columns else inputs[0]
        case Aggregate():
            return Aggregate(inputs[0], op.keys, _aggregates(op, needed), op.sort)
        case Union():
            names = tuple(name for name in schema(op) if name in needed) or tuple(schema(op))[:1]
            return Union(tuple(_select(part, names) for part in inputs))
        case Distinct() if not op.subset:
            return Distinct(inputs[0], tuple(schema(op.input)), op.keep)
        case Unpivot():
            return Unpivot(
                inputs[0],
                tuple(name for name in op.keep if name in needed),
                op.values if op.value in needed else (op.values[0],) * len(op.values),
                op.variable,
                op.value,
            )
        case _:
            return op.with_inputs(inputs)


def _project(child: Operator, columns: tuple[tuple[str, Expr], ...]) -> Operator:
    """A projection, or its input if it would change nothing."""
    if [(name, Column(name, dtype)) for name, dtype in schema(child).items()] == list(columns):
        return child
    return Project(child, columns)


def _select(op: Operator, names: tuple[str, ...]) -> Operator:
    return _project(op, tuple((name, op.column(name)) for name in names))
