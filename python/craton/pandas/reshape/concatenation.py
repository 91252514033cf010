"""``concat``: concatenates rows of frames, or columns of frames, whose row labels are joined.

To concatenate rows, each input is projected to the columns and dtypes of the result, over which a plan has a union. The dtypes
are pandas' common dtypes, which do not depend on the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.extensions import ExtensionArray
from pandas.api.types import is_list_like
from pandas.core.common import consensus_name_attr
from pandas.core.dtypes.cast import ensure_dtype_can_hold_na, find_common_type
from pandas.core.indexes.api import ensure_index

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned
from craton.pandas.core.axes import labels_of
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import DtypeObj, family, physical
from craton.pandas.core.execute import resolved
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import IndexSpec, LevelSource, Value, View, index_labels, name_index
from craton.pandas.reshape.sorting import levels_are_sorted
from craton.pandas.values.gathering import as_positions, beside, positions_by_labels, refuse_object_labels
from craton.plan import build
from craton.plan.expr import Call, Column, Literal
from craton.plan.names import column_names
from craton.plan.operators import Operator, Scan, Union
from craton.plan.sources import MemorySource
from craton.records import dataclass
from craton.refusals import Refusal


@dataclass(frozen=True, slots=True)
class ConcatInput:
    """One of the concatenated objects: its view, whether it is a Series, and the name of a Series."""

    view: View
    series: bool
    name: Hashable = None


def concat_rows(
    inputs: Sequence[ConcatInput], join: str, sort: Any, ignore_index: bool, keys: Sequence[Hashable] | None, names: Any
) -> View:
    """Concatenate the rows of the inputs (``axis=0``).

    Parameters
    ----------
    join, sort, ignore_index, keys, names
        As in :func:`pandas.concat`.

    Raises
    ------
    Unsupported
        If the result's labels or dtypes depend on the data, or the kernel has no dtype for a column.
    """
    original = views = [resolved(item.view) for item in inputs]
    if len({item.series for item in inputs}) > 1:
        raise Unsupported(Refusal.CONCAT_MIXED)
    if inputs[0].series:
        labels = name_index(consensus_name_attr(inputs))
        positions = [[0]] * len(inputs)
    else:
        labels, positions = _columns(views, join, sort)
    if not ignore_index:
        for view in views:
            view.index.refuse_frequency()
        views = [view.numbered() for view in views]
    dtypes = [
        _common_dtype(
            [view.values[at[i]].dtype if at[i] >= 0 else None for view, at in zip(views, positions, strict=True)]
        )
        for i in range(len(labels))
    ]
    index, index_dtypes = (IndexSpec(), []) if ignore_index else _index(views, original)
    key_values: list[Value] | None = None
    if keys is not None:
        # Only numbers of rows that are known without a computation are compared.
        equal = len({view.rows for view in views} - {None}) < 2
        several = equal and any(view.index.names != index.names for view in views)
        index, key_values = _with_key_level(index, keys, names, several)
    plan_names = column_names([*index_labels(index), *labels])
    bases = []
    seen: list[list[Value]] = []
    for number, (view, at) in enumerate(zip(views, positions, strict=True)):
        values = [key_values[number]] if key_values is not None else []
        if not ignore_index:
            values += [as_dtype(view, v, d) for v, d in zip(view.index.values, index_dtypes, strict=True)]
        for i, dtype in enumerate(dtypes):
            values.append(as_dtype(view, view.values[at[i]], dtype) if at[i] >= 0 else _missing_column(dtype))
        seen.append(values)
        bases.append(build.project(view.base, tuple(zip(plan_names, (v.expr for v in values), strict=True))))
    merged = [_union_column(name, column) for name, column in zip(plan_names, zip(*seen, strict=True), strict=True)]
    count = len(plan_names) - len(labels)
    rows = [view.rows for view in views]
    total = sum(n for n in rows if n is not None) if None not in rows else None
    base = Union(tuple(bases))
    index = replace(index, values=tuple(merged[:count]))
    index = _with_levels(index, base, original, keys) if index.kind == "multi" else index
    return View(base, tuple(merged[count:]), labels, index, total)


def _union_column(name: str, column: Sequence[Value]) -> Value:
    """A column of the union, given the same column of each input."""
    nulls, nans = any(value.nulls for value in column), any(value.nans for value in column)
    return Value(Column(name, column[0].physical), column[0].dtype, nulls, nans)


def _columns(views: Sequence[View], join: str, sort: Any) -> tuple[pd.Index, list[list[int]]]:
    """The column labels of the result, and for each input their positions in it (-1: the input lacks the label)."""
    first = views[0].labels
    if any(len(view.labels) == 0 for view in views):
        raise Unsupported(Refusal.NO_COLUMNS)
    if any(isinstance(view.labels, pd.MultiIndex) for view in views):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    same = all(view.labels.equals(first) for view in views)
    if not same and not all(view.labels.is_unique for view in views):
        raise Unsupported(Refusal.CONCAT_LABELS)
    options = {} if sort is None else {"sort": sort}
    empties = [stand_ins.without_rows(view.labels) for view in views]
    labels = stand_ins.probe(pd.concat, empties, about="concat", warned=True, join=join, **options).columns
    if len(labels) == 0:
        raise Unsupported(Refusal.CONCAT_NO_COMMON)
    if same and not first.is_unique:
        if not labels.equals(first):
            raise Unsupported(Refusal.CONCAT_SORTED)
        return labels, [list(range(len(first)))] * len(views)
    return labels, [view.labels.get_indexer(labels).tolist() for view in views]


def _common_dtype(dtypes: Sequence[DtypeObj | None]) -> DtypeObj:
    """The dtype of a result column, given its dtype in each input (``None``: the input lacks the column)."""
    present = [dtype for dtype in dtypes if dtype is not None]
    result = present[0] if all(dtype == present[0] for dtype in present) else find_common_type(present)
    if len(present) < len(dtypes):
        result = ensure_dtype_can_hold_na(result)
    if isinstance(result, np.dtype) and result.kind == "O":
        raise Unsupported(Refusal.OBJECT_COLUMNS, present)
    return result


def as_dtype(held: View, value: Value, dtype: DtypeObj) -> Value:
    """Convert a column of a view to a common dtype.

    Raises
    ------
    Unsupported
        If the conversion is not a plain cast, or if a timestamp or duration overflows a finer unit: pandas raises the error.
    """
    if value.dtype == dtype:
        if family(dtype) == "category" and not value.dtype.categories.equals(dtype.categories):  # type: ignore[union-attr]
            raise Unsupported(Refusal.CONCAT_CATEGORIES)
        if value.physical == physical(dtype):
            return replace(value, dtype=dtype)
    target = physical(dtype)
    numeric = value.dtype.kind in "iuf" and dtype.kind in "iuf" and "arrow" not in (family(value.dtype), family(dtype))
    plain = isinstance(value.dtype, np.dtype) and isinstance(dtype, np.dtype)
    naive = plain and value.dtype.kind == dtype.kind and dtype.kind in "mM"
    if not numeric and not naive:
        raise Unsupported(Refusal.DTYPE_IN_COLUMN, f"{value.dtype} as {dtype}")
    clean = value.clean if family(dtype) == "masked" else value
    if clean.physical == target:
        return replace(clean, dtype=dtype)
    if naive and _leaves_range(held, clean, target):
        raise Unsupported(Refusal.TIMES_OUT_OF_UNIT)
    return replace(clean, expr=Call("cast", (clean.expr,), target), dtype=dtype)


#: Ticks of each unit in a millisecond.
_TICKS = {"ms": 1, "us": 1000, "ns": 1_000_000}


def _leaves_range(held: View, value: Value, target: Any) -> bool:
    """Whether any timestamp or duration overflows another time unit."""
    source: Any = value.physical
    ratio = _TICKS[target.time_unit] // _TICKS[source.time_unit]
    if ratio <= 1:
        return False
    ticks = Call("cast", (value.expr,), pl.Int64())
    most = (2**63 - 1) // ratio
    above = Call("gt", (ticks, Literal(most, pl.Int64())), pl.Boolean())
    below = Call("lt", (ticks, Literal(-most, pl.Int64())), pl.Boolean())
    return any_row(held, Call("or", (above, below), pl.Boolean()))


def _missing_column(dtype: DtypeObj) -> Value:
    """A column of missing values, for an input that lacks the column."""
    return Value(Literal(None, physical(dtype)), dtype, nulls=True)


def _index(views: Sequence[View], original: Sequence[View]) -> tuple[IndexSpec, list[DtypeObj]]:
    """The kind and names of the row labels, and the dtype of each level.

    ``views`` are the inputs with default indexes as columns, ``original`` the inputs before that.
    """
    specs = [view.index for view in views]
    count = len(specs[0].values)
    dtypes = [value.dtype for value in specs[0].values]
    for spec in specs:
        if len(spec.values) != count or (spec.kind == "multi") != (specs[0].kind == "multi"):
            raise Unsupported(Refusal.CONCAT_LEVELS)
        if [value.dtype for value in spec.values] != dtypes:
            raise Unsupported(Refusal.CONCAT_INDEX_DTYPES)
    first = specs[0].names
    if specs[0].kind == "multi" and any(name != name for name in first):
        raise Unsupported(Refusal.CONCAT_INDEX_NAMES)  # whether pandas keeps a name that is NaN depends on the data
    ranges = specs[0].kind in ("default", "range")
    if ranges and any(spec.names != first for spec in specs) and any(spec.kind != "default" for spec in specs[1:]):
        # pandas keeps the name of a RangeIndex that precedes an Index of integers.
        raise Unsupported(Refusal.CONCAT_INDEX_NAMES)
    names = tuple(
        first[i] if all(_equal_names(spec.names[i], first[i]) for spec in specs) else None for i in range(count)
    )
    range_still = all(spec.kind == "range" for spec in specs) and not _restarts_at_zero(original)
    kind = "multi" if specs[0].kind == "multi" else "range" if range_still else "labels"
    return IndexSpec(kind, specs[0].values, names), dtypes  # type: ignore[arg-type]


def _restarts_at_zero(views: Sequence[View]) -> bool:
    """Whether an input with a default index is known to follow rows of another input.

    If so, the labels are never a RangeIndex, whichever rows are selected later.
    """
    before = False
    for view in views:
        if before and view.index.kind == "default" and (view.rows or 0) > 1:
            return True
        before = before or (view.rows or 0) > 0
    return False


def _equal_names(one: Hashable, other: Hashable) -> bool:
    try:
        return bool(one is other or one == other)
    except (TypeError, ValueError):
        return False


def _with_key_level(
    index: IndexSpec, keys: Sequence[Hashable], names: Any, several: bool
) -> tuple[IndexSpec, list[Value]]:
    """The row labels with a first level of keys, and the key of each input."""
    level = pd.Index(list(keys))
    if level.dtype.kind not in "iT" and not isinstance(level.dtype, pd.StringDtype):
        raise Unsupported(Refusal.CONCAT_KEY_TYPES)
    if any(isinstance(key, tuple) for key in keys) or level.hasnans:
        raise Unsupported(Refusal.CONCAT_KEY_TUPLES)
    given_names = list(names) if names is not None else [None]
    own = list(index.names)
    if len(given_names) == 1 + len(own):
        every = given_names
    elif several:
        raise Unsupported(Refusal.CONCAT_KEYS_INDEX_NAMES)
    elif len(given_names) == 1:
        every = [*given_names, *own]
    else:
        raise Unsupported(Refusal.CONCAT_NAMES_COUNT)
    literals = _literals(level)
    key_values = [Value(Literal(key, literals.dtype), level.dtype, nulls=False) for key in literals]
    return IndexSpec("multi", (key_values[0], *index.values), tuple(every)), key_values


def _literals(keys: pd.Index) -> pl.Series:
    """The keys of a concat, which are strings or integers, as a column."""
    return pl.Series([key if isinstance(key, str) else int(key) for key in keys], dtype=physical(keys.dtype))


def _with_levels(index: IndexSpec, base: Operator, views: Sequence[View], keys: Sequence[Hashable] | None) -> IndexSpec:
    """The row labels with the levels that pandas gives the MultiIndex of a concat.

    The level of keys keeps the order of the keys. If all inputs have the same labels, or the same levels, these keep their order;
    otherwise pandas sorts them. Labels that must be known to decide this are computed.
    """
    nested = views[0].index.kind == "multi"
    if not _all_levels_sorted(views) if nested else keys is not None and _same_labels_kept(views):
        rows = [pd.Series(0, index=labels_of(view)) for view in views]
        levels = pd.concat(rows, keys=keys).index.levels  # type: ignore[attr-defined]
        return replace(index, levels=tuple(levels))
    if nested:
        sources = [
            _sorted_level([view.with_levels().index.sources[i] for view in views])
            for i in range(len(views[0].index.values))
        ]
    elif keys is not None and _same_default_labels(views):
        first = views[0].numbered()
        sources = [LevelSource(first.base, first.index.values[0].expr, True, False, ranged=True)]
    else:
        sources = [LevelSource(base, value.expr, True, False) for value in index.values[1:]]
    if keys is None:
        return replace(index, sources=tuple(sources))
    several = pd.Index(list(keys)).unique()
    names = Scan(MemorySource.of(pl.DataFrame({"key": _literals(several)})), ("key",))
    of_keys = LevelSource(names, names.column("key"), bool(several.is_monotonic_increasing), False)
    return replace(index, sources=(of_keys, *sources))


def _sorted_level(sources: Sequence[LevelSource]) -> LevelSource:
    """One sorted level with the labels of several levels."""
    inputs = [build.project(source.base, (("label", source.expr),)) for source in sources]
    inputs += [source.additional for source in sources if source.additional is not None]
    base = Union(tuple(inputs))
    return LevelSource(base, base.column("label"), True, False)


def _same_default_labels(views: Sequence[View]) -> bool:
    """Whether all inputs have the default labels, and are known to have the same number of rows."""
    rows = views[0].rows
    return rows is not None and all(view.index.kind == "default" and view.rows == rows for view in views)


def _same_labels_kept(views: Sequence[View]) -> bool:
    """Whether all inputs have the same labels, and pandas keeps them as a level: unsorted labels, or a RangeIndex."""
    if all(view.index.kind == "default" for view in views) or len({view.rows for view in views} - {None}) > 1:
        return False
    first = labels_of(views[0])
    kept = isinstance(first, pd.RangeIndex) or not first.is_monotonic_increasing
    return kept and all(first.equals(labels_of(view)) for view in views[1:])


def _all_levels_sorted(views: Sequence[View]) -> bool:
    """Whether all levels of the inputs are sorted, have no missing label, and are not stored in memory."""
    return not any(
        view.index.levels
        or not levels_are_sorted(view.index)
        or any(map(view.index.has_missing_label, range(len(view.index.values))))
        for view in views
    )


def concat_columns(
    inputs: Sequence[ConcatInput], join: str, sort: Any, ignore_index: bool, keys: Sequence[Hashable] | None
) -> tuple[View, bool]:
    """Concatenate the columns of the inputs (``axis=1``). Row labels that are not provably the same are aligned.

    Parameters
    ----------
    join, sort, ignore_index, keys
        As in :func:`pandas.concat`.

    Returns
    -------
    tuple of (View, bool)
        The view, and whether its rows are those of the first input.

    Raises
    ------
    Unsupported
        If the result's labels or dtypes depend on the data.
    """
    if keys is not None and not all(item.series for item in inputs):
        raise Unsupported(Refusal.CONCAT_KEYS_SIDE_BY_SIDE)
    labels = _side_labels(inputs, ignore_index, keys)
    result = None if sort is True else with_same_rows(inputs)
    if result is None:
        return replace(_with_joined_rows(inputs, join, sort), labels=labels), False
    if len({view.index.names for view in (item.view for item in inputs)}) > 1:
        raise Unsupported(Refusal.CONCAT_INDEX_NAMES)
    return replace(result, labels=labels), True


def with_same_rows(inputs: Sequence[ConcatInput]) -> View | None:
    """The columns of inputs with the same rows and row labels; None if these are not provably the same."""
    result = inputs[0].view
    for item in inputs[1:]:
        try:
            left, other = aligned(result, item.view)
        except Unsupported:
            return None
        values = (*left.values, *other.values)
        result = left.with_values(values, pd.RangeIndex(len(values)))  # the labels are made at the end
    return result


def _with_joined_rows(inputs: Sequence[ConcatInput], join: str, sort: Any) -> View:
    """The columns of inputs whose row labels pandas joins."""
    views = [resolved(item.view) for item in inputs]
    _refuse_without_columns(views)
    series = all(item.series for item in inputs)
    options = {} if sort is None else {"sort": sort}
    with plain_pandas():
        rows = positions_by_labels(views)
        named = rows if series else [one.to_frame(i) for i, one in enumerate(rows)]
        found = pd.concat(named, axis=1, join=join, **options)
    refuse_object_labels(found.index)
    places = [as_positions(found.iloc[:, i]) for i in range(len(views))]
    joined, parts, _ = beside(list(zip(views, places, strict=True)), found.index)
    values = [part.filled(i, framed=not series) for part in parts for i in range(len(part.values))]
    return joined.with_values(values, pd.RangeIndex(len(values)))


def _refuse_without_columns(views: Sequence[View]) -> None:
    """Refuse frames without columns: pandas ignores the labels of those that have no rows either."""
    if not all(view.values for view in views):
        raise Unsupported(Refusal.NO_COLUMNS)


def joined_rows(views: Sequence[View], how: str, sort: bool) -> View:
    """The columns of several frames whose row labels are joined as ``DataFrame.join`` of a list joins them."""
    _refuse_without_columns(views)
    with plain_pandas():
        rows = [one.to_frame(i) for i, one in enumerate(positions_by_labels(views))]
        unique = all(one.index.is_unique for one in rows)
        if how == "right" and not unique:
            raise Unsupported(Refusal.ROW_LABELS_DIFFER)
        found = rows[0].join(rows[1:], how=how, sort=sort)
        # For a left or right join on unique labels, pandas makes an outer join first, whose missing rows change dtypes.
        before = rows[0].join(rows[1:], how="outer") if unique and how in ("left", "right") else found
    refuse_object_labels(found.index)
    places = [as_positions(found[i]) for i in range(len(views))]
    joined, parts, _ = beside(list(zip(views, places, strict=True)), found.index)
    values = []
    for number, part in enumerate(parts):
        if part.missing is None and before[number].hasnans:
            part = replace(part, missing=Literal(False, pl.Boolean()))
        values += [part.filled(i) for i in range(len(part.values))]
    labels = views[0].labels.append([view.labels for view in views[1:]])
    return joined.with_values(values, labels)


def _side_labels(inputs: Sequence[ConcatInput], ignore_index: bool, keys: Sequence[Hashable] | None) -> pd.Index:
    if ignore_index:
        return pd.RangeIndex(sum(len(item.view.values) for item in inputs))
    if keys is not None:
        return pd.Index(list(keys))
    if all(item.series for item in inputs):
        if all(item.name is None for item in inputs):
            return pd.RangeIndex(len(inputs))
        names: list[Hashable] = []
        for item in inputs:
            names.append(item.name if item.name is not None else sum(isinstance(n, int) for n in names))
        if any(item.name is None for item in inputs) or any(isinstance(name, tuple) for name in names):
            raise Unsupported(Refusal.CONCAT_SERIES_UNNAMED)
        return pd.Index(names)
    indexes = []
    for item in inputs:
        if item.series and (item.name is None or isinstance(item.name, tuple)):
            raise Unsupported(Refusal.CONCAT_SERIES_BESIDE_FRAMES)
        if isinstance(item.view.labels, pd.MultiIndex):
            raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
        indexes.append(pd.Index([item.name]) if item.series else item.view.labels)
    return indexes[0].append(indexes[1:])


def _refuse_keys_with_properties(keys: Any, kept: list[Hashable]) -> None:
    """Refuse keys with a name, or of another class or dtype than the list of those that are kept: pandas' labels have these."""
    try:
        index = ensure_index(
            keys if isinstance(keys, (pd.Index, pd.Series, np.ndarray, ExtensionArray)) else list(keys)
        )
    except (TypeError, ValueError) as error:
        raise Unsupported(Refusal.CONCAT_KEYS_TYPE) from error
    if (
        type(index) is not pd.Index
        or index.name is not None
        or index.dtype != pd.Index(kept, tupleize_cols=False).dtype
    ):
        raise Unsupported(Refusal.CONCAT_KEYS_CLASS)


def clean_inputs(objs: Any, keys: Any) -> tuple[list[Any], list[Hashable] | None]:
    """The objects and keys of a concat, without ``None``.

    Raises
    ------
    Unsupported
        If there are no objects, or objects other than frames and series, or the keys are no list: pandas raises the error.
    """
    if keys is not None and not is_list_like(keys):
        raise Unsupported(Refusal.CONCAT_KEYS_TYPE)
    if isinstance(objs, Mapping):
        keys = list(objs) if keys is None else list(keys)
        items = [objs[key] for key in keys]
    elif isinstance(objs, (pd.Series, pd.DataFrame, str)):
        raise Unsupported(Refusal.CONCAT_NOT_LIST)
    else:
        items = list(objs)
    given = keys
    keys = list(keys) if keys is not None else None
    if keys is not None and len(keys) != len(items):
        raise Unsupported(Refusal.CONCAT_KEYS_COUNT)
    kept = [i for i, item in enumerate(items) if item is not None]
    if keys is not None:
        _refuse_keys_with_properties(given, [keys[i] for i in kept])
    if not kept or not all(isinstance(items[i], (pd.Series, pd.DataFrame)) for i in kept):
        raise Unsupported(Refusal.CONCAT_TYPES)
    return [items[i] for i in kept], [keys[i] for i in kept] if keys is not None else None
