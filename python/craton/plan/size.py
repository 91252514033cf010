"""Estimates of the rows and bytes that operators produce, derived bottom-up beside the tree.

The estimates start from file metadata and use fixed selectivities. They assume that a join is on a key and its foreign key,
so that a filter on one side keeps the same share of the other side's rows. Plans must stay correct when an estimate is wrong.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import polars as pl

from craton.plan.expr import Call, Column, Expr, conjuncts, roots
from craton.plan.lengths import is_long
from craton.plan.operators import (
    Aggregate,
    Attach,
    Distinct,
    Explode,
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
    Window,
    schema,
)
from craton.plan.protocol import derived
from craton.plan.sources import FileSource, KeptSource, MemorySource
from craton.records import dataclass

UNKNOWN_ROWS = 1_000_000
#: The assumed number of items in a list.
ITEMS = 4
#: Assumed bytes of a string: its view and its text.
TEXT_BYTES = 32

#: Rows of data in memory that are sampled to estimate its number of distinct values.
SAMPLED_ROWS = 100_000
_SELECTIVITY = {
    "eq": 0.1,
    "is_in": 0.2,
    "is_null": 0.1,
    "is_between": 0.2,
    "str_starts_with": 0.05,
    "str_ends_with": 0.05,
    "str_contains": 0.1,
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated size of an operator's output.

    Parameters
    ----------
    rows
        The number of rows.
    share
        The share of the rows that the filters below keep; 1 without filters.
    """

    rows: float
    share: float = 1.0


@derived
def estimate(op: Operator) -> Estimate:
    """The estimated size of an operator's output."""
    match op:
        case Scan():
            rows = getattr(op.source, "rows", None)
            kept = 1.0 if op.predicate is None else selectivity(op.predicate)
            return Estimate((UNKNOWN_ROWS if rows is None else rows) * kept, kept)
        case Project() | Window() | RowNumber() | Sort() | Attach():
            return estimate(op.input)
        case Filter():
            below, kept = estimate(op.input), selectivity(op.predicate)
            return Estimate(below.rows * kept, below.share * kept)
        case Join():
            return _joined(op)
        case Aggregate():
            below = estimate(op.input)
            return Estimate(below.rows / 4, below.share) if op.keys else Estimate(1)
        case Distinct():
            below = estimate(op.input)
            return Estimate(below.rows / 4, below.share)
        case Slice():
            below = estimate(op.input)
            return below if op.length is None else Estimate(min(below.rows, op.length), below.share)
        case Union():
            return Estimate(sum(estimate(part).rows for part in op.parts))
        case Unpivot():
            below = estimate(op.input)
            return Estimate(below.rows * len(op.values), below.share)
        case Explode():
            below = estimate(op.input)
            return Estimate(below.rows * ITEMS, below.share)
        case _:
            raise NotImplementedError(f"no size rule for {type(op).__name__}")


def estimated_rows(op: Operator) -> int:
    """The estimated number of rows of an operator's output."""
    return int(estimate(op).rows)


@derived
def most_rows(op: Operator) -> int | None:
    """An upper bound of the number of rows of an operator's output; None if it is not known without running the plan."""
    match op:
        case Scan():
            return getattr(op.source, "rows", None)
        case Project() | Window() | RowNumber() | Sort() | Attach() | Filter() | Distinct():
            return most_rows(op.input)
        case Aggregate():
            return most_rows(op.input) if op.keys else 1
        case Join(how="left", matches_row_numbers=True):
            return most_rows(op.left)
        case Slice():
            below = most_rows(op.input)
            return below if op.length is None else op.length if below is None else min(below, op.length)
        case Union():
            parts = [most_rows(part) for part in op.parts]
            return None if None in parts else sum(part for part in parts if part is not None)
        case _:
            return None


def distinct_share(op: Operator, key: Expr) -> float | None:
    """The share of a key's values that are distinct, from a sample of the data in memory that the key comes from.

    ``None`` if the key does not come from data in memory. The sample overestimates: a value can occur once in the sample and
    again outside it. A share near 1 means only that there are far more distinct values than :data:`SAMPLED_ROWS`.
    """
    while isinstance(key, Column):
        match op:
            case Scan(source=MemorySource() | KeptSource()):
                return _sampled(op.source, key.name)  # type: ignore[arg-type]
            case Project():
                key = dict(op.columns)[key.name]  # type: ignore[attr-defined]
                op = op.input
            case Join():
                op = op.left if key.name in schema(op.left) else op.right
            case RowNumber(name=key.name):
                return 1.0
            case Window() if key.name in dict(op.columns):
                return None
            case Filter() | Sort() | Slice() | RowNumber() | Window():
                op = op.input
            case _:
                return None
    return None


_samples: WeakKeyDictionary[MemorySource | KeptSource, dict[str, float]] = WeakKeyDictionary()


def _sampled(source: MemorySource | KeptSource, name: str) -> float:
    known = _samples.setdefault(source, {})
    if name not in known:
        held = source if isinstance(source, MemorySource) else source.kept.read()
        column = held.get_column(name)
        rows = column.gather_every(max(1, len(column) // SAMPLED_ROWS))
        known[name] = rows.n_unique() / max(1, len(rows))
    return known[name]


def selectivity(predicate: Expr) -> float:
    """The estimated share of rows that a predicate keeps."""
    if is_long([predicate]):
        return 0.5
    share = 1.0
    for part in conjuncts(predicate):
        share *= _kept(part)
    return share


def _kept(part: Expr) -> float:
    if not isinstance(part, Call):
        return 0.5
    if part.function == "not":
        inner = part.args[0]
        return max(1.0 - _kept(inner), 0.1) if isinstance(inner, Call) else 0.5
    if part.function == "or":
        return min(sum(map(selectivity, part.args)), 1.0)
    return _SELECTIVITY.get(part.function, 0.4)


def _joined(op: Join) -> Estimate:
    left, right = estimate(op.left), estimate(op.right)
    match op.how:
        case "cross":
            return Estimate(left.rows * right.rows)
        case "semi":
            return Estimate(left.rows * right.share, left.share * right.share)
        case "anti":
            return Estimate(left.rows / 2, left.share / 2)
        case "inner":
            rows = max(left.rows * right.share, right.rows * left.share)
            return Estimate(rows, left.share * right.share)
        case "left" if op.matches_row_numbers:
            return left
        case "left":
            return Estimate(max(left.rows, right.rows * left.share), left.share)
        case "right":
            return Estimate(max(right.rows, left.rows * right.share), right.share)
        case _:
            return Estimate(max(left.rows, right.rows))


def value_bytes(dtype: pl.DataType) -> int:
    """The estimated bytes in memory of a value of a dtype."""
    return 8 if dtype.is_numeric() or dtype.is_temporal() else TEXT_BYTES


_column_bytes: WeakKeyDictionary[Operator, dict[str, int]] = WeakKeyDictionary()


def column_bytes(op: Operator, name: str) -> int:
    """The estimated bytes in memory of a value of one of an operator's columns.

    A computed string is assumed to be as long as the longest string that it is computed from; file metadata gives the
    lengths of stored strings, where it has them.
    """
    dtype = schema(op)[name]
    if value_bytes(dtype) != TEXT_BYTES:
        return value_bytes(dtype)
    known = _column_bytes.setdefault(op, {})
    if name not in known:
        known[name] = _text_bytes(op, name)
    return known[name]


def row_bytes(op: Operator) -> int:
    """The estimated bytes in memory of a row of an operator's output."""
    return sum(column_bytes(op, name) for name in schema(op))


def _text_bytes(op: Operator, name: str) -> int:
    match op:
        case Scan(source=FileSource()):
            return dict(op.source.text_bytes).get(name, TEXT_BYTES)  # type: ignore[attr-defined]
        case Project():
            return _made_of(op.input, dict(op.columns)[name])
        case Aggregate():
            calls = dict(op.aggregates)
            if name not in calls:
                return _made_of(op.input, dict(op.keys)[name])
            return max((_made_of(op.input, arg) for arg in calls[name].args), default=TEXT_BYTES)
        case _:
            found = [column_bytes(part, name) for part in op.inputs if name in schema(part)]
            return max(found, default=TEXT_BYTES)


def _made_of(op: Operator, expr: Expr) -> int:
    columns = schema(op)
    return max((column_bytes(op, name) for name in roots(expr) if name in columns), default=0) or TEXT_BYTES


def scanned_bytes(op: Operator) -> int:
    """The estimated bytes in memory of a scan's columns."""
    return int(row_bytes(op) * estimate(op).rows)
