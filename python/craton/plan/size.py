"""Estimates of the rows and bytes that operators produce, derived bottom-up beside the tree.

The estimates start from file metadata and use fixed selectivities, or the numbers of distinct values that the manifests of durable sets
have. Without these, they assume that a join is on a key and its foreign key, so that a filter on one side keeps the same share of the other
side's rows. Plans must stay correct when an estimate is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import polars as pl

from craton.plan.expr import Call, Column, Expr, Literal, Values, column_first, conjuncts, roots, walk
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
from craton.plan.sketches import estimated_distinct
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
            kept = 1.0 if op.predicate is None else selectivity(op.predicate, op)
            return Estimate((UNKNOWN_ROWS if rows is None else rows) * kept, kept)
        case Project() | Window() | RowNumber() | Sort() | Attach():
            return estimate(op.input)
        case Filter():
            below, kept = estimate(op.input), selectivity(op.predicate, op.input)
            return Estimate(below.rows * kept, below.share * kept)
        case Join():
            return _joined(op)
        case Aggregate():
            return _grouped(op.input, [key for _, key in op.keys]) if op.keys else Estimate(1)
        case Distinct():
            return _grouped(op.input, [op.input.column(name) for name in op.subset or schema(op.input)])
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


def _grouped(op: Operator, keys: Sequence[Expr]) -> Estimate:
    """The estimated number of groups of an operator's rows: the different keys among them.

    Each key is assumed to be as frequent, and to be left by filters if they keep any of its rows, which they choose by chance.
    """
    below = estimate(op)
    most = most_distinct(op, keys)
    if most is None:
        return Estimate(below.rows / 4, below.share)
    share = min(below.share, 1.0)
    frequency = max(below.rows / max(share, 1e-9) / most, 1.0)
    groups = min(most * (1 - (1 - share) ** frequency), below.rows)
    exact = all(isinstance(key, Column) for key in keys)
    return Estimate(groups if exact else min(groups, below.rows / 4), below.share)


def most_distinct(op: Operator, exprs: Sequence[Expr]) -> float | None:
    """The estimated number of different combinations that some expressions may have, from sketches of the columns that they are made of.

    ``None`` if it is not known of a column.
    """
    if not _has_sketches(op):
        return None
    count = 1.0
    columns = {part for expr in exprs for part in walk(expr) if isinstance(part, Column)}
    for column in columns:
        known = _counted(*found) if (found := _origin(op, column)) is not None else None
        if known is None:
            return None
        count *= max(known, 1.0)
    return count if columns else None


@derived
def _has_sketches(op: Operator) -> bool:
    """Whether an operator reads files with sketches."""
    if isinstance(op, Scan):
        return isinstance(op.source, FileSource) and op.source.layout is not None and bool(op.source.layout.sketches)
    return any(map(_has_sketches, op.inputs))


def _counted(op: Operator, name: str) -> float | None:
    """The estimated number of distinct values of a column of a scan, if a manifest has sketches of it."""
    if not isinstance(op, Scan) or not isinstance(op.source, FileSource) or op.source.layout is None:
        return None
    texts = op.source.layout.sketches.get(name)
    return None if texts is None else estimated_distinct(texts)


def distinct_share(op: Operator, key: Expr) -> float | None:
    """The share of a key's values that are distinct: from a sample of the data in memory that the key comes from, or from sketches.

    ``None`` if the key comes from neither. The sample overestimates: a value can occur once in the sample and again outside it. A share
    near 1 means only that there are far more distinct values than :data:`SAMPLED_ROWS`.
    """
    found = _origin(op, key)
    if found is None:
        return None
    match found:
        case RowNumber(), _:
            return 1.0
        case Scan(source=MemorySource() | KeptSource() as source), name:
            return _sampled(source, name)
        case Scan(source=FileSource() as source) as scan, name:
            count = _counted(scan, name)
            return None if count is None else min(count / max(source.rows or 0, 1), 1.0)
        case _:
            return None


def _origin(op: Operator, key: Expr) -> tuple[Scan | RowNumber, str] | None:
    """The scan or the numbers of rows that a column comes from, and its name there; None if it is computed."""
    while isinstance(key, Column):
        match op:
            case Scan():
                return op, key.name
            case Project():
                key = dict(op.columns)[key.name]
                op = op.input
            case Join():
                op = op.left if key.name in schema(op.left) else op.right
            case RowNumber(name=key.name):
                return op, key.name
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


def selectivity(predicate: Expr, op: Operator | None = None) -> float:
    """The estimated share of rows that a predicate keeps.

    Parameters
    ----------
    op
        The operator with the columns that the predicate reads, if its sketches are to be used.
    """
    if is_long([predicate]):
        return 0.5
    share = 1.0
    for part in conjuncts(predicate):
        share *= _kept(part, op)
    return share


def _kept(part: Expr, op: Operator | None) -> float:
    if not isinstance(part, Call):
        return 0.5
    if part.function == "not":
        inner = part.args[0]
        return max(1.0 - _kept(inner, op), 0.1) if isinstance(inner, Call) else 0.5
    if part.function == "or":
        return min(sum(selectivity(arg, op) for arg in part.args), 1.0)
    if part.function in ("eq", "is_in") and op is not None and len(part.args) == 2:
        column, _, constant = column_first(part)
        most = most_distinct(op, [column]) if isinstance(column, Column) else None
        if most is not None and isinstance(constant, Literal | Values):
            return min((len(constant.series) if isinstance(constant, Values) else 1) / most, 1.0)
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
        case "inner" if (pairs := _pairs(op)) is not None:
            return Estimate(pairs, left.share * right.share)
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


def _pairs(op: Join) -> float | None:
    """The estimated rows of a join by one key: all pairs of rows, if each value of the side with more different ones is as frequent."""
    if len(op.left_on) != 1:
        return None
    left, right = most_distinct(op.left, op.left_on), most_distinct(op.right, op.right_on)
    if left is None or right is None or not all(isinstance(key, Column) for key in (*op.left_on, *op.right_on)):
        return None
    return estimate(op.left).rows * estimate(op.right).rows / max(left, right)


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
