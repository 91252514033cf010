"""Joins on row labels: decides which of them a plan can do exactly, and which row labels the result has.

pandas uses ``Index.join`` for them, whose row order and labels depend on the data in a few cases; pandas itself does those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import polars as pl

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.dtypes import family, kind_of, same_dtype
from craton.pandas.core.execute import has_rows, row_source
from craton.pandas.core.view import IndexSpec, Value, View
from craton.pandas.reshape.merges.merge_keys import KeyPair, KeyRef, MergeKeys
from craton.plan import build
from craton.plan.expr import Call, roots, substitute
from craton.plan.operators import AggregateCall, Filter, JoinHow, Project, RowNumber, Slice, Window
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join. Each value is a plain column of ``view.base``, with a name that the other side does not have."""

    view: View
    keys: tuple[KeyRef, ...]
    marker: str | None

    def key(self, i: int) -> Value:
        """The column of the i-th key."""
        return self.keys[i].value(self.view)


def coalesced(left: Value, right: Value, kind: JoinHow) -> Value:
    """A key column of a right or outer join: the left key, or the right key in rows without a left one."""
    if not same_dtype(left.dtype, right.dtype) or not left.definite or not right.definite:
        raise Unsupported(Refusal.MERGE_KEY_FILLED)
    if kind == "right" and not left.physical.is_float():
        return right  # equal keys are identical, except for zeros, whose signs differ
    expr = Call("coalesce", (left.clean.expr, right.clean.expr), left.physical)
    return Value(expr, left.dtype, left.clean.nulls or right.clean.nulls)


def check_labels(
    left: View, right: View, keys: MergeKeys, kind: JoinHow, pairs: Sequence[KeyPair], sort: bool, anti: bool
) -> None:
    """Refuse index joins whose row labels or row order depend on the data in pandas.

    Raises
    ------
    Unsupported
        For such a join.
    """
    ours, theirs = left.index, right.index
    ours.refuse_frequency()
    theirs.refuse_frequency()
    if keys.labels_from != "both":
        side, other = (ours, theirs) if keys.labels_from == "left" else (theirs, ours)
        if kind == "outer" or (kind in ("left", "right") and kind != keys.labels_from):
            raise Unsupported(Refusal.MERGE_INDEX_MISSING)
        if len(pairs) > 1 and any(pair.may_be_missing and _may_differ(pair) for pair in pairs):
            raise Unsupported(Refusal.MERGE_MISSING_LABELS)
        alike = side.kind != "multi" and _types(side) == _types(other)
        if kind == "inner" and not alike and not has_rows(left if side is ours else right):
            raise Unsupported(Refusal.MERGE_INNER_EMPTY)
        return
    if any(
        not same_dtype(pair.left.dtype, pair.right.dtype) or not pair.left.definite or not pair.right.definite
        for pair in pairs
    ):
        raise Unsupported(Refusal.MERGE_INDEX_DTYPES)
    if kind in ("inner", "outer") and ours.names != theirs.names:
        raise Unsupported(Refusal.MERGE_INDEX_NAMES)
    if kind == "inner" and ours.kind == theirs.kind == "range" and _may_descend(left):
        raise Unsupported(Refusal.MERGE_DESCENDING)
    several = len(pairs) > 1
    if kind == "outer" and not several and kind_of(pairs[0].left.dtype) in ("m", "M"):
        raise Unsupported(Refusal.MERGE_INDEX_DTYPES)  # pandas infers the frequency of the labels
    if kind == "outer" and not (has_rows(left) and has_rows(right)):
        raise Unsupported(Refusal.MERGE_INNER_EMPTY)  # pandas sorts the labels of the other side, and not stably
    if (kind == "outer" or sort) and any(pair.may_be_missing and (several or not pair.nulls_last) for pair in pairs):
        raise Unsupported(Refusal.MERGE_MISSING_LABELS)
    if anti and several:
        raise Unsupported(Refusal.MERGE_ANTI_LEVELS)
    if several:
        _check_levels(left, right, kind)


def _may_differ(pair: KeyPair) -> bool:
    """Whether missing values match missing labels of a MultiIndex, or pandas fails, depending on the position of the label."""
    return pair.both_may_be_missing or family(pair.left.dtype) in ("masked", "arrow")


def _check_levels(left: View, right: View, kind: JoinHow) -> None:
    """Refuse joins of MultiIndexes for which pandas' result has other levels than :func:`result_index` gives it.

    In pandas, an outer join keeps the levels of the left index if both indexes are equal, or if the left one has all labels of the
    right one. Otherwise the result has the sorted levels of both. In both cases these are the levels of a new MultiIndex of the
    result's rows only if each level is sorted, and each of its labels occurs in a row.
    """
    if kind == "outer" and not (_has_levels_of_rows(left) and _has_levels_of_rows(right)):
        raise Unsupported(Refusal.MERGE_OUTER_LEVELS)
    if kind == "inner" and not has_rows(right):
        raise Unsupported(Refusal.MERGE_INNER_EMPTY)


def _has_levels_of_rows(held: View) -> bool:
    """Whether the levels of a MultiIndex equal those of a new MultiIndex of its rows. For levels in memory, this runs a query."""
    index = held.index
    if index.sources:
        rows = row_source(held.base)
        return all(
            source.ordered
            and not (source.missing or source.ranged)
            and source.additional is None
            and row_source(source.base) == rows
            for source in index.sources
        )
    if not all(level.is_monotonic_increasing and not level.hasnans for level in index.levels):
        return False
    if any(isinstance(level, pd.RangeIndex) for level in index.levels):
        return False
    if not index.levels:
        return True
    names = [f"level{i}" for i in range(len(index.values))]
    labels = build.project(
        held.base, tuple((name, value.clean.expr) for name, value in zip(names, index.values, strict=True))
    )
    counts = tuple((name, AggregateCall("n_unique", (labels.column(name),), pl.Int64())) for name in names)
    return collect_rows([build.aggregate(labels, (), counts)])[0].row(0) == tuple(map(len, index.levels))


def with_kept_levels(side: View, kind: JoinHow) -> View:
    """One side of a join on an index. An inner join drops rows, but the result keeps the levels of its MultiIndex."""
    return side.with_levels() if kind == "inner" and side.index.kind == "multi" else side


def _types(index: IndexSpec) -> list[Any]:
    return [index.kind == "multi", index.names, [value.dtype for value in index.values]]


def _may_descend(held: View) -> bool:
    """Whether the labels of a range may descend. If the plan does not show it, the first two labels are computed."""
    base, label = held.base, held.index.values[0].expr
    while isinstance(base, (Project, Window, Filter, Slice)):
        if isinstance(base, Project):
            label = substitute(label, dict(base.columns))
        base = base.input
    if isinstance(base, RowNumber) and roots(label) == {base.name}:
        return False
    first = Slice(build.project(held.base, (("label", held.index.values[0].expr),)), 0, 2)
    labels = collect_rows([first], ordered=True)[0].get_column("label").to_list()
    return len(labels) == 2 and labels[0] > labels[1]


def result_index(one: JoinSide, other: JoinSide, keys: MergeKeys, kind: JoinHow) -> IndexSpec:
    """The row labels after a join on an index."""
    ours, theirs = one.view.index, other.view.index
    if keys.labels_from == "left" or (keys.labels_from == "both" and kind in ("left", "inner")):
        return ours
    if keys.labels_from == "right" or kind == "right":
        return theirs
    both = "range" if ours.kind == theirs.kind == "range" else "multi" if ours.kind == "multi" else "labels"
    values = tuple(coalesced(one.key(i), other.key(i), kind) for i in range(len(keys.left)))
    return IndexSpec(both, values, ours.names)  # type: ignore[arg-type]
