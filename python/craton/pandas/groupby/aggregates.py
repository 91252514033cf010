"""Aggregation of a group-by: a result with one row per group, and with pandas' row and column labels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.generic import SeriesGroupBy as PandasSeriesGroupBy

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.call_arguments import bound_arguments
from craton.pandas.core.data_checks import any_missing, any_row, has_negative_zero
from craton.pandas.core.dtypes import (
    DtypeObj,
    distinguishes_nan,
    family,
    kind_of,
    physical,
)
from craton.pandas.core.execute import count_rows, scalar
from craton.pandas.core.view import IndexSpec, LevelSource, Value, View
from craton.pandas.groupby.functions import (
    JOIN,
    LABELS,
    NAN_ORDER_DEPENDENT,
    ZERO_ORDER_DEPENDENT,
    PlannedAggregate,
    plan_aggregate,
)
from craton.pandas.groupby.keys import Grouped
from craton.pandas.groupby.traced import TRACED, AtRows, checked, combine, reductions
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, conjunction, dtype_of
from craton.plan.names import column_names
from craton.plan.operators import Aggregate, AggregateCall, Named, Operator, Scan
from craton.plan.sources import MemorySource
from craton.refusals import Refusal

Probe = Callable[..., Any]
_K = TypeVar("_K")
ColumnAggregation = tuple[int, str, Mapping[str, Any]]
#: Durations whose absolute values add up to less can be added in any order without an overflow of 64 bits.
_LARGEST_TOTAL = 2.0**62


def plan_aggregations(
    state: Grouped,
    aggregations: Sequence[ColumnAggregation],
    template: pd.DataFrame | pd.Series,
    in_order: bool = False,
) -> View:
    """Plan aggregations.

    Parameters
    ----------
    state
        The group-by.
    aggregations
        For each result column: the position of the aggregated column (-1 for the size of groups), the aggregation, and its
        parameters.
    template
        pandas' result for the stand-in, which has the labels, names and dtypes of the result. With ``as_index=False`` it
        begins with the keys that become columns.
    in_order
        Whether pandas inserts those keys in order, instead of looking each up by its number (see :func:`inserted_keys`).

    Returns
    -------
    View
        The result.
    """
    if state.completes:
        raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
    state, labels, in_front, parts = prepared(state, aggregations, template)
    owners = [name for name, some in zip(labels[in_front:], parts, strict=True) for _ in some]
    planned = [out for some in parts for out in some]
    base: Operator
    key_names, value_names, base = aggregate(state, planned, owners)
    if any(out.narrow is not None for out in planned):
        base, planned = run_and_narrow(base, value_names, planned)
    keys = [
        Value(base.column(name), key.value.dtype, nulls=_may_be_missing(state, key.value))
        for name, key in zip(key_names, state.keys, strict=True)
    ]
    following = iter([result_value(base, name, out) for name, out in zip(value_names, planned, strict=True)])
    dtypes = _result_dtypes(template)[in_front:]
    values = [
        _combined(one, [next(following) for _ in some], dtype)
        for one, some, dtype in zip(aggregations, parts, dtypes, strict=True)
    ]
    if state.options.as_index:
        names = template.index.names  # when pandas concatenates results, it loses names that are NaN
        return View(base, tuple(values), labels, key_index(state, keys, base).renamed(names))
    by_name = inserts_by_name(aggregations, in_order)
    return View(base, (*inserted_keys(state, keys, labels[in_front:], in_front, by_name), *values), labels)


def inserts_by_name(aggregations: Sequence[ColumnAggregation], in_order: bool) -> bool:
    """Whether pandas looks up the keys that ``as_index=False`` inserts by their numbers (:func:`inserted_keys`)."""
    return not in_order and all(name != "size" or position >= 0 for position, name, _ in aggregations)


def prepared(
    state: Grouped, aggregations: Sequence[ColumnAggregation], template: pd.DataFrame | pd.Series
) -> tuple[Grouped, pd.Index, int, list[list[PlannedAggregate]]]:
    """The parts of a result: the group-by, the column labels, how many of them are of keys, and the aggregates of each of the others."""
    if not aggregations:
        raise Unsupported(Refusal.NO_COLUMNS)
    if isinstance(template, pd.DataFrame):
        labels = template.columns
    else:
        labels = pd.Index([template.name], dtype=object, tupleize_cols=False)
    dtypes = _result_dtypes(template)
    in_front = len(labels) - len(aggregations)
    if (in_front and state.options.as_index) or in_front < 0:
        raise Unsupported(Refusal.RESULT_SHAPE)
    _require_groups(state, aggregations)
    for position, name, _ in aggregations:
        if position >= 0:  # not the size of groups, which has no column
            refuse_nan(state, name, state.held.values[position])
            refuse_signed_zeros(state, name, state.held.values[position])
            _refuse_missing_texts(state, name, state.held.values[position])
            _refuse_large_durations(state, name, state.held.values[position])
    label = None
    if any(name in LABELS for _, name, _ in aggregations):
        state, label = _with_row_labels(state, [position for position, name, _ in aggregations if name in LABELS])
    parts = [
        _planned_parts(state, one, dtype, label) for one, dtype in zip(aggregations, dtypes[in_front:], strict=True)
    ]
    return state, labels, in_front, parts


def _result_dtypes(template: pd.DataFrame | pd.Series) -> list[DtypeObj]:
    return list(template.dtypes) if isinstance(template, pd.DataFrame) else [template.dtype]


def _planned_parts(
    state: Grouped, aggregation: ColumnAggregation, dtype: DtypeObj, label: Value | None
) -> list[PlannedAggregate]:
    """The aggregates from which one result column is computed: one, or several for a traced function."""
    position, name, parameters = aggregation
    if name == TRACED:
        return list(map(AtRows(state).reduction, reductions(parameters["symbol"])))
    value = state.held.values[position] if position >= 0 else None
    return [plan_aggregate(name, value, dtype, parameters, label)]


def _combined(aggregation: ColumnAggregation, values: Sequence[Value], dtype: DtypeObj) -> Value:
    """One result column, from the values of its aggregates."""
    _, name, parameters = aggregation
    if name != TRACED:
        return values[0]
    symbol = parameters["symbol"]
    return checked(combine(symbol, dict(zip(map(id, reductions(symbol)), values, strict=True))), dtype)


def _require_groups(state: Grouped, aggregations: Sequence[ColumnAggregation]) -> None:
    """Refuse aggregations whose result dtype is different without groups, if there are no groups.

    Without groups, pandas returns the column with its own dtype. If there may be no groups, a query counts the rows in groups.
    """
    for _, name, parameters in aggregations:
        if (name in ("skew", "kurt") or "by_function" in parameters) and not has_groups(state):
            raise Unsupported(Refusal.GROUP_NONE)


def has_groups(state: Grouped) -> bool:
    """Whether there is a group. A query counts the rows in groups, unless the number of rows is known and no key is missing."""
    if state.held.rows and not any(key.value.clean.nulls for key in state.keys):
        return True
    return count_rows(View(rows_in_groups(state, ())[0], (), state.held.labels[:0])) > 0


def refuse_nan(state: Grouped, name: str, value: Value) -> None:
    """Refuse an aggregation whose result depends on the positions of NaN, if the column contains NaN."""
    if name not in NAN_ORDER_DEPENDENT or not distinguishes_nan(value.dtype):
        return
    if any_row(state.held, Call("is_nan", (value.expr,), pl.Boolean())):
        raise Unsupported(Refusal.GROUP_ARROW_NAN, name)


def _refuse_large_durations(state: Grouped, name: str, value: Value) -> None:
    """Refuse to add durations if a sum may not fit into 64 bits: pandas raises an error."""
    if name != "sum" or kind_of(value.dtype) != "m":
        return
    units = Call("cast", (Call("cast", (value.clean.expr,), pl.Int64()),), pl.Float64())
    total = scalar(state.held, AggregateCall("sum", (Call("abs", (units,), pl.Float64()),), pl.Float64()))
    if total is not None and total >= _LARGEST_TOTAL:
        raise Unsupported(Refusal.GROUP_DURATIONS)


def _refuse_missing_texts(state: Grouped, name: str, value: Value) -> None:
    """Refuse to join texts if one is missing: ``str.join`` raises an error, which names the place in the group."""
    if name == JOIN and any_missing(state.held, value):
        raise Unsupported(Refusal.GROUP_MISSING_TEXT)


def refuse_signed_zeros(state: Grouped, name: str, value: Value) -> None:
    """Refuse an aggregation whose result may be 0.0 or -0.0, if pandas distinguishes the two and the column contains -0.0."""
    if name in ZERO_ORDER_DEPENDENT and has_negative_zero(state.held, value):
        raise Unsupported(Refusal.ARROW_FLOATS_EITHER_ZERO, name)


def _with_row_labels(state: Grouped, positions: Sequence[int]) -> tuple[Grouped, Value]:
    """The same group-by with the row labels as a column of the base, for ``idxmin`` and ``idxmax``; and that column.

    pandas raises if all values of a group are missing, so a query checks that first.
    """
    if state.held.index.kind == "multi":
        raise Unsupported(Refusal.GROUP_LABELS_OF_SEVERAL_LEVELS)
    for position in positions:
        value = state.held.values[position].clean
        if value.nulls:
            base, by, args = rows_in_groups(state, [value.expr])
            named = tuple((f"key{i}", key) for i, key in enumerate(by))
            counts = build.aggregate(base, named, (("n", AggregateCall("count", tuple(args), pl.Int64())),), sort=False)
            least = AggregateCall("min", (counts.column("n"),), pl.Int64())
            if collect_rows([build.aggregate(counts, (), (("least", least),))])[0].item() == 0:
                raise Unsupported(Refusal.GROUP_NO_VALUE)
    held, exprs = state.held.projected_with([key.value.clean.expr for key in state.keys])
    held = held.numbered()
    keys = tuple(
        replace(key, value=replace(key.value.clean, expr=expr)) for key, expr in zip(state.keys, exprs, strict=True)
    )
    return replace(state, held=held, keys=keys), held.index.values[0]


def key_index(state: Grouped, keys: Sequence[Value], base: Operator) -> IndexSpec:
    """The group keys as row labels.

    Parameters
    ----------
    keys
        The keys as columns over ``base``, which has one row per group.
    """
    names = tuple(key.name for key in state.keys)
    if len(keys) == 1:
        return IndexSpec("labels", tuple(keys), names)
    sort, dropna = state.options.sort, state.options.dropna
    if dropna and not sort and any(key.value.clean.nulls for key in state.keys):
        # Levels are in order of first appearance, which may be in a row that is in no group because another key is missing.
        sources = tuple(LevelSource(state.held.base, key.value.clean.expr, sort, not dropna) for key in state.keys)
    else:
        sources = tuple(
            LevelSource(base, key.clean.expr, sort, not dropna, _labels_of_excluded_rows(state, i) if dropna else None)
            for i, key in enumerate(keys)
        )
    return IndexSpec("multi", tuple(keys), names, sources=sources)


def _labels_of_excluded_rows(state: Grouped, number: int) -> Operator | None:
    """A key's labels in the rows that are in no group because another key is missing; ``None`` if no other key can be missing."""
    keys = [key.value.clean for key in state.keys]
    others = [i for i, key in enumerate(keys) if key.nulls and i != number]
    if not others:
        return None
    base = build.project(state.held.base, tuple((f"key{i}", keys[i].expr) for i in (number, *others)))
    missing: list[Expr] = [Call("is_null", (base.column(f"key{i}"),), pl.Boolean()) for i in others]
    condition = functools.reduce(lambda one, other: Call("or", (one, other), pl.Boolean()), missing)
    return build.project(build.filter(base, condition), (("label", base.column(f"key{number}")),))


def inserted_keys(state: Grouped, keys: Sequence[_K], labels: pd.Index, count: int, by_name: bool) -> list[_K]:
    """The keys that ``as_index=False`` inserts as the first columns: those whose names are not among the result's columns.

    ``by_name``: pandas inserts each key by its number, interpreted as a level reference. If the name of another key equals
    that number, pandas inserts that other key. ``size`` does not do this.
    """
    found = []
    names: list[Hashable] = [key.name for key in state.keys]
    for i, name in enumerate(names):
        if name is None:
            name = "index" if len(keys) == 1 else f"level_{i}"
        if name not in labels:
            found.append(keys[names.index(i) if by_name and len(keys) > 1 and i in names else i])
    if len(found) != count:
        raise Unsupported(Refusal.GROUP_KEY_RESULT)
    return found


def _may_be_missing(state: Grouped, value: Value) -> bool:
    return not state.options.dropna and value.clean.nulls


def result_value(base: Operator, name: str, out: PlannedAggregate) -> Value:
    """The result of an aggregate, which is a column of the operator ``base``."""
    source = (base, name) if out.undecided else out.source
    value = Value(base.column(name), out.dtype, nulls=out.nulls, nans=out.nans, source=source)
    return value if family(out.dtype) == "numpy" else value.clean


def run_and_narrow(
    base: Operator, names: Sequence[str], planned: Sequence[PlannedAggregate]
) -> tuple[Operator, list[PlannedAggregate]]:
    """Run an aggregate whose dtypes depend on its results, and cast the results that fit to their ``narrow`` dtype.

    Sums of small integers keep the small dtype if all fit. Skewness and kurtosis of integers become integers if all results
    nearly are.
    """
    (frame,) = collect_rows([base], ordered=True)
    settled = []
    for name, out in zip(names, planned, strict=True):
        column = frame.get_column(name)
        if out.narrow is not None and column.dtype.is_float():
            if _become_zeros(column, kind_of(out.narrow) == "i"):
                frame = frame.with_columns(
                    pl.repeat(0, frame.height, eager=True).cast(physical(out.narrow)).alias(name)
                )
                out = replace(out, dtype=out.narrow, nulls=False, nans=False)
        elif out.narrow is not None and not (column.null_count() and out.undecided):
            small = column.cast(physical(out.narrow), strict=False)
            if small.null_count() == column.null_count():
                frame = frame.with_columns(small)
                out = replace(out, dtype=out.narrow)
        settled.append(out)
    return Scan(MemorySource.of(frame), tuple(frame.columns)), settled


def _become_zeros(column: pl.Series, signed: bool) -> bool:
    """Whether pandas converts all of some floats to the integer zero, because each is nearly zero.

    pandas truncates floats to integers if that hardly changes them. The rounding errors of its own sums can move a float
    below another integer, or below zero, which changes the truncated value.

    Raises
    ------
    Unsupported
        If all floats are nearly integers, so that the rounding errors of pandas' sums decide the result.
    """
    numbers = column.fill_null(np.nan).to_numpy()
    near = np.abs(numbers - np.round(numbers)) <= 2e-8
    if not near.all():
        return False
    if not signed or not (np.abs(numbers) <= 5e-9).all():
        raise Unsupported(Refusal.GROUP_TOTALS_SMALL)
    return True


def aggregate(
    state: Grouped, planned: Sequence[PlannedAggregate], labels: Sequence[Hashable]
) -> tuple[list[str], list[str], Aggregate]:
    """The names of the key columns and of the value columns of an aggregate operator, and the operator."""
    names = column_names([*(key.name for key in state.keys), *labels])
    key_names, value_names = names[: len(state.keys)], names[len(state.keys) :]
    base, keys, args = rows_in_groups(state, [arg for out in planned for arg in out.args])
    following = iter(args)
    calls = tuple(
        (name, AggregateCall(out.function, tuple(next(following) for _ in out.args), out.physical, out.options))
        for name, out in zip(value_names, planned, strict=True)
    )
    named = tuple(zip(key_names, keys, strict=True))
    return key_names, value_names, build.aggregate(base, named, calls, state.options.sort)


def rows_in_groups(state: Grouped, exprs: Sequence[Expr]) -> tuple[Operator, list[Expr], list[Expr]]:
    """The rows that are in a group, projected to the keys and expressions unless all of these already are columns.

    Returns
    -------
    tuple of (Operator, list of Expr, list of Expr)
        The rows; the keys as columns of them; the expressions as columns of them.
    """
    base = state.held.base
    keys = [key.value.clean for key in state.keys]
    every = [*(key.expr for key in keys), *exprs]
    if any(not isinstance(expr, Column) for expr in every):
        columns: dict[Expr, Named] = {}
        names = iter(column_names([*(key.name for key in state.keys), *(f"{expr!r}"[:40] for expr in exprs)]))
        for expr in every:
            name = next(names)
            columns.setdefault(expr, (name, expr))
        base = build.project(base, tuple(columns.values()))
        every = [Column(columns[expr][0], dtype_of(expr)) for expr in every]
    found_keys, found = every[: len(keys)], every[len(keys) :]
    if state.options.dropna:
        present: list[Expr] = [
            Call("not", (Call("is_null", (expr,), pl.Boolean()),), pl.Boolean())
            for expr, key in zip(found_keys, keys, strict=True)
            if key.nulls
        ]
        if present:
            base = build.filter(base, conjunction(present))
    return base, found_keys, found


def aggregate_columns(
    state: Grouped, probe: Probe, name: str, args: tuple[Any, ...], parameters: dict[str, Any]
) -> tuple[list[ColumnAggregation], pd.DataFrame | pd.Series]:
    """A named aggregation of all columns, or of the numeric ones with ``numeric_only``; and pandas' result for the stand-in."""
    if args:
        base = PandasSeriesGroupBy if state.single else PandasFrameGroupBy
        named = bound_arguments(base, name, args, parameters)
        parameters = named | named.pop("kwargs", {})
    # With min_count, the stand-in's small groups would have missing results. `plan_aggregate` derives the dtype for these itself.
    probed = {key: item for key, item in parameters.items() if key != "min_count" or not isinstance(item, int)}
    template = probe(name, **probed)
    if name == "size":
        return [(-1, "size", parameters)], template
    positions: Sequence[int] = state.positions
    if parameters.get("numeric_only", False) and not state.single:
        positions = [i for i in positions if is_numeric(state.held.values[i].dtype)]
    return [(i, name, parameters) for i in positions], template


def is_numeric(dtype: DtypeObj) -> bool:
    """Whether ``numeric_only`` keeps a column."""
    return dtype.kind in "biuf" if isinstance(dtype, np.dtype) else bool(dtype._is_numeric)
