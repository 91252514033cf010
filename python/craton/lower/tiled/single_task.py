"""Finds operators that a single task runs, whatever the number of tiles, before a plan runs."""

from __future__ import annotations

from craton.lower.tiled.sources import cut
from craton.lower.tiled.totals import in_one_task
from craton.plan.expr import WindowCall
from craton.plan.functions.strategies import AllRows, OneValue, strategy_of
from craton.plan.operators import Aggregate, AggregateCall, Operator, Scan, Window
from craton.plan.sources import FileSource


def single_task_note(op: Operator) -> str | None:
    """A description of the work that a single task, and so a single worker, does for an operator; None if there is none.

    Small results that are gathered into one tile are not included, since their size is known only when the plan runs.
    """
    if isinstance(op, Scan) and isinstance(op.source, FileSource) and cut(op, 2, 1 << 62) is None:
        return f"{op.source.format} is read from its first row to the last"
    names: dict[str, None] = {}
    if isinstance(op, Aggregate) and not op.keys:
        names = dict.fromkeys(call.function for _, call in op.aggregates if in_one_task(call))
    elif isinstance(op, Window):
        names = dict.fromkeys(call.function for call in op.calls if _needs_all_rows(call))
    return f"{', '.join(names)} of all rows" if names else None


def _needs_all_rows(window: WindowCall) -> bool:
    """Whether a window needs all rows in one task."""
    strategy = strategy_of(window)
    if isinstance(strategy, OneValue):
        return in_one_task(AggregateCall(window.function, window.args, window.dtype, window.options))
    return isinstance(strategy, AllRows)
