"""Resolves the key arguments of a merge to pairs of columns.

If pandas would raise or warn (for unknown labels, ambiguous names, incompatible dtypes), resolving raises
:class:`~craton.errors.Unsupported`, so that the call falls back and pandas itself raises or warns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from typing import Literal as OneOf

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.types import is_hashable

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.dtypes import DtypeObj, distinguishes_signed_zeros, family, physical
from craton.pandas.core.view import Value, View
from craton.plan import build
from craton.plan.expr import Call, Expr, Literal
from craton.plan.operators import AggregateCall
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class KeyRef:
    """The place of a key on one side: a column, or a level of the row labels.

    Parameters
    ----------
    label
        The label that the user gave; ``None`` if all levels of the index are keys.
    position
        The number of the column or of the level.
    level
        Whether it is a level.
    """

    label: Hashable
    position: int
    level: bool = False

    def value(self, held: View) -> Value:
        """The column or level."""
        return held.index.values[self.position] if self.level else held.values[self.position]


def key_refs(held: View, labels: Sequence[Any]) -> list[KeyRef]:
    """Find the columns or levels with the given labels.

    Raises
    ------
    Unsupported
        If a label is unknown, ambiguous, or an array.
    """
    refs = []
    for label in labels:
        if not is_hashable(label) or isinstance(label, (pd.Series, pd.Index, np.ndarray)):
            raise Unsupported(Refusal.MERGE_KEY_ARRAY)
        if isinstance(label, (bool, np.bool_)):
            raise Unsupported(Refusal.MERGE_KEY_BOOL)
        found = held.positions(label)
        levels = held.index.levels_named(label)
        if len(found) + len(levels) != 1:
            raise Unsupported(Refusal.NO_COLUMN, repr(label))
        if levels:
            held.index.refuse_non_string_names()
        refs.append(KeyRef(label, levels[0], level=True) if levels else KeyRef(label, found[0]))
    if len({ref.label for ref in refs}) != len(refs):
        raise Unsupported(Refusal.MERGE_KEY_TWICE)
    return refs


def level_refs(held: View) -> list[KeyRef]:
    """All levels of an index, for a join on the whole index."""
    return [KeyRef(None, i, level=True) for i in range(len(held.index.values))]


@dataclass(frozen=True, slots=True)
class MergeKeys:
    """The keys of a merge.

    Parameters
    ----------
    left, right
        The keys of each side, in pairs; empty for a cross join.
    labels_from
        The side whose row labels the result has: ``left``, ``right``, ``both`` (if the indexes are joined to each other), or
        ``None`` for a new default index.
    """

    left: tuple[KeyRef, ...]
    right: tuple[KeyRef, ...]
    labels_from: OneOf["left", "right", "both"] | None = None

    @property
    def shared(self) -> list[bool]:
        """For each pair of keys, whether they have the same label, so that the result has one column for both."""
        return [
            one.label is not None and one.label == other.label for one, other in zip(self.left, self.right, strict=True)
        ]

    @property
    def by_level(self) -> bool:
        """Whether a key is a level of an index that the user named."""
        return self.labels_from is None and any(ref.level for ref in (*self.left, *self.right))


def resolve_merge_keys(
    left: View, right: View, how: str, on: Any, left_on: Any, right_on: Any, left_index: bool, right_index: bool
) -> MergeKeys:
    """Resolve the key arguments of a merge. Row labels that are keys must already be columns of the views.

    Raises
    ------
    Unsupported
        For arguments that pandas rejects, and for keys that a plan cannot join on.
    """
    if how == "cross":
        if left_index or right_index or on is not None or left_on is not None or right_on is not None:
            raise Unsupported(Refusal.MERGE_CROSS_KEYS)
        return MergeKeys((), ())
    if left_index or right_index:
        return _index_keys(left, right, on, left_on, right_on, left_index, right_index)
    if on is not None:
        if left_on is not None or right_on is not None:
            raise Unsupported(Refusal.MERGE_KEY_TWICE)
        left_on = right_on = on
    elif left_on is None and right_on is None:
        left_on = right_on = common_labels(left, right)
    elif left_on is None or right_on is None:
        raise Unsupported(Refusal.MERGE_ONE_SIDE)
    ours, theirs = as_list(left_on), as_list(right_on)
    if not ours or not theirs or len(ours) != len(theirs):
        raise Unsupported(Refusal.MERGE_KEY_COUNT)
    keys = MergeKeys(tuple(key_refs(left, ours)), tuple(key_refs(right, theirs)))
    for one, other, shared in zip(keys.left, keys.right, keys.shared, strict=True):
        if not shared and not (isinstance(one.label, str) and isinstance(other.label, str)):
            raise Unsupported(Refusal.MERGE_KEY_LABELS)
    return keys


def _index_keys(
    left: View, right: View, on: Any, left_on: Any, right_on: Any, left_index: bool, right_index: bool
) -> MergeKeys:
    if on is not None or (left_index and left_on is not None) or (right_index and right_on is not None):
        raise Unsupported(Refusal.MERGE_KEY_TWICE)
    if left_index and right_index:
        if left_on is not None or right_on is not None:
            raise Unsupported(Refusal.MERGE_KEY_TWICE)
        if (left.index.kind == "multi" or right.index.kind == "multi") and left.index.names != right.index.names:
            raise Unsupported(Refusal.MERGE_LEVEL_NAMES)
        return MergeKeys(tuple(level_refs(left)), tuple(level_refs(right)), "both")
    columns, labels = (right, left) if left_index else (left, right)
    names = as_list(right_on if left_index else left_on)
    if not names or len(names) != len(labels.index.values):
        raise Unsupported(Refusal.MERGE_KEY_LEVELS)
    refs, levels = tuple(key_refs(columns, names)), tuple(level_refs(labels))
    if any(ref.label in labels.labels for ref in refs):
        raise Unsupported(Refusal.MERGE_KEY_BESIDE_INDEX)
    return MergeKeys(levels, refs, "right") if left_index else MergeKeys(refs, levels, "left")


def as_list(labels: Any) -> list[Any] | None:
    """Labels as a list. As in pandas, a tuple has several labels, and any object but a list or tuple is one label."""
    if labels is None:
        return None
    return list(labels) if isinstance(labels, (list, tuple)) else [labels]


def common_labels(left: View, right: View) -> list[Hashable]:
    """The labels that both sides have: the default keys."""
    common = left.labels.intersection(right.labels)
    if len(common) == 0 or not common.is_unique:
        raise Unsupported(Refusal.MERGE_NO_KEYS)
    return list(common)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One key of a join: the columns of both sides, and the dtype in which they are compared."""

    left: Value
    right: Value
    compared: pl.DataType

    @property
    def both_may_be_missing(self) -> bool:
        """Whether both sides may have missing values, which match each other in pandas."""
        return self.left.clean.nulls and self.right.clean.nulls

    @property
    def may_be_missing(self) -> bool:
        """Whether either side may have missing values."""
        return self.left.clean.nulls or self.right.clean.nulls

    @property
    def nulls_last(self) -> bool:
        """Whether sorted keys have missing values last. They are first for dates and categories, which pandas sorts as integers."""
        kind = family(self.left.dtype)
        return kind != "category" and not (kind == "numpy" and self.left.dtype.kind in "mM")


def key_pair(left: Value, right: Value, left_base: View, right_base: View) -> KeyPair:
    """Pair two key columns.

    Raises
    ------
    Unsupported
        If pandas would raise or warn, or if the engine would compare the columns differently.
    """
    for value in (left, right):
        if not value.definite and value.dtype.kind == "b":
            raise Unsupported(Refusal.MERGE_KEY_BOOLEAN)
        if distinguishes_signed_zeros(value.dtype):
            raise Unsupported(Refusal.MERGE_KEY_ARROW_FLOATS)
    if left.dtype == right.dtype:
        if family(left.dtype) == "category":
            _same_categories(left.dtype, right.dtype)
        if left.physical != right.physical:
            raise Unsupported(Refusal.MERGE_KEY_DTYPES, f"{left.physical} and {right.physical}")
        return KeyPair(left, right, left.physical)
    common = _common_numeric(left.dtype, right.dtype)
    for value, other, view in ((left, right, left_base), (right, left, right_base)):
        if value.dtype.kind == "f" and other.dtype.kind in "iu":
            _check_integral(value, physical(other.dtype), view)
    return KeyPair(left, right, common)


def _same_categories(left: Any, right: Any) -> None:
    if left.ordered != right.ordered or not left.categories.equals(right.categories):
        raise Unsupported(Refusal.MERGE_KEY_CATEGORIES)


def _common_numeric(left: DtypeObj, right: DtypeObj) -> pl.DataType:
    """The dtype in which pandas compares two numeric keys."""
    kinds = left.kind + right.kind
    if not set(kinds) <= set("iuf") or "arrow" in (family(left), family(right)):
        raise Unsupported(Refusal.MERGE_KEY_DTYPES, f"{left} and {right}")
    plain = [np.dtype(getattr(dtype, "numpy_dtype", dtype)) for dtype in (left, right)]
    common = np.promote_types(*plain)
    if common.kind == "f" and kinds != "ff" and ("f" not in kinds or "masked" in (family(left), family(right))):
        raise Unsupported(Refusal.MERGE_KEY_DTYPES, f"{left} and {right}")
    return physical(common)


def _check_integral(value: Value, integer: pl.DataType, held: View) -> None:
    """Check that a float key that is joined with an integer key has only integral values; pandas warns about others."""
    clean = value.clean.expr
    back: Expr = Call("cast", (clean,), integer)
    integral = Call("eq", (Call("cast", (back,), value.physical), clean), pl.Boolean())
    wrong = Call("not", (Call("fill_null", (integral, Literal(False, pl.Boolean())), pl.Boolean()),), pl.Boolean())
    present = Call("not", (Call("is_null", (clean,), pl.Boolean()),), pl.Boolean())
    mismatches = build.filter(held.base, Call("and", (present, wrong), pl.Boolean()))
    try:
        count = collect_rows([build.aggregate(mismatches, (), (("n", build.row_count()),))])[0].item()
    except pl.exceptions.PolarsError as error:
        raise Unsupported(Refusal.MERGE_KEY_LARGE_FLOATS) from error
    if count:
        raise Unsupported(Refusal.MERGE_KEY_FLOATS)


def comparison_expr(value: Value, kind: pl.DataType) -> Expr:
    """The expression of a key in a join: missing values as null, in the dtype of the comparison."""
    expr = value.clean.expr
    return expr if value.physical == kind else Call("cast", (expr,), kind)


def unique_keys(keys: Sequence[Value], held: View) -> bool:
    """Whether no two rows have equal keys, where missing values are equal. This computes the keys."""
    named = tuple((f"k{i}", key.clean.expr) for i, key in enumerate(keys))
    groups = build.aggregate(held.base, named, (("n", build.row_count()),), sort=False)
    most = AggregateCall("max", (groups.column("n"),), pl.Int64())
    top = collect_rows([build.aggregate(groups, (), (("most", most),))])[0].item()
    return top is None or top <= 1
