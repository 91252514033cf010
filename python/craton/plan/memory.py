"""Estimates of the memory that the kernel needs for a plan, from the sizes of :mod:`craton.plan.size`.

Most operators stream their rows. Only rows that the kernel holds in memory count: the smaller side of a join, the groups of an
aggregate, the input of a sort, and results that several operators read. The plan's own result does not count, since the
caller needs memory for it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from craton.plan.operators import Aggregate, Distinct, Join, Operator, Scan, Slice, Sort, Window, schema
from craton.plan.order import observed_order
from craton.plan.registry import FUNCTIONS
from craton.plan.rules.prune import needed_columns
from craton.plan.size import column_bytes, estimated_rows, row_bytes, scanned_bytes
from craton.plan.sources import FileSource
from craton.plan.visit import readers, topological

#: Bytes that the kernel uses for each byte that an operator holds: copies, and memory that it has not freed yet. This and the
#: following constants are measured.
OVERHEAD = 2

#: Further bytes for each row of a hash table: of joins and groups, and of distinct rows.
TABLE_ROW, DISTINCT_ROW = 40, 160

#: Rows that the kernel reads of a join's side to estimate its size.
_SAMPLED_ROWS = 10_000_000


def held_bytes(root: Operator, ordered: bool = True) -> int:
    """The estimated peak memory of the kernel, in bytes, for a plan that runs on a single node without tiles.

    Parameters
    ----------
    root
        The plan, after the rewrite rules.
    ordered
        Whether the order of the result's rows is observed.
    """
    needed, observed = needed_columns(root), observed_order(root, ordered)
    operators = topological(root)
    count = readers(root)
    first_only = {op.input for op in operators if isinstance(op, Slice) and op.length is not None}

    def size(op: Operator, keys: Set[str] = frozenset()) -> int:
        return _bytes(op, needed[op] | keys)

    held = 0
    for op in operators:
        if count[op] > 1:
            held += OVERHEAD * size(op)
        held += _held(op, size, observed.get(op, False), op in first_only)
    return held


def _held(op: Operator, size: Callable[..., int], observed: bool, first_only: bool) -> int:
    match op:
        case Join(how="cross"):
            held = OVERHEAD * size(op.right)
        case Join():
            # The kernel reads some rows of both sides before it decides which one to build the hash table from.
            either = op.how == "inner" or (op.how == "left" and observed)
            table = min(op.left, op.right, key=size) if either else op.right
            other = op.right if table is op.left else op.left
            held = _table(table, size(table)) + size(other) * _SAMPLED_ROWS // max(estimated_rows(other), _SAMPLED_ROWS)
            if observed and op.how not in ("semi", "anti"):
                held += OVERHEAD * size(op)
        case Aggregate() if op.keys:
            whole = _holds_values(op)
            keys = {name for name, _ in op.keys}
            held = OVERHEAD * size(op.input) if whole or (observed and not op.sort) else _table(op, size(op, keys))
        case Aggregate():
            held = OVERHEAD * size(op.input) if _holds_values(op) else 0
        case Distinct():
            keys = set(op.subset or schema(op.input))
            held = _table(op, size(op, keys), DISTINCT_ROW)
        case Sort():
            held = OVERHEAD * size(op.input) if observed and not (first_only and op.ties is None) else 0
        case Window():
            held = OVERHEAD * (size(op.input) + size(op))
        case _:
            held = 0
    return held


def _holds_values(op: Aggregate) -> bool:
    """Whether the kernel holds all values of a group in memory until it has the last one."""
    return any(FUNCTIONS[call.function].holds_values for _, call in op.aggregates)


def _table(op: Operator, nbytes: int, row: int = TABLE_ROW) -> int:
    """The bytes of a hash table of an operator's rows, whose values take ``nbytes``."""
    return OVERHEAD * nbytes + row * estimated_rows(op)


def _bytes(op: Operator, needed: Set[str]) -> int:
    """The estimated bytes of the needed columns of an operator's output."""
    columns = schema(op)
    return estimated_rows(op) * sum(column_bytes(op, name) for name in needed if name in columns)


def file_bytes(plan: Operator) -> int:
    """The estimated bytes in memory that a plan reads from files. For a slice of a scan, only the sliced rows count."""
    total, counted = 0, set()
    for op in topological(plan):  # a slice comes before its input
        if isinstance(op, Slice) and _of_files(op.input):
            counted.add(op.input)
            total += estimated_rows(op) * row_bytes(op)
        elif op not in counted and _of_files(op):
            total += scanned_bytes(op)
    return total


def _of_files(op: Operator) -> bool:
    return isinstance(op, Scan) and isinstance(op.source, FileSource)
