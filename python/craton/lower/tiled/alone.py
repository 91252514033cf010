"""Which operators are run by one task, whatever the number of tiles: what is known before a plan runs."""

from __future__ import annotations

from craton.lower.tiled.sources import cut
from craton.lower.tiled.totals import in_one_task
from craton.plan.expr import WindowCall
from craton.plan.functions.strategies import AllRows, OneValue, strategy_of
from craton.plan.operators import Aggregate, AggregateCall, Operator, Scan, Window
from craton.plan.sources import FileSource


def alone(op: Operator) -> str | None:
    """What of an operator is done by one task, and so by one worker; None if nothing is.

    Small results that become one tile are not told of: they are known when they are there.
    """
    if isinstance(op, Scan) and isinstance(op.source, FileSource) and cut(op, 2, 1 << 62) is None:
        return f"{op.source.format} is read from its first row to the last"
    names: dict[str, None] = {}
    if isinstance(op, Aggregate) and not op.keys:
        names = dict.fromkeys(call.function for _, call in op.aggregates if in_one_task(call))
    elif isinstance(op, Window):
        names = dict.fromkeys(call.function for call in op.calls if _at_once(call))
    return f"{', '.join(names)} of all rows" if names else None


def _at_once(window: WindowCall) -> bool:
    """Whether a window needs all rows in one place."""
    strategy = strategy_of(window)
    if isinstance(strategy, OneValue):
        return in_one_task(AggregateCall(window.function, window.args, window.dtype, window.options))
    return isinstance(strategy, AllRows)
