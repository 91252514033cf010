"""``merge``: joins two frames on columns or row labels.

Both sides are projected to column names that are unique over both sides, and joined by a :class:`~craton.plan.operators.Join`.
Over the join, the plan does what pandas does with its result: it drops or fills key columns, marks the columns that may have
missing values, and sorts the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
from pandas.core.reshape.merge import _items_overlap_with_suffix

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.dtypes import can_hold_missing
from craton.pandas.core.execute import resolved_keys
from craton.pandas.core.view import IndexSpec, ObjectColumn, Value, View, index_labels
from craton.pandas.indexing.row_labels import index_kind
from craton.pandas.reshape.merges.merge_categories import text_keys
from craton.pandas.reshape.merges.merge_index import JoinSide, check_labels, coalesced, result_index, with_kept_levels
from craton.pandas.reshape.merges.merge_keys import (
    KeyPair,
    KeyRef,
    MergeKeys,
    comparison_expr,
    key_pair,
    resolve_merge_keys,
    unique_keys,
)
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, Literal
from craton.plan.names import column_names
from craton.plan.operators import (
    JoinHow,
    Operator,
    SortKey,
    Union,
    schema,
)
from craton.refusals import Refusal


@functools.cache
def _indicator_dtype() -> pd.CategoricalDtype:
    """The dtype of the indicator column, which shows the table a row came from, with categories made as in pandas."""
    coded = pd.Categorical([1], categories=[1, 2, 3])
    return coded.rename_categories(["left_only", "right_only", "both"]).dtype


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
    """The view of a merge; for the parameters see :meth:`pandas.DataFrame.merge`.

    Raises
    ------
    Unsupported
        If pandas must do the merge, or raise its error.
    """
    _check(left, right, how, left_index, right_index, sort, indicator)
    anti = how.endswith("_anti")
    if anti and indicator:
        raise Unsupported(Refusal.MERGE_ANTI_INDICATOR)
    kind: JoinHow = how.removesuffix("_anti")  # type: ignore[assignment]
    if left_index or right_index or left.index.names != (None,) or right.index.names != (None,):
        left, right = left.numbered(), right.numbered()
    keys = resolve_merge_keys(left, right, how, on, left_on, right_on, left_index, right_index)
    left = resolved_keys(left, [key.value(left) for key in keys.left])
    right = resolved_keys(right, [key.value(right) for key in keys.right])
    texts = text_keys(left, right, keys, kind, sort)
    left, right = texts.left, texts.right
    pairs = [
        key_pair(one.value(left), other.value(right), left, right)
        for one, other in zip(keys.left, keys.right, strict=True)
    ]
    _check_validate(validate, left, right, pairs)
    if keys.labels_from is not None:
        check_labels(left, right, keys, kind, pairs, sort, anti)
        left, right = (with_kept_levels(side, kind) for side in (left, right))
    labels, kept = _labels(left, right, keys, suffixes, indicator)
    one, other = _sides(left, right, keys, marked=bool(indicator) or anti)
    base: Operator = _join(one, other, kind, pairs)
    if (sort or kind == "outer") and pairs:
        order = zip(_order(one, other, kind, pairs), pairs, strict=True)
        base = build.sort(base, tuple(SortKey(expr, False, pair.nulls_last) for expr, pair in order))
    index = result_index(one, other, keys, kind) if keys.labels_from else IndexSpec()
    if anti:
        # The row labels are positions in the left or right join, before the filter. The other side's columns stay, all null.
        numbered = View(base, (), labels[:0], index).numbered()
        unmatched = _is_unmatched(other.marker if kind == "left" else one.marker)
        base, index = build.filter(numbered.base, unmatched), numbered.index
    lefts = _columns_after_join(one, base, kind in ("right", "outer"))
    rights = _columns_after_join(other, base, kind in ("left", "outer"))
    filled = {
        i: coalesced(one.key(i), other.key(i), kind) if kind in ("right", "outer") else one.key(i)
        for i, shared in enumerate(keys.shared)
        if shared
    }
    for i, key in filled.items():
        if keys.left[i].level and kind in ("inner", "left") and pairs[i].left.dtype != pairs[i].right.dtype:
            raise Unsupported(Refusal.MERGE_LEVEL_DTYPES)
        if not keys.left[i].level:
            lefts[keys.left[i].position] = key
    values = [*lefts, *(rights[i] for i in kept)]
    if indicator:
        values.append(_indicator(one, other))
    if keys.by_level:
        if anti:
            raise Unsupported(Refusal.MERGE_ANTI_LEVEL)
        labels, index = _levels(keys, filled, values, labels)
    rows = left.rows * right.rows if kind == "cross" and left.rows is not None and right.rows is not None else None
    return texts.as_texts(View(base, tuple(values), labels, index, rows))


def _levels(
    keys: MergeKeys, filled: dict[int, Value], values: list[Value], labels: pd.Index
) -> tuple[pd.Index, IndexSpec]:
    """Keep the keys that are levels of the left index: as columns, or as row labels if they are levels on both sides."""
    restored = []
    for i, key in filled.items():
        if keys.left[i].level and keys.right[i].level:
            restored.append((keys.left[i].label, key))
        elif keys.left[i].level:
            values.insert(i, key)
            labels = labels.insert(i, keys.left[i].label)
    if not restored:
        return labels, IndexSpec()
    names, columns = zip(*restored, strict=True)
    return labels, IndexSpec(index_kind(columns), tuple(columns), tuple(names))


def _check(left: View, right: View, how: Any, *flags: Any) -> None:
    if isinstance(left.labels, pd.MultiIndex) or isinstance(right.labels, pd.MultiIndex):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    if how not in ("inner", "left", "right", "outer", "left_anti", "right_anti", "cross"):
        raise Unsupported(Refusal.PARAMETER, f"how={how!r}")
    *booleans, indicator = flags
    if not all(isinstance(flag, bool) for flag in booleans) or not isinstance(indicator, (bool, str)):
        raise Unsupported(Refusal.PARAMETERS, "left_index, right_index, sort and indicator")


def _check_validate(validate: str | None, left: View, right: View, pairs: Sequence[KeyPair]) -> None:
    if validate is None:
        return
    checks = {"1:1": "lr", "one_to_one": "lr", "1:m": "l", "one_to_many": "l", "m:1": "r", "many_to_one": "r"}
    checks |= {"m:m": "", "many_to_many": ""}
    if validate not in checks:
        raise Unsupported(Refusal.PARAMETER, f"validate={validate!r}")
    sides = checks[validate]
    if "l" in sides and not unique_keys([pair.left for pair in pairs], left):
        raise Unsupported(Refusal.MERGE_LEFT_REPEATS)
    if "r" in sides and not unique_keys([pair.right for pair in pairs], right):
        raise Unsupported(Refusal.MERGE_RIGHT_REPEATS)


def _labels(left: View, right: View, keys: MergeKeys, suffixes: Any, indicator: Any) -> tuple[pd.Index, list[int]]:
    """The column labels of the result, and the positions of the right columns that it keeps."""
    dropped = {ref.position for ref, shared in zip(keys.right, keys.shared, strict=True) if shared and not ref.level}
    kept = [i for i in range(len(right.values)) if i not in dropped]
    ours, theirs = left.labels, right.labels
    if indicator:  # pandas first adds a column to both sides, which turns labels that are not text into objects
        ours, theirs = (labels.insert(len(labels), "_left_indicator")[:-1] for labels in (ours, theirs))
    name = indicator if isinstance(indicator, str) else "_merge"
    taken = (name, "_left_indicator", "_right_indicator")
    if indicator and any(label in left.labels or label in right.labels for label in taken):
        raise Unsupported(Refusal.MERGE_INDICATOR_TAKEN)
    suffixed = stand_ins.probe(
        _items_overlap_with_suffix, ours, theirs.take(kept), suffixes, about="suffixes", warned=True
    )
    ours, theirs = suffixed
    result = ours.append(theirs)
    return (result.insert(len(result), name) if indicator else result), kept


def _sides(left: View, right: View, keys: MergeKeys, marked: bool) -> tuple[JoinSide, JoinSide]:
    taken: set[str] = set()
    labelled = keys.labels_from is not None or keys.by_level
    one = _side(left, keys.left, taken, "left" if marked else None, labelled)
    other = _side(right, keys.right, taken, "right" if marked else None, labelled)
    return one, other


def _side(held: View, refs: tuple[KeyRef, ...], taken: set[str], marker: str | None, labelled: bool) -> JoinSide:
    """Project a side to columns with names that are not in ``taken``, and add these names to ``taken``."""
    if not labelled:
        held = replace(held, index=IndexSpec())
    values = [*held.index.values, *held.values]
    names = [_unused_name(name, taken) for name in column_names([*index_labels(held.index), *held.labels])]
    columns: list[tuple[str, Expr]] = [(name, value.read) for name, value in zip(names, values, strict=True)]
    mark = None
    if marker or not columns:
        mark = _unused_name(f"__{marker}__", taken)
        columns.append((mark, Literal(True, pl.Boolean())))
    bare = [value.at(name) for value, name in zip(values, names, strict=True)]
    count = len(held.index.values)
    index = replace(held.index, values=tuple(bare[:count]))
    return JoinSide(View(project_columns(held.base, columns), tuple(bare[count:]), held.labels, index), refs, mark)


def _unused_name(stem: str, taken: set[str]) -> str:
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}@{count}"
    taken.add(name)
    return name


def project_columns(base: Operator, columns: Sequence[tuple[str, Expr]]) -> Operator:
    """A projection to these columns, or its input if that already has exactly these columns."""
    identity = [(name, Column(name, dtype)) for name, dtype in schema(base).items()]
    return base if identity == list(columns) else build.project(base, tuple(columns))


def _join(one: JoinSide, other: JoinSide, kind: JoinHow, pairs: Sequence[KeyPair]) -> Operator:
    return build.join(
        one.view.base,
        other.view.base,
        kind,
        tuple(comparison_expr(one.key(i), pair.compared) for i, pair in enumerate(pairs)),
        tuple(comparison_expr(other.key(i), pair.compared) for i, pair in enumerate(pairs)),
        nulls_equal=any(pair.both_may_be_missing for pair in pairs),
    )


def _order(one: JoinSide, other: JoinSide, kind: JoinHow, pairs: Sequence[KeyPair]) -> list[Expr]:
    """The keys by which the result is sorted."""
    if kind == "outer":
        return [
            Call(
                "coalesce",
                (comparison_expr(one.key(i), pair.compared), comparison_expr(other.key(i), pair.compared)),
                pair.compared,
            )
            for i, pair in enumerate(pairs)
        ]
    side = other if kind == "right" else one
    # pandas compares integers that are joined with floats as floats: those that are equal as floats keep their order.
    return [
        comparison_expr(side.key(i), pair.compared) if pair.compared.is_float() else side.key(i).clean.expr
        for i, pair in enumerate(pairs)
    ]


def _columns_after_join(side: JoinSide, base: Operator, unmatched: bool) -> list[Value]:
    """The columns of one side after a join; ``unmatched`` if rows of the other side may have no match."""
    if not unmatched:
        return list(side.view.values)
    # If a column has no missing values before the join, those that it has afterwards are exactly the ones that the join added. The
    # keys are tried first.
    candidates = [*(side.key(i) for i in range(len(side.keys))), *side.view.values]
    witness = next((value for value in candidates if not value.clean.nulls and isinstance(value.expr, Column)), None)
    return [with_possible_missing(value, base, witness) for value in side.view.values]


def with_possible_missing(value: Value, base: Operator, witness: Value | None = None) -> Value:
    """A column of ``base`` after an operation that may have added missing values, which may change its dtype.

    Parameters
    ----------
    witness
        A column of ``base`` whose missing values are exactly those that the operation added.
    """
    if isinstance(value.expr, ObjectColumn):
        value.expr.check_missing()
    if can_hold_missing(value.dtype):
        return replace(value, nulls=True)
    column = witness if witness is not None and not value.nulls else value
    assert isinstance(column.expr, Column)
    source: tuple[Operator, str] = (base, column.expr.name)
    if value.source is not None:
        # A missing value in either column changes the dtype, even if its row is dropped later.
        boolean = [_null_flag(op, name) for op, name in (value.source, source)]
        source = (Union(tuple(boolean)), "missing")
    return replace(value, nulls=True, source=source)


def _null_flag(op: Operator, name: str) -> Operator:
    """A boolean column that is null where another column is null, and True elsewhere."""
    missing = Call("is_null", (op.column(name),), pl.Boolean())
    flag = Call("when", (missing, Literal(None, pl.Boolean()), Literal(True, pl.Boolean())), pl.Boolean())
    return build.project(op, (("missing", flag),))


def _is_unmatched(marker: str | None) -> Expr:
    assert marker is not None
    return Call("is_null", (Column(marker, pl.Boolean()),), pl.Boolean())


def _indicator(one: JoinSide, other: JoinSide) -> Value:
    """The indicator column, as codes of left_only, right_only and both."""
    codes = [Literal(code, pl.Int32()) for code in range(3)]
    matched = Call("when", (_is_unmatched(other.marker), codes[0], codes[2]), pl.Int32())
    return Value(
        Call("when", (_is_unmatched(one.marker), codes[1], matched), pl.Int32()), _indicator_dtype(), nulls=False
    )
