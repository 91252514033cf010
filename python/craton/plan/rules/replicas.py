"""Chooses, for each durable set that a plan reads, the replica whose partitioning suits the plan best."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from craton.plan.expr import Call, Column, Expr, Literal, column_first, conjuncts
from craton.plan.operators import Aggregate, Distinct, Join, Operator, Scan, Window, schema
from craton.plan.origin import origin
from craton.plan.size import estimated_rows, row_bytes, scanned_bytes
from craton.plan.sources import FileLayout, FileSource
from craton.plan.visit import rewritten, topological

__all__ = ["choose_replicas"]

#: The most combinations of replicas that are compared.
_MOST = 256
#: The estimated share of the rows that a range of a column selects, if its bounds cannot be compared.
_SELECTED = 0.3
_COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq"])

#: Columns of scans by which rows must meet: of each side of a join, or of the input of a group-by. None: of no scan.
_Side = tuple[Scan, tuple[str, ...]] | None


def choose_replicas(root: Operator) -> Operator:
    """Replace scans of a set by scans of the replica for which the fewest bytes are estimated to be read and exchanged.

    Before: ``Join k(Scan a [hash(x)], Scan b [hash(k)])``; after: ``Join k(Scan a [hash(k)], Scan b [hash(k)])``.

    Valid because replicas have the same rows, and because the plan sorts them by their positions where the order is observed.
    """
    scans = [op for op in topological(root) if isinstance(op, Scan) and _sources(op)[1:]]
    if not scans:
        return root
    combinations = itertools.islice(itertools.product(*map(_sources, scans)), _MOST)
    meetings = list(_meetings(root))
    best: dict[Scan, FileSource] = {}
    least = float("inf")
    for combination in combinations:
        chosen = dict(zip(scans, combination, strict=True))
        cost = sum(scanned_bytes(scan) * _share_read(source, scan.predicate) for scan, source in chosen.items())
        cost += sum(nbytes for sides, nbytes in meetings if not _meet(sides, chosen))
        if cost < least:
            best, least = chosen, cost
    named = {scan: _named(source, scan, meetings, best) for scan, source in best.items()}

    def rewrite(op: Operator, inputs: tuple[Operator, ...]) -> Operator:
        return replace(op, source=named[op]) if isinstance(op, Scan) and op in named else op.with_inputs(inputs)

    return rewritten(root, rewrite)


def _sources(scan: Scan) -> tuple[FileSource, ...]:
    """The replicas that a scan can read."""
    source = scan.source
    if not isinstance(source, FileSource) or scan.row_number is not None:
        return ()
    return (source, *source.alternatives)


def _meetings(root: Operator) -> Iterable[tuple[tuple[_Side, ...], float]]:
    """Where rows with equal keys must meet: the columns of scans, and the bytes that are exchanged if they do not meet."""
    for op in topological(root):
        match op:
            case Join() if op.how != "cross":
                sides = (_side(op.left, op.left_on), _side(op.right, op.right_on))
                yield sides, _nbytes(op.left) + _nbytes(op.right)
            case Aggregate() if op.keys:
                yield (_side(op.input, [expr for _, expr in op.keys]),), _nbytes(op)
            case Distinct():
                names = op.subset or tuple(schema(op.input))
                yield (_side(op.input, [op.input.column(name) for name in names]),), _nbytes(op)
            case Window():
                for _, call in op.columns:
                    if call.partition:
                        yield (_side(op.input, call.partition),), _nbytes(op.input)


def _nbytes(op: Operator) -> float:
    return float(estimated_rows(op) * row_bytes(op))


def _side(op: Operator, exprs: Iterable[Expr]) -> _Side:
    """The scan that has all keys that come from a set with replicas, and their names there, in order; empty for other keys."""
    found: Scan | None = None
    names: list[str] = []
    for expr in exprs:
        key = None
        if isinstance(expr, Column):
            key = origin(op, expr.name, joins=("inner", "left", "semi", "anti"), groups=True, positions=True)
        if key is None or (found is not None and key[0] != found):
            names.append("")
            continue
        found = key[0]
        names.append(key[1])
    return None if found is None else (found, tuple(names))


def _meet(sides: tuple[_Side, ...], chosen: Mapping[Scan, FileSource]) -> bool:
    """Whether rows with equal keys are in one partition."""
    ways = [None if side is None else _way(_layout(side[0], chosen), side[1]) for side in sides]
    return None not in ways and len(set(ways)) == 1


def _layout(scan: Scan, chosen: Mapping[Scan, FileSource]) -> FileLayout | None:
    source = chosen.get(scan, scan.source)
    return source.layout if isinstance(source, FileSource) else None


def _way(layout: FileLayout | None, names: tuple[str, ...]) -> tuple[Any, ...] | None:
    """How rows with these keys are partitioned: the kind, and the positions of the keys; None if they are not partitioned by them."""
    if layout is None:
        return None
    by = layout.keys or ((layout.ranged_by,) if layout.ranged_by else ())
    if not by or not set(by) <= set(names):
        return None
    return ("hash" if layout.keys else "range", layout.parts, tuple(names.index(name) for name in by))


def _named(
    source: FileSource,
    scan: Scan,
    meetings: Iterable[tuple[tuple[_Side, ...], float]],
    chosen: Mapping[Scan, FileSource],
) -> FileSource:
    """The source without alternatives, and with the reason why it was chosen in its name."""
    layout = source.layout
    assert layout is not None
    reasons = []
    if _share_read(source, scan.predicate) < 1:
        reasons.append(f"filtered by {layout.ranged_by}")
    ours = [sides for sides, _ in meetings if any(side is not None and side[0] == scan for side in sides)]
    reasons += [
        kind
        for kind, count in (("grouped", 1), ("joined", 2))
        if any(len(s) == count and _meet(s, chosen) for s in ours)
    ]
    text = f"{layout.name}; {', '.join(reasons) or 'no replica suits better'}"
    return replace(source, alternatives=(), layout=replace(layout, name=text))


def _share_read(source: FileSource, predicate: Expr | None) -> float:
    """The estimated share of the rows that are read of a source with a filter."""
    layout = source.layout
    if layout is None or predicate is None or not layout.ranged_by:
        return 1.0
    share = 1.0
    for conjunct in conjuncts(predicate):
        if isinstance(conjunct, Call) and len(conjunct.args) == 2:
            share = min(share, _share_of(layout, conjunct))
    return share


def _share_of(layout: FileLayout, call: Call) -> float:
    left, name, right = column_first(call)
    if not isinstance(left, Column) or left.name != layout.ranged_by:
        return 1.0
    if name == "is_in":
        return _SELECTED
    if name not in _COMPARISONS or not isinstance(right, Literal):
        return 1.0
    bounds = [pair for pair in layout.bounds.get(left.name, ()) if pair is not None]
    value = right.value
    if not bounds or not all(isinstance(value, type(low)) for low, _ in bounds):
        return _SELECTED
    possible = [_may_be(name, low, high, value) for low, high in bounds]
    return sum(possible) / len(bounds)


def _may_be(name: str, low: Any, high: Any, value: Any) -> bool:
    """Whether a comparison with a value can be true for a value between bounds."""
    match name:
        case "lt":
            return bool(low < value)
        case "le":
            return bool(low <= value)
        case "gt":
            return bool(high > value)
        case "ge":
            return bool(high >= value)
        case _:
            return bool(low <= value <= high)
