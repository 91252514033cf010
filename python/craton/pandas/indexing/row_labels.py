"""Conversion between columns and row labels: ``set_index``, ``reset_index``, ``rename_axis`` and methods of levels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any
from typing import Literal as OneOf

import pandas as pd
from pandas.api.types import is_hashable, is_scalar

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.data_checks import has_negative_zero
from craton.pandas.core.dtypes import INT64, OBJECT, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.view import IndexSpec, Value, View
from craton.refusals import Refusal


def level_numbers(index: IndexSpec, levels: Any) -> list[int]:
    """The numbers of index levels that the user gave by name or number; a name takes precedence, as in pandas."""
    wanted = list(levels) if isinstance(levels, (tuple, list)) else [levels]
    numbers = []
    for level in wanted:
        named = index.levels_named(level) if is_hashable(level) else []
        if len(named) == 1:
            numbers.append(named[0])
        elif not named and isinstance(level, int) and not isinstance(level, bool) and abs(level) < len(index.names):
            numbers.append(level % len(index.names))
        else:
            raise Unsupported(Refusal.INDEX_LEVEL, repr(level))
    if len(set(numbers)) != len(numbers):
        raise Unsupported(Refusal.INDEX_LEVEL_TWICE)
    return numbers


def without_labels(held: View) -> View:
    """The same rows with the default row labels, which count from 0."""
    return replace(held, index=IndexSpec())


def index_to_columns(held: View, level: Any = None, names: Any = None, allow_duplicates: bool = False) -> View:
    """``reset_index``: levels become the first columns.

    Parameters
    ----------
    level
        The levels to convert; all if ``None``.
    names
        Names of the new columns.
    allow_duplicates
        Whether a new column may have the name of an existing one.
    """
    if isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    # Boolean labels with missing values are objects, for which pandas infers a column dtype: floats if all are missing.
    held = resolved(held, lambda value: value in held.index.values and kind_of(value.dtype) == "b").numbered()
    spec = held.index
    chosen = list(range(len(spec.values))) if level is None else sorted(level_numbers(spec, level))
    if any(spec.values[i].dtype == OBJECT for i in chosen):
        raise Unsupported(Refusal.OBJECT_LABELS)  # pandas infers the dtype of the column
    labels = held.labels
    default = "index" if "index" not in labels else "level_0"
    given = (
        pd.MultiIndex.from_arrays([[]] * len(spec.names), names=spec.names)
        if len(spec.names) > 1
        else (pd.Index([], name=spec.names[0]))
    )
    try:
        inserted = given._get_default_index_names(names, default)
    except Exception as error:
        raise Unsupported(Refusal.PARAMETER, f"names={names!r}") from error
    for number in reversed(chosen):
        if not allow_duplicates and inserted[number] in labels:
            raise Unsupported(Refusal.INDEX_NAME_TAKEN)
        labels = labels.insert(0, inserted[number])
    values = (*(spec.values[i] for i in chosen), *held.values)
    return replace(held, values=values, labels=labels, index=remaining(spec, chosen))


def remaining(spec: IndexSpec, removed: Sequence[int]) -> IndexSpec:
    """The index without some of its levels.

    pandas interprets the level numbers as level references once more, so a level whose name equals a number is removed
    instead of the level with that number.
    """
    if len(removed) == len(spec.values):
        return IndexSpec()
    dropped = [spec.names.index(i) if i in spec.names else i for i in removed]
    left = [i for i in range(len(spec.values)) if i not in dropped]
    return spec.select_levels(left) if spec.kind == "multi" else spec


def drop_levels(held: View, level: Any = None) -> View:
    """``reset_index(drop=True)``."""
    if level is None or held.index.kind == "default":
        if level is not None:
            level_numbers(held.index, level)
        return without_labels(held)
    return replace(held, index=remaining(held.index, level_numbers(held.index, level)))


def index_kind(values: Sequence[Value]) -> OneOf["range", "labels", "multi"]:
    """The kind of an index of these columns. From one column of evenly spaced integers pandas makes a RangeIndex."""
    if len(values) > 1:
        return "multi"
    dtype = values[0].dtype
    if family(dtype) != "numpy" or dtype.kind != "i":
        return "labels"
    if dtype != INT64 or not values[0].definite:
        raise Unsupported(Refusal.INDEX_EVENLY_SPACED, dtype)
    return "range"


def columns_to_index(held: View, keys: Any, drop: bool = True, append: bool = False) -> View:
    """``set_index`` with column labels as keys."""
    labels = keys if isinstance(keys, list) else [keys]
    if isinstance(held.labels, pd.MultiIndex) or not labels:
        raise Unsupported(Refusal.INDEX_KEYS)
    for label in labels:
        if not (is_scalar(label) or isinstance(label, tuple)):
            raise Unsupported(Refusal.INDEX_KEY_ARRAYS)
    try:
        positions = [held.position(label) for label in labels]
    except KeyError as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    values: list[Value] = [held.values[i] for i in positions]
    names: list[Hashable] = list(labels)
    if append:
        held.index.refuse_frequency()
        held = held.numbered()
        values = [*held.index.values, *values]
        names = [*held.index.names, *names]
    if len(values) > 1:
        _refuse_signed_zeros(held, values)
    kind = index_kind(values)
    if kind == "range" and held.rows == 1:
        kind = "labels"  # pandas makes no RangeIndex of a single label
    spec = IndexSpec(kind, tuple(values), tuple(names))
    if append and held.index.kind == "range":
        first, *others = replace(held, index=spec).with_levels().index.sources
        spec = replace(spec, sources=(replace(first, ranged=True), *others))
    if drop:
        held = held.take([i for i in range(len(held.values)) if i not in positions])
    return replace(held, index=spec)


def _refuse_signed_zeros(held: View, values: Sequence[Value]) -> None:
    """Refuse levels of Arrow floats that contain -0.0; pandas raises if they contain 0.0 as well."""
    for value in values:
        if has_negative_zero(held, value):
            raise Unsupported(Refusal.INDEX_ARROW_FLOAT_ZEROS)


def rearranged(held: View, method: str, *args: Any) -> View:
    """The rows with index levels dropped or reordered. A call of pandas' method on a one-row stand-in gives the levels and their order.

    Parameters
    ----------
    method
        ``droplevel``, ``swaplevel`` or ``reorder_levels`` of a MultiIndex.
    """
    if held.index.kind != "multi":
        raise Unsupported(Refusal.INDEX_ONE_LEVEL)
    numbers = [[i] for i in range(len(held.index.names))]
    levels = pd.MultiIndex.from_arrays(numbers, names=held.index.names)
    result = stand_ins.probe(getattr(levels, method), *args, about=method, warned=True)
    multi = isinstance(result, pd.MultiIndex)
    order = result[0] if multi else (result[0],)
    return replace(held, index=held.index.select_levels(order, multi).renamed(result.names))


def renamed_axes(held: View, empty: pd.DataFrame | pd.Series, *args: Any, **kwargs: Any) -> View:
    """``rename_axis``; the new names come from a call on an object without rows.

    Parameters
    ----------
    empty
        An object without rows, of the same class and with the same column labels.
    """
    names = held.index.names
    empty.index = (
        pd.MultiIndex.from_arrays([[]] * len(names), names=names) if len(names) > 1 else pd.Index([], name=names[0])
    )
    result = stand_ins.probe(lambda: empty.rename_axis(*args, **kwargs), about="rename_axis", warned=True)
    labels = result.columns if isinstance(result, pd.DataFrame) else held.labels
    return replace(held, labels=labels, index=held.index.renamed(result.index.names))
