"""Runs the plan of a view and converts the result to pandas' data structures; makes views of pandas data in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.internals.managers import SingleBlockManager, create_block_manager_from_column_arrays

from craton import forks
from craton.engine import collect_rows, collect_scalars
from craton.errors import Unsupported
from craton.pandas.core.align import remember_memory
from craton.pandas.core.array_conversion import (
    Array,
    can_carry,
    can_carry_labels,
    carried_value,
    distinct_integers,
    from_array,
    from_array_uncopied,
    index_of,
    late_texts,
    objects_of,
    positions_in,
    positions_of_integers,
    range_index,
    refuse_unsupported_values,
    to_array,
    to_arrays,
    with_plain_columns,
    with_positions,
    with_values_of_positions,
)
from craton.pandas.core.dtypes import OBJECT, STR, is_carried, physical, with_missing
from craton.pandas.core.identities import remember_identity, with_identity
from craton.pandas.core.unchanged import unchanged
from craton.pandas.core.view import (
    IndexSpec,
    LevelSource,
    ObjectColumn,
    Value,
    View,
    frequency,
    index_labels,
)
from craton.plan import build
from craton.plan.expr import Call, Column, Expr
from craton.plan.names import column_names
from craton.plan.operators import (
    AggregateCall,
    Filter,
    Join,
    Operator,
    Project,
    RowNumber,
    Scan,
    Slice,
    Sort,
    Window,
    schema,
)
from craton.plan.origin import same_rows
from craton.plan.sources import FileSource, LateColumn, MemorySource
from craton.refusals import Refusal


def materialise(view: View) -> tuple[list[Array], pd.Index]:
    """Run a view.

    Returns
    -------
    tuple of (list of arrays, Index)
        The columns and the row labels.
    """
    return materialise_all([view])[0]


def materialise_all(views: Sequence[View]) -> list[tuple[list[Array], pd.Index]]:
    """As :func:`materialise`, for several views, of which those that need a plan are computed in one run."""
    joined = [_mapped(view) or _joined(view) for view in views]
    planned = iter(_computed([view for view, found in zip(views, joined, strict=True) if found is None]))
    return [next(planned) if found is None else found for found in joined]


def _mapped(view: View) -> tuple[list[Array], pd.Index] | None:
    """The columns and the row labels of a view of whole columns of a durable set; None for others."""
    base = view.base.input if isinstance(view.base, Sort) else view.base
    if not isinstance(base, Scan) or not isinstance(base.source, FileSource) or base.source.layout is None:
        return None
    from craton.pandas.core.joined.mapped import mapped_columns

    found = mapped_columns(view)
    if found is None:
        return None
    arrays, rows = found
    return arrays, with_identity(view, make_index(view.index, [], rows))


def _joined(view: View) -> tuple[list[Array], pd.Index] | None:
    """The columns and the row labels of a view of joined or sorted tables in memory, which are taken by position; None for others."""
    base, sorts = view.base, False
    while isinstance(base, (Project, RowNumber, Sort, Filter)):
        sorts = sorts or isinstance(base, Sort)
        base = base.input
    if not (isinstance(base, Join) or (sorts and isinstance(base, Scan))) or forks.kernel_lost():
        return None
    from craton.pandas.core.joined.taking import taken

    found = taken(view)
    if found is None:
        return None
    index = make_index(view.index, found.labels, found.rows) if found.index is None else found.index
    return found.columns, with_identity(view, index)


def _computed(views: Sequence[View]) -> list[tuple[list[Array], pd.Index]]:
    """The columns and the row labels of views. Unchanged columns of data in memory are not computed."""
    from craton.pandas.core.joined.filtered import selected  # which imports the engine

    found = [unchanged(view) for view in views]
    changed = [(one, view) for one, view in zip(found, views, strict=True) if not one.is_all(view)]
    taken = [selected(one.remaining(view)) for one, view in changed]
    remaining = [one.view for one in taken if one.labels is None]
    computed = iter(_run_beside(remaining, views))
    chosen = iter(taken)
    results = []
    for one, view in zip(found, views, strict=True):
        arrays: list[Array] = []
        index = one.index
        if not one.is_all(view):
            part = next(chosen)
            if part.labels is None or part.places is None:
                arrays, index = next(computed)
            else:
                arrays, index = [part.places], make_index(view.index, part.labels, len(part.places))
            arrays = part.completed(arrays)
        results.append((one.completed(view, arrays), with_identity(view, index if one.index is None else one.index)))
    return results


def _run_beside(views: Sequence[View], evaluated: Sequence[View]) -> list[tuple[list[Array], pd.Index]]:
    """As :func:`_run_all`; whole columns of categories in files are read meanwhile, and values in memory are taken by position."""
    from craton.pandas.core.joined.categories import CategoryReads

    def run(wanted: Sequence[View]) -> list[tuple[list[Array], pd.Index]]:
        ran = _run_all([with_positions(view) for view in wanted], evaluated)
        return [with_values_of_positions(view, found) for view, found in zip(wanted, ran, strict=True)]

    with CategoryReads(views) as reads:
        found = run(reads.others())
    completed = [reads.completed(number, arrays) for number, (arrays, _) in enumerate(found)]
    return [
        run([view])[0] if arrays is None else (arrays, index)
        for view, arrays, (_, index) in zip(views, completed, found, strict=True)
    ]


def _run_all(views: Sequence[View], evaluated: Sequence[View]) -> list[tuple[list[Array], pd.Index]]:
    """Run views of the objects that are ``evaluated``."""
    if not views:
        return []
    if forks.kernel_lost():
        from craton.engine.kernel_process import call_in_kernel_process

        return call_in_kernel_process(_run_all, views, evaluated)
    from craton.engine.evaluations import collect_and_keep

    sources = list(
        dict.fromkeys(
            source
            for view in views
            for value in (*view.index.values, *view.values)
            if (source := _dtype_source(value, view.base))
        )
    )
    named = [_with_result_names(with_plain_columns(view)) for view in views]
    levels = list(dict.fromkeys(labels for view in views for labels in _level_plans(view)))
    plans = [view.base for view, _ in named]
    frames = collect_and_keep(plans, [*map(null_count, sources), *levels], evaluated)
    counts = frames[len(views) : len(views) + len(sources)]
    promoted = {source: bool(count.item()) for source, count in zip(sources, counts, strict=True)}
    found = dict(zip(levels, frames[len(views) + len(sources) :], strict=True))
    results = []
    for view, (_, names), frame in zip(views, named, frames, strict=False):
        values = (*view.index.values, *view.values)
        made = iter(
            to_arrays(
                [
                    # to_array promotes the dtype for nulls in the column itself.
                    (frame.get_column(name), with_missing(value.dtype) if promoted.get(value.source) else value.dtype)  # type: ignore[arg-type]
                    for value, name in zip(values, names, strict=True)
                    if not isinstance(value.expr, ObjectColumn)
                ]
            )
        )
        arrays: list[Array] = [
            objects_of(value.expr, frame.get_column(name)) if isinstance(value.expr, ObjectColumn) else next(made)
            for value, name in zip(values, names, strict=True)
        ]
        count = len(view.index.values)
        spec = view.index
        if spec.sources:
            spec = replace(spec, levels=_levels(spec, arrays[:count], found))
        results.append((arrays[count:], make_index(spec, arrays[:count], frame.height)))
    return results


def _level_plans(view: View) -> list[Operator]:
    """The plans of the labels of MultiIndex levels that do not come from the view's own rows."""
    base, sources = row_source(view.base), view.index.sources
    sought = [_labels(source) for source in sources if source.base != base]
    return [*sought, *(labels for source in sources if (labels := _additional_labels(source)) is not None)]


def row_source(base: Operator) -> Operator:
    """The operator below those that only add, compute or drop columns: it has the same rows in the same order."""
    while (below := same_rows(base)) is not None:
        base = below
    return base


def _labels(source: LevelSource) -> Operator:
    """The plan that computes a level's labels.

    It yields the distinct labels, or the label of each row if their spacing decides whether the level is a RangeIndex.
    """
    if source.ranged:
        return build.project(source.base, (("label", source.expr),))
    return _distinct(source.base, source.expr)


def _distinct(base: Operator, expr: Expr) -> Operator:
    return build.aggregate(base, (("label", expr),), (), sort=False)


def _additional_labels(source: LevelSource) -> Operator | None:
    return None if source.additional is None else _distinct(source.additional, source.additional.column("label"))


def _levels(spec: IndexSpec, arrays: list[Array], found: dict[Operator, pl.DataFrame]) -> tuple[pd.Index, ...]:
    levels = []
    for value, source, array in zip(spec.values, spec.sources, arrays, strict=True):
        if (labels_frame := found.get(_labels(source))) is not None:
            array = to_array(labels_frame.get_column("label"), value.dtype)
        distinct = distinct_integers(array) if source.ordered and source.additional is None else None
        if source.ranged:
            ranged = range_index(array)
            if distinct is None or isinstance(ranged, pd.RangeIndex):
                levels.append(ranged.unique().sort_values())
            else:
                levels.append(pd.Index(distinct, copy=False))
            continue
        if distinct is not None:
            levels.append(pd.Index(distinct, copy=False))
            continue
        texts: Any = array
        if array.dtype == STR and hasattr(array, "_pa_array"):  # Index.unique would convert each text to an object
            texts = texts.unique()
        labels = pd.Index(texts, copy=False).unique()
        if (besides := _additional_labels(source)) is not None:
            more = to_array(found[besides].get_column("label"), value.dtype)
            labels = labels.append(pd.Index(more, copy=False)).unique()
        missing = labels.isna()
        if source.ordered:
            present = labels[~missing].sort_values()
            labels = present.append(labels[missing]) if source.missing and missing.any() else present
        elif not source.missing:
            labels = labels[~missing]
        levels.append(labels)
    return tuple(levels)


def _dtype_source(value: Value, base: Operator) -> tuple[Operator, str] | None:
    """The operator and the column whose missing values decide a value's dtype.

    None if the dtype is known, or if the value's own column over ``base`` has the same missing values.
    """
    if value.source is None or not isinstance(value.expr, Column):
        return value.source
    while base != value.source[0] and isinstance(base, (Project, Window, RowNumber, Sort)):
        base = base.input
    return None if base == value.source[0] else value.source


def null_count(source: tuple[Operator, str]) -> Operator:
    """The plan that counts the missing values of an operator's column."""
    operator, column = source
    call = AggregateCall("null_count", (operator.column(column),), pl.Int64())
    return build.aggregate(operator, (), (("missing", call),))


def resolved(view: View, only: Callable[[Value], bool] | None = None) -> View:
    """The same view with definite dtypes: a query decides those that depend on the data.

    Parameters
    ----------
    only
        Selects the values whose dtypes are decided, by default all. Values with the same source are decided with them.

    Raises
    ------
    Unsupported
        If a boolean column has missing values, which make it a column of Python objects.
    """
    every = (*view.index.values, *view.values)
    undecided = [value for value in every if value.source is not None and (only is None or only(value))]
    sources = list(dict.fromkeys(value.source for value in undecided if value.source is not None))
    if not sources:
        return view
    counts = collect_rows([null_count(source) for source in sources])
    missing = {source: bool(frame.item()) for source, frame in zip(sources, counts, strict=True)}

    def settle(value: Value) -> Value:
        if value.source not in missing:
            return value
        if not missing[value.source]:
            return replace(value, source=None, nulls=False)
        dtype = with_missing(value.dtype)
        return Value(Call("cast", (value.expr,), physical(dtype)), dtype, nulls=True)

    return replace(
        view,
        values=tuple(map(settle, view.values)),
        index=replace(view.index, values=tuple(map(settle, view.index.values))),
    )


def resolved_keys(view: View, keys: Sequence[Value] | None = None) -> View:
    """The view with definite dtypes for the keys (by default all columns) that may become floats.

    The conversion to floats could round different large integers to equal keys.
    """
    sources = {key.source for key in (view.values if keys is None else keys) if key.may_round}
    return resolved(view, lambda value: value.source in sources)


def planned(view: View) -> Operator:
    """The plan that :func:`materialise` runs for a view."""
    return _with_result_names(view)[0].base


def _with_result_names(view: View) -> tuple[View, list[str]]:
    names = column_names([*index_labels(view.index), *view.labels])
    every = (*view.index.values, *view.values)
    if not names:
        # Only the number of rows is needed, so any column will do.
        name = next(iter(schema(view.base)))
        return View(
            build.project(view.base, ((name, view.base.column(name)),)), (), view.labels, view.index, view.rows
        ), names
    base = build.project(view.base, tuple((name, value.expr) for name, value in zip(names, every, strict=True)))
    return View(base, view.values, view.labels, view.index, view.rows), names


def make_index(spec: IndexSpec, arrays: list[Array], rows: int) -> pd.Index:
    """The pandas Index of a result."""
    if spec.kind == "default":
        return pd.RangeIndex(rows, name=spec.names[0])
    if spec.kind == "multi":
        return _multi_index(spec, arrays)
    if spec.kind == "range":
        return range_index(arrays[0]).rename(spec.names[0])
    index = index_of(arrays[0], spec)
    if spec.freq is not None:
        with contextlib.suppress(ValueError):  # pandas finds that the rows no longer have this frequency
            found = _frequency_of(index, spec.freq, spec.consecutive_only)
            if len(index) < 2:
                index._freq = found  # without a check, as in pandas
            else:
                index.freq = found
    return index


def _multi_index(spec: IndexSpec, arrays: list[Array]) -> pd.MultiIndex:
    """A MultiIndex with the levels that it had in memory, as pandas keeps them; with new levels if these do not fit the labels."""
    codes = []
    for level, array in zip(spec.levels, arrays, strict=bool(spec.levels)):
        fits = level.dtype == array.dtype or (level.dtype.kind in "iu" and array.dtype == np.dtype("float64"))
        codes.append(_codes(level, array) if fits and level.is_unique else None)
        if codes[-1] is None or ((codes[-1] < 0) & ~pd.isna(array)).any():
            break
    else:
        if codes:
            names = list(spec.names)
            return pd.MultiIndex(levels=spec.levels, codes=codes, names=names, verify_integrity=False)
    # pandas infers a dtype for an array of objects, but not for an Index of objects, from which such labels come.
    labels = [pd.Index(array, dtype=OBJECT) if array.dtype == OBJECT else array for array in arrays]
    try:
        return pd.MultiIndex.from_arrays(labels, names=list(spec.names))
    except ValueError:  # Arrow distinguishes 0.0 and -0.0, but they are one category
        numbered = [pd.factorize(array, sort=True) for array in labels]  # type: ignore[arg-type]
        levels = [pd.Index(unique) for _, unique in numbered]
        return pd.MultiIndex(levels, [code for code, _ in numbered], names=list(spec.names), verify_integrity=False)


def _codes(level: pd.Index, array: Any) -> Any:
    """The position of each value in a level; -1 for values that it does not contain."""
    if array.dtype != STR or not hasattr(array, "_pa_array"):
        places = positions_of_integers(level, array)
        return level.get_indexer(array) if places is None else places
    # Only distinct texts are looked up, because pandas converts them to objects.
    texts = array._pa_array.combine_chunks().dictionary_encode()
    positions = level.get_indexer(pd.Index(array._from_pyarrow_array(texts.dictionary), copy=False))
    positions = np.append(positions, level.get_indexer([np.nan]))
    return positions[texts.indices.fill_null(len(positions) - 1).to_numpy()]


def _frequency_of(index: Any, freq: Any, consecutive_only: bool) -> Any:
    """The frequency of rows that were selected from an index with a frequency; ``None`` if they have none.

    If every k-th row was selected, the result has k times the frequency, as in pandas. With ``consecutive_only``, the result has a
    frequency only if the rows are consecutive.
    """
    if len(index) < 2:
        return freq
    first, second = sorted([index[0], index[1]])
    if first == second or pd.isna(first) or pd.isna(second):
        return None
    if isinstance(freq, pd.offsets.Tick):
        steps = abs((second - first) / pd.Timedelta(freq))
    else:
        between = pd.date_range if isinstance(index, pd.DatetimeIndex) else pd.timedelta_range
        steps = len(between(first, second, freq=freq)) - 1 if freq.n > 0 else len(between(second, first, freq=freq)) - 1
    if steps < 1 or steps != int(steps) or (consecutive_only and steps > 1):
        return None
    descends = (index[1] < index[0]) == (freq.n > 0)
    return abs(int(steps)) * (-1 if descends else 1) * freq


def block_manager(arrays: list[Array], index: pd.Index, labels: pd.Index) -> Any:
    """A pandas block manager with one block for each array, without copies."""
    return create_block_manager_from_column_arrays(
        [_ensure(array) for array in arrays], [labels, index], consolidate=False, refs=[None] * len(arrays)
    )


def series_manager(array: Array, index: pd.Index) -> Any:
    """A pandas manager of one column, without copies."""
    return SingleBlockManager.from_array(_ensure(array), index)


def _ensure(array: Any) -> Any:
    """An array as a block holds it: datetimes and timedeltas as extension arrays."""
    if isinstance(array, np.ndarray) and array.dtype.kind in "mM":
        return pd.array(array, copy=False)
    return array


def scalar(view: View, call: AggregateCall) -> Any:
    """Run one aggregate over a view's base and return the Python value."""
    plan = build.aggregate(view.base, (), (("value", call),))
    return collect_scalars([plan])[0].item()


def count_rows(view: View) -> int:
    """The number of rows; runs a query that reads no column if it is not known."""
    if view.rows is not None:
        return view.rows
    return int(scalar(view, build.row_count()))


def has_rows(view: View) -> bool:
    """Whether there is a row; runs the plan until it gives one if the number of rows is not known."""
    if view.rows is not None:
        return view.rows > 0
    name, dtype = next(iter(schema(view.base).items()))
    first = Slice(build.project(view.base, ((name, Column(name, dtype)),)), 0, 1)
    return collect_rows([first])[0].height > 0


def view_of(columns: list[Any], index: pd.Index, labels: pd.Index) -> View:
    """A view that scans pandas data in memory.

    Parameters
    ----------
    columns
        Arrays, which are not copied. Nothing may write to them while the view or a result of it exists.
    index, labels
        Row and column labels.

    Raises
    ------
    Unsupported
        If the dtype of a column or of the row labels has no physical form and is not carried, or is that of a level and carried.
    """
    levels, spec = _index_spec(index)
    names = column_names([*index_labels(spec), *labels])
    series: list[pl.Series | LateColumn] = []
    values: list[Value] = []
    for i, (name, array) in enumerate(zip(names, [*levels, *columns], strict=True)):
        if (late := late_texts(name, array)) is not None:
            series.append(late)
            values.append(Value(Column(name, late.dtype), array.dtype, late.has_nulls))
            continue
        if can_carry(array) if i >= len(levels) else spec.kind == "labels" and can_carry_labels(array):
            series.append(positions_in(array).rename(name))
            values.append(carried_value(Column(name, pl.UInt32()), array if i >= len(levels) else array.copy()))
            continue
        if i < len(levels) and is_carried(array.dtype):
            raise Unsupported(Refusal.ROW_LABELS_CARRIED, array.dtype)
        refuse_unsupported_values(array)
        own = i >= len(levels) or spec.kind != "labels"
        column, nulls, nans = from_array_uncopied(name, array) if own else from_array(name, array)
        series.append(column)
        values.append(Value(Column(name, column.dtype), array.dtype, nulls, nans))
    source = MemorySource.of_columns(series or [pl.Series("", np.zeros(len(index), dtype=bool))], len(index))
    base = Scan(source, tuple(dict(source.columns)))
    spec = replace(spec, values=tuple(values[: len(levels)]))
    view = View(base, tuple(values[len(levels) :]), labels, spec, len(index))
    remember_identity(view, index)
    remember_memory(source, dict(zip(names, [*levels, *columns], strict=True)), index, spec)
    return view


def index_columns(index: pd.Index, pattern: str) -> tuple[list[pl.Series], IndexSpec]:
    """Row labels as plan columns.

    Parameters
    ----------
    index
        The labels.
    pattern
        The format of the columns' names, with a field for the level's number.

    Raises
    ------
    Unsupported
        If a dtype has no physical form.
    """
    levels, spec = _index_spec(index)
    series: list[pl.Series] = []
    values: list[Value] = []
    for i, array in enumerate(levels):
        if spec.kind == "labels" and can_carry_labels(array):
            series.append(positions_in(array).rename(pattern.format(i)))
            values.append(carried_value(Column(pattern.format(i), pl.UInt32()), array.copy()))
            continue
        column, nulls, nans = from_array(pattern.format(i), array)
        series.append(column)
        values.append(Value(Column(column.name, column.dtype), array.dtype, nulls, nans))
    return series, replace(spec, values=tuple(values))


def _index_spec(index: pd.Index) -> tuple[list[Any], IndexSpec]:
    names = tuple(index.names)
    if isinstance(index, pd.MultiIndex):
        if len({len(codes) for codes in index.codes}) > 1:
            raise Unsupported(Refusal.LABELS_UNEVEN)
        if any(level.hasnans and (codes < 0).any() for level, codes in zip(index.levels, index.codes, strict=True)):
            raise Unsupported(Refusal.LABELS_MISSING_TWICE)
        if any(
            isinstance(level.dtype, pd.ArrowDtype) and level.dtype.kind == "f" and not level.is_unique
            for level in index.levels
        ):
            raise Unsupported(Refusal.LABELS_OF_BOTH_ZEROS)
        levels = [index._get_level_values(i)._values for i in range(index.nlevels)]  # type: ignore[attr-defined]
        if any(labels.dtype != level.dtype for labels, level in zip(levels, index.levels, strict=True)):
            raise Unsupported(Refusal.LABELS_DTYPE_OF_ROWS)
        return levels, IndexSpec("multi", (None,) * len(levels), names, levels=tuple(index.levels))  # type: ignore[arg-type]
    if isinstance(index, pd.RangeIndex):
        if index.start == 0 and index.step == 1:
            return [], IndexSpec("default", (), names)
        numbers = np.arange(index.start, index.stop, index.step)  # to_numpy() would be kept by the Index
        return [numbers], IndexSpec("range", (None,), names)  # type: ignore[arg-type]
    return [index._values], IndexSpec("labels", (None,), names, frequency(index))  # type: ignore[arg-type]
