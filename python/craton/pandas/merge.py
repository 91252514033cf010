"""``merge``: two frames joined on columns.

Both sides are projected to names that are unique over both, a :class:`~craton.plan.operators.Join` puts them together,
and what pandas does with its result is spelled out over it: which key columns stay, which are filled from the other
side, which columns may have met missing values, in which order the rows come.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import polars as pl
from pandas.core.reshape.merge import _items_overlap_with_suffix

from craton.errors import Unsupported
from craton.pandas.dtypes import holds_missing, is_float
from craton.pandas.merge_keys import (
    KeyPair,
    KeyRef,
    as_list,
    common_labels,
    compared,
    definite,
    key_pair,
    key_refs,
    unique_keys,
)
from craton.pandas.view import IndexSpec, Value, View, column_names
from craton.plan.expr import Call, Column, Expr, Literal
from craton.plan.operators import Filter, Join, JoinHow, Operator, Project, Sort, SortKey, Union, schema

INDICATOR = pd.Categorical([1], categories=[1, 2, 3]).rename_categories(["left_only", "right_only", "both"]).dtype


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join, with every column a bare column of ``view.base``, named apart from the other side's."""

    view: View
    keys: tuple[KeyRef, ...]
    marker: str | None

    def key(self, i: int) -> Value:
        """The i-th key's column."""
        return self.keys[i].value(self.view)


def merge(
    left: View,
    right: View,
    how: str = "inner",
    on: Any = None,
    left_on: Any = None,
    right_on: Any = None,
    left_index: bool = False,
    right_index: bool = False,
    sort: bool = False,
    suffixes: Any = ("_x", "_y"),
    indicator: Any = False,
    validate: str | None = None,
) -> View:
    """The view of a merge; parameters as :meth:`pandas.DataFrame.merge`.

    Raises
    ------
    Unsupported
        For what pandas must do, errors included.
    """
    if isinstance(left.labels, pd.MultiIndex) or isinstance(right.labels, pd.MultiIndex):
        raise Unsupported("MultiIndex columns")
    if not isinstance(sort, bool) or not isinstance(indicator, (bool, str)):
        raise Unsupported("an odd parameter")
    if left_index or right_index:
        raise Unsupported("a merge on the index")
    if how == "cross":
        if on is not None or left_on is not None or right_on is not None:
            raise Unsupported("a cross merge with keys")
        left_refs: list[KeyRef] = []
        right_refs: list[KeyRef] = []
    elif how in ("inner", "left", "right", "outer", "left_anti", "right_anti"):
        left_refs, right_refs = _refs(left, right, on, left_on, right_on)
    else:
        raise Unsupported(f"how={how!r}")
    kind: JoinHow = how.removesuffix("_anti")  # type: ignore[assignment]
    pairs = [
        key_pair(one.value(left), other.value(right), left, right)
        for one, other in zip(left_refs, right_refs, strict=True)
    ]
    _validated(validate, left, right, pairs)
    shared = [_filled(one, other) for one, other in zip(left_refs, right_refs, strict=True)]
    labels, kept = _labels(left, right, right_refs, shared, suffixes, indicator)
    if kind in ("right", "outer"):
        for pair, filled in zip(pairs, shared, strict=True):
            if filled and pair.left.dtype != pair.right.dtype:
                raise Unsupported("keys of two dtypes, to be filled from each other")
            if filled:
                definite(pair.left), definite(pair.right)
    elif any(one.label != other.label and f for one, other, f in zip(left_refs, right_refs, shared, strict=True)):
        if any(one.label in right.labels for one in left_refs if not isinstance(one.label, str)):
            raise Unsupported("keys whose labels are not strings and overlap")
    marked = bool(indicator) or how.endswith("_anti")
    one, other = _sides(left, right, left_refs, right_refs, marked)
    join = _join(one, other, kind, pairs)
    base = join
    if (sort or kind == "outer") and pairs:
        base = Sort(join, tuple(SortKey(e, False, p.nulls_last) for e, p in zip(_order(one, other, kind), pairs, strict=True)))
    if how.endswith("_anti"):
        return _anti(base, one, other, kind, kept, shared, labels)
    lefts = [_met(value, base, kind in ("right", "outer")) for value in one.view.values]
    rights = [_met(value, base, kind in ("left", "outer")) for value in other.view.values]
    for i, filled in enumerate(shared):
        if filled and kind in ("right", "outer"):
            lefts[left_refs[i].position] = _coalesced(one.key(i), other.key(i), kind)
    values = [*lefts, *(rights[i] for i in kept)]
    if indicator:
        values.append(_indicator(one, other))
    rows = left.rows * right.rows if kind == "cross" and left.rows is not None and right.rows is not None else None
    return View(base, tuple(values), labels, IndexSpec(), rows)


def _refs(left: View, right: View, on: Any, left_on: Any, right_on: Any) -> tuple[list[KeyRef], list[KeyRef]]:
    if on is not None:
        if left_on is not None or right_on is not None:
            raise Unsupported("keys given twice")
        left_on = right_on = as_list(on)
    elif left_on is None and right_on is None:
        left_on = right_on = common_labels(left, right)
    elif left_on is None or right_on is None:
        raise Unsupported("keys of one side only")
    left_labels, right_labels = as_list(left_on), as_list(right_on)
    if not left_labels or not right_labels or len(left_labels) != len(right_labels):
        raise Unsupported("another number of keys on the left than on the right")
    return key_refs(left, left_labels), key_refs(right, right_labels)


def _filled(left: KeyRef, right: KeyRef) -> bool:
    """Whether pandas fills the left key column from the right one; labels that are no strings it does not compare."""
    if isinstance(left.label, str) and isinstance(right.label, str):
        return left.label == right.label
    if left.label == right.label:
        return True
    raise Unsupported("keys of two labels that are not strings")


def _validated(validate: str | None, left: View, right: View, pairs: Sequence[KeyPair]) -> None:
    if validate is None:
        return
    checks = {"1:1": "lr", "one_to_one": "lr", "1:m": "l", "one_to_many": "l", "m:1": "r", "many_to_one": "r"}
    checks |= {"m:m": "", "many_to_many": ""}
    if validate not in checks:
        raise Unsupported(f"validate={validate!r}")
    sides = checks[validate]
    if "l" in sides and not unique_keys([pair.left for pair in pairs], left):
        raise Unsupported("merge keys that are not unique on the left")
    if "r" in sides and not unique_keys([pair.right for pair in pairs], right):
        raise Unsupported("merge keys that are not unique on the right")


def _labels(
    left: View, right: View, refs: Sequence[KeyRef], shared: Sequence[bool], suffixes: Any, indicator: Any
) -> tuple[pd.Index, list[int]]:
    """The labels of the result, and which of the right's columns stay."""
    dropped = {ref.position for ref, drop in zip(refs, shared, strict=True) if drop}
    kept = [i for i in range(len(right.values)) if i not in dropped]
    labels = right.labels.take(kept)
    name = indicator if isinstance(indicator, str) else "_merge"
    if indicator and any(taken in left.labels or taken in right.labels for taken in (name, "_left_indicator", "_right_indicator")):
        raise Unsupported("the indicator's name is taken")
    try:
        ours, theirs = _items_overlap_with_suffix(left.labels, labels, suffixes)
    except Exception as error:
        raise Unsupported(f"suffixes: {error}") from error
    result = ours.append(theirs)
    return (result.insert(len(result), name) if indicator else result), kept


def _sides(left: View, right: View, left_refs: list[KeyRef], right_refs: list[KeyRef], marked: bool) -> tuple[Side, Side]:
    taken: set[str] = set()
    one = _side(left, left_refs, taken, "left" if marked else None)
    other = _side(right, right_refs, taken, "right" if marked else None)
    return one, other


def _side(held: View, refs: Sequence[KeyRef], taken: set[str], marker: str | None) -> Side:
    """Project a side to its columns, under names that are not ``taken``, which is added to."""
    names = []
    for stem in column_names(held.labels):
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}@{count}"
        taken.add(name)
        names.append(name)
    columns: list[tuple[str, Expr]] = [(name, value.expr) for name, value in zip(names, held.values, strict=True)]
    mark = None
    if marker or not columns:
        mark = f"__{marker}__"
        while mark in taken:
            mark += "_"
        taken.add(mark)
        columns.append((mark, Literal(True, pl.Boolean())))
    values = tuple(value.at(name) for value, name in zip(held.values, names, strict=True))
    return Side(View(named(held.base, columns), values, held.labels), tuple(refs), mark)


def named(base: Operator, columns: Sequence[tuple[str, Expr]]) -> Operator:
    """A projection, or its input where it would change nothing."""
    identity = [(name, Column(name, dtype)) for name, dtype in schema(base).items()]
    return base if identity == list(columns) else Project(base, tuple(columns))


def _join(one: Side, other: Side, kind: JoinHow, pairs: Sequence[KeyPair]) -> Join:
    return Join(
        one.view.base,
        other.view.base,
        kind,
        tuple(compared(one.key(i), pair.compared) for i, pair in enumerate(pairs)),
        tuple(compared(other.key(i), pair.compared) for i, pair in enumerate(pairs)),
        nulls_equal=any(pair.may_both_miss for pair in pairs),
    )


def _order(one: Side, other: Side, kind: JoinHow) -> list[Expr]:
    """The sorted keys of a result."""
    if kind == "outer":
        return [
            Call("coalesce", (one.key(i).clean.expr, other.key(i).clean.expr), one.key(i).physical)
            for i in range(len(one.keys))
        ]
    side = other if kind == "right" else one
    return [side.key(i).clean.expr for i in range(len(side.keys))]


def _met(value: Value, base: Operator, unmatched: bool) -> Value:
    """A column of one side after a join in which rows may be left without a match on that side."""
    return missing_may_come(value, base) if unmatched else value


def missing_may_come(value: Value, base: Operator) -> Value:
    """A bare column of ``base`` that an operation may have put missing values in; its dtype may depend on whether it did."""
    if holds_missing(value.dtype):
        return replace(value, nulls=True)
    assert isinstance(value.expr, Column)
    source: tuple[Operator, str] = (base, value.expr.name)
    if value.source is not None:
        # Either place decides: a missing value that was there once made the dtype, also if the row is gone.
        parts = [Project(op, (("missing", op.column(name)),)) for op, name in (value.source, source)]
        if schema(parts[0]) != schema(parts[1]):
            raise Unsupported("a column whose dtype depends on the data twice")
        source = (Union(tuple(parts)), "missing")
    return replace(value, nulls=True, source=source)


def _coalesced(left: Value, right: Value, kind: JoinHow) -> Value:
    """A key column of a right or outer join: the left's where there is one, else the right's."""
    if kind == "right" and not is_float(left.dtype):
        return right
    expr = Call("coalesce", (left.clean.expr, right.clean.expr), left.physical)
    return Value(expr, left.dtype, left.clean.nulls or right.clean.nulls)


def _missing(marker: str | None) -> Expr:
    assert marker is not None
    return Call("is_null", (Column(marker, pl.Boolean()),), pl.Boolean())


def _indicator(one: Side, other: Side) -> Value:
    """The indicator's codes: left_only, right_only, both."""
    codes = [Literal(code, pl.Int32()) for code in range(3)]
    matched = Call("when", (_missing(other.marker), codes[0], codes[2]), pl.Int32())
    return Value(Call("when", (_missing(one.marker), codes[1], matched), pl.Int32()), INDICATOR, nulls=False)


def _anti(
    base: Operator, one: Side, other: Side, kind: JoinHow, kept: Sequence[int], shared: Sequence[bool], labels: pd.Index
) -> View:
    """The rows of one side without a match; the other side's columns are there, with nothing but missing values.

    The row labels are positions in the join that the rows come from.
    """
    if len(labels) != len(one.view.values) + len(kept):
        raise Unsupported("an anti merge with an indicator")
    held = View(base, (*one.view.values, *other.view.values), labels).numbered()
    rows = Filter(held.base, _missing(other.marker if kind == "left" else one.marker))
    lefts = [_met(value, rows, kind == "right") for value in one.view.values]
    rights = [_met(value, rows, kind == "left") for value in other.view.values]
    if kind == "right":
        for i, filled in enumerate(shared):
            if filled:
                lefts[one.keys[i].position] = _coalesced(one.key(i), other.key(i), kind)
    return View(rows, (*lefts, *(rights[i] for i in kept)), labels, held.index)


def as_frame(held: View, name: Hashable) -> View:
    """A Series' view as a frame's of one column."""
    return replace(held, labels=pd.Index([name]))
