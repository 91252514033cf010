"""Which operators are run by one task, whatever the number of tiles: what is known before a plan runs."""

from __future__ import annotations

from collections.abc import Iterator

from craton.lower.tiled.sources import cut
from craton.lower.tiled.totals import in_one_task
from craton.lower.tiled.windows import way_of
from craton.plan.expr import Expr, Window, walk
from craton.plan.operators import Aggregate, AggregateCall, Filter, Join, Operator, Project, Scan, Sort
from craton.plan.sources import FileSource


def alone(op: Operator) -> str | None:
    """What of an operator is done by one task, and so by one worker; None if nothing is.

    Small results that become one tile are not told of: they are known when they are there.
    """
    if isinstance(op, Scan) and isinstance(op.source, FileSource) and cut(op, 2, 1 << 62) is None:
        return f"{op.source.format} is read from its first row to the last"
    calls = [call for _, call in op.aggregates] if isinstance(op, Aggregate) and not op.keys else []
    names = dict.fromkeys(call.function for call in calls if in_one_task(call))
    for expr in _expressions(op):
        for node in walk(expr):
            if isinstance(node, Window) and _at_once(node):
                names[node.function] = None
    return f"{', '.join(names)} of all rows" if names else None


def _at_once(window: Window) -> bool:
    """Whether a window needs all rows in one place."""
    way = way_of(window)
    if way == "one":
        return in_one_task(AggregateCall(window.function, window.args, window.dtype, window.options))
    return way == "gather"


def _expressions(op: Operator) -> Iterator[Expr]:
    """The expressions of an operator in which windows may stand."""
    match op:
        case Project():
            yield from (expr for _, expr in op.columns)
        case Filter():
            yield op.predicate
        case Scan() if op.predicate is not None:
            yield op.predicate
        case Sort():
            yield from (key.expr for key in op.keys)
        case Join():
            yield from (*op.left_on, *op.right_on)
        case Aggregate():
            yield from (expr for _, expr in op.keys)
            yield from (arg for _, call in op.aggregates for arg in call.args)
