"""How much memory the kernel will need for a plan: estimates from what is known of sizes, see :mod:`craton.plan.size`.

Most operators let rows through. What is counted are those that hold rows: the smaller side of a join, the groups of an
aggregate, what is sorted, what several operators read. The result is not counted: who asked for it holds it anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set

from craton.plan.expr import has_window
from craton.plan.operators import Aggregate, Distinct, Join, Operator, Project, Scan, Slice, Sort, schema
from craton.plan.order import observed_order, topological
from craton.plan.rules.prune import needed_columns
from craton.plan.size import estimated_rows, scanned_bytes, value_bytes
from craton.plan.sources import FileSource

#: Bytes that the kernel has for each that an operator holds: hash tables and indexes, copies, memory that is not given back yet.
OVERHEAD = 2

#: Rows of a side of a join that the kernel reads to learn how many there are.
_SAMPLED_ROWS = 10_000_000

#: Functions of which the kernel holds all values of a group until it has the last.
_OF_ALL_VALUES = frozenset({"median", "quantile", "n_unique", "skew", "kurtosis"})


def held_bytes(root: Operator, ordered: bool = True) -> int:
    """The bytes that the kernel is expected to hold at the most when it runs a plan as a whole.

    Parameters
    ----------
    root
        The plan, after the rewrite rules.
    ordered
        Whether the order of its rows is seen.
    """
    needed, observed = needed_columns(root), observed_order(root, ordered)
    operators = topological(root)
    readers = Counter(child for op in operators for child in op.inputs)
    first_only = {op.input for op in operators if isinstance(op, Slice) and op.length is not None}

    def size(op: Operator) -> int:
        return _bytes(op, needed[op])

    held = 0
    for op in operators:
        if readers[op] > 1:
            held += size(op)
        held += _held(op, size, observed.get(op, False), op in first_only)
    return OVERHEAD * held


def _held(op: Operator, size: Callable[[Operator], int], observed: bool, first_only: bool) -> int:
    match op:
        case Join(how="semi" | "anti"):
            # The kernel reads some of both sides before it decides which it holds.
            held = size(op.right) + min(size(op.left), size(op.left) * _SAMPLED_ROWS // max(estimated_rows(op.left), 1))
        case Join(how="cross"):
            held = size(op.right)
        case Join(how="left"):
            held = size(op.right) if not observed else min(size(op.left), size(op.right)) + size(op)
        case Join():
            held = min(size(op.left), size(op.right)) + (size(op) if observed else 0)
        case Aggregate():
            whole = any(call.function in _OF_ALL_VALUES for _, call in op.aggregates)
            held = size(op.input) if whole or (observed and not op.sort) else size(op) if op.keys else 0
        case Distinct():
            held = size(op)
        case Sort():
            held = size(op) if observed and not first_only else 0
        case Project() if any(has_window(expr) for _, expr in op.columns):
            held = size(op.input) + size(op)
        case _:
            held = 0
    return held


def _bytes(op: Operator, needed: Set[str]) -> int:
    """The bytes of those columns of an operator's rows that something above reads."""
    columns = schema(op)
    return estimated_rows(op) * sum(value_bytes(columns[name]) for name in needed if name in columns)


def file_bytes(plan: Operator) -> int:
    """The bytes that a plan is expected to read of files, in memory: of rows that are sliced out, those only."""
    total, counted = 0, set()
    for op in topological(plan):  # a slice comes before what it is of
        if isinstance(op, Slice) and _of_files(op.input):
            counted.add(op.input)
            total += estimated_rows(op) * sum(map(value_bytes, schema(op).values()))
        elif op not in counted and _of_files(op):
            total += scanned_bytes(op)
    return total


def _of_files(op: Operator) -> bool:
    return isinstance(op, Scan) and isinstance(op.source, FileSource)
