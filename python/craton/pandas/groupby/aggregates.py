"""Aggregation of a grouped view: one row a group, labelled as pandas labels it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.generic import SeriesGroupBy as PandasSeriesGroupBy

from craton.engine.sharing import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import DtypeObj, distinguishes_nan, family, kind_of, physical
from craton.pandas.core.execute import count_rows
from craton.pandas.core.view import IndexSpec, LevelSource, Value, View, column_names
from craton.pandas.groupby.functions import LABELS, UNSURE_OF_NAN, Outcome, outcome
from craton.pandas.groupby.keys import Grouped
from craton.plan import build
from craton.plan.expr import Call, Column, Expr, conjunction, dtype_of
from craton.plan.operators import Aggregate, AggregateCall, Named, Operator, Scan
from craton.plan.sources import MemorySource
from craton.refusals import Refusal

Probe = Callable[..., Any]
Pair = tuple[int, str, Mapping[str, Any]]


def summarise(
    state: Grouped, pairs: Sequence[Pair], template: pd.DataFrame | pd.Series, in_order: bool = False
) -> View:
    """Plan aggregations.

    Parameters
    ----------
    state
        What is grouped.
    pairs
        For each result column: the position of the column, the aggregation, its parameters.
    template
        pandas' result for a template: gives labels, names and dtypes. With ``as_index=False`` keys that become columns
        come first.
    in_order
        Whether those keys are what they are called, whatever names they have.

    Returns
    -------
    View
        The result.
    """
    if not pairs:
        raise Unsupported(Refusal.NO_COLUMNS)
    if isinstance(template, pd.DataFrame):
        labels = template.columns
        dtypes = list(template.dtypes)
    else:
        labels = pd.Index([template.name], dtype=object, tupleize_cols=False)
        dtypes = [template.dtype]
    in_front = len(labels) - len(pairs)
    if (in_front and state.options.as_index) or in_front < 0:
        raise Unsupported(Refusal.RESULT_SHAPE)
    _require_groups(state, pairs)
    for position, name, _ in pairs:
        if position >= 0:  # not the size of groups
            refuse_nan(state, name, state.held.values[position])
    label = None
    if any(name in LABELS for _, name, _ in pairs):
        state, label = _with_labels(state, [position for position, name, _ in pairs if name in LABELS])
    outcomes = [
        outcome(name, state.held.values[position] if position >= 0 else None, dtype, parameters, label)
        for (position, name, parameters), dtype in zip(pairs, dtypes[in_front:], strict=True)
    ]
    base: Operator
    key_names, value_names, base = aggregate(state, outcomes, list(labels[in_front:]))
    if any(out.narrow is not None for out in outcomes):
        base, outcomes = _narrowed(base, value_names, outcomes)
    keys = [
        Value(base.column(name), key.value.dtype, nulls=_null_keys(state, key.value))
        for name, key in zip(key_names, state.keys, strict=True)
    ]
    values = [_result(base, name, out) for name, out in zip(value_names, outcomes, strict=True)]
    if state.options.as_index:
        names = template.index.names  # pandas loses names that are NaN where it puts results beside each other
        return View(base, tuple(values), labels, key_index(state, keys, base).renamed(names))
    by_name = not in_order and all(name != "size" or position >= 0 for position, name, _ in pairs)
    return View(base, (*_leading(state, keys, labels[in_front:], in_front, by_name), *values), labels)


def _require_groups(state: Grouped, pairs: Sequence[Pair]) -> None:
    """Refuse where the dtype of a result depends on whether there are any groups, and there may be none.

    pandas leaves a column as it is where there is nothing to aggregate.
    """
    for _, name, parameters in pairs:
        if name in ("skew", "kurt") or "by_function" in parameters:
            certain = bool(state.held.rows) and not any(key.value.clean.nulls for key in state.keys)
            if not certain and count_rows(View(rows(state, ())[0], (), state.held.labels[:0])) == 0:
                raise Unsupported(Refusal.GROUP_NONE)


def refuse_nan(state: Grouped, name: str, value: Value) -> None:
    """Refuse an aggregation whose result hangs on where NaN stands, of a column that holds one."""
    if name not in UNSURE_OF_NAN or not distinguishes_nan(value.dtype):
        return
    if any_row(state.held, Call("is_nan", (value.expr,), pl.Boolean())):
        raise Unsupported(Refusal.GROUP_ARROW_NAN, name)


def _with_labels(state: Grouped, positions: Sequence[int]) -> tuple[Grouped, Value]:
    """The same with the row labels as a column of the base; ``idxmin`` looks for them.

    pandas raises where a group has no value at all, so that is looked up first.
    """
    if state.held.index.kind == "multi":
        raise Unsupported(Refusal.GROUP_LABELS_OF_SEVERAL_LEVELS)
    for position in positions:
        value = state.held.values[position].clean
        if value.nulls:
            base, by, args = rows(state, [value.expr])
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
        Over ``base``, which has a row for each group.
    """
    names = tuple(key.name for key in state.keys)
    if len(keys) == 1:
        return IndexSpec("labels", tuple(keys), names)
    sort, dropna = state.options.sort, state.options.dropna
    if dropna and not sort and any(key.value.clean.nulls for key in state.keys):
        # A label may appear first on a row that is left out because another key is missing.
        sources = tuple(LevelSource(state.held.base, key.value.clean.expr, sort, not dropna) for key in state.keys)
    else:
        sources = tuple(
            LevelSource(base, key.clean.expr, sort, not dropna, _left_out(state, i) if dropna else None)
            for i, key in enumerate(keys)
        )
    return IndexSpec("multi", tuple(keys), names, sources=sources)


def _left_out(state: Grouped, number: int) -> Operator | None:
    """A key's labels on the rows that are in no group because another key is missing; None if no other can be."""
    keys = [key.value.clean for key in state.keys]
    others = [i for i, key in enumerate(keys) if key.nulls and i != number]
    if not others:
        return None
    base = build.project(state.held.base, tuple((f"key{i}", keys[i].expr) for i in (number, *others)))
    missing: list[Expr] = [Call("is_null", (base.column(f"key{i}"),), pl.Boolean()) for i in others]
    condition = functools.reduce(lambda one, other: Call("or", (one, other), pl.Boolean()), missing)
    return build.project(build.filter(base, condition), (("label", base.column(f"key{number}")),))


def _leading(state: Grouped, keys: Sequence[Value], labels: pd.Index, count: int, by_name: bool) -> list[Value]:
    """The keys that ``as_index=False`` puts in front: those whose names are not among the columns.

    ``by_name``: pandas looks up the level of a key by the key's number, and takes the key that has the number for its name,
    if one has; ``size`` does not.
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


def _null_keys(state: Grouped, value: Value) -> bool:
    return not state.options.dropna and value.clean.nulls


def _result(base: Operator, name: str, out: Outcome) -> Value:
    source = (base, name) if out.undecided else out.source
    value = Value(base.column(name), out.dtype, nulls=out.nulls, nans=out.nans, source=source)
    return value if family(out.dtype) == "numpy" else value.clean


def _narrowed(base: Operator, names: Sequence[str], outcomes: Sequence[Outcome]) -> tuple[Operator, list[Outcome]]:
    """Run an aggregate whose dtypes depend on which numbers come out.

    Sums of small integers stay small if they fit; a skewness or kurtosis of integers becomes an integer if all of them nearly are.
    """
    (frame,) = collect_rows([base], ordered=True)
    settled = []
    for name, out in zip(names, outcomes, strict=True):
        column = frame.get_column(name)
        if out.narrow is not None and column.dtype.is_float():
            if _nearly_zeros(column, kind_of(out.narrow) == "i"):
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


def _nearly_zeros(column: pl.Series, signed: bool) -> bool:
    """Whether pandas makes zeros of all of some floats, as each nearly is one.

    It cuts off their fractions, and looks whether much is lost. In its own sums other whole numbers may be a bit less, and
    a zero below zero.

    Raises
    ------
    Unsupported
        If the last digits of pandas' sums decide.
    """
    numbers = column.fill_null(np.nan).to_numpy()
    near = np.abs(numbers - np.round(numbers)) <= 2e-8
    if not near.all():
        return False
    if not signed or not (np.abs(numbers) <= 5e-9).all():
        raise Unsupported(Refusal.GROUP_TOTALS_SMALL)
    return True


def aggregate(
    state: Grouped, outcomes: Sequence[Outcome], labels: Sequence[Hashable]
) -> tuple[list[str], list[str], Aggregate]:
    """The aggregate operator, and the names of its key and value columns."""
    names = column_names([*(key.name for key in state.keys), *labels])
    key_names, value_names = names[: len(state.keys)], names[len(state.keys) :]
    base, keys, args = rows(state, [arg for out in outcomes for arg in out.args])
    following = iter(args)
    calls = tuple(
        (name, AggregateCall(out.function, tuple(next(following) for _ in out.args), out.physical, out.options))
        for name, out in zip(value_names, outcomes, strict=True)
    )
    named = tuple(zip(key_names, keys, strict=True))
    return key_names, value_names, build.aggregate(base, named, calls, state.options.sort)


def rows(state: Grouped, exprs: Sequence[Expr]) -> tuple[Operator, list[Expr], list[Expr]]:
    """The rows that have a key, with keys and expressions as columns where they are more than that.

    Returns
    -------
    tuple of (Operator, list of Expr, list of Expr)
        The rows; the keys and the expressions over them.
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


def reduced(
    state: Grouped, probe: Probe, name: str, args: tuple[Any, ...], parameters: dict[str, Any]
) -> tuple[View, pd.DataFrame | pd.Series]:
    """A named aggregation of all columns, or of the numeric ones; and pandas' result for the template."""
    if args:
        parameters = named_arguments(
            PandasSeriesGroupBy if state.single else PandasFrameGroupBy, name, args, parameters
        )
    # The template's groups are too small for some min_count; what comes of missing totals is known without it.
    asked = {key: item for key, item in parameters.items() if key != "min_count" or not isinstance(item, int)}
    template = probe(name, **asked)
    if name == "size":
        return summarise(state, [(-1, "size", parameters)], template), template
    positions: Sequence[int] = state.positions
    if parameters.get("numeric_only", False) and not state.single:
        positions = [i for i in positions if _numeric(state.held.values[i].dtype)]
    return summarise(state, [(i, name, parameters) for i in positions], template), template


def named_arguments(cls: type, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name.

    Raises
    ------
    Unsupported
        If they don't fit: pandas words the error.
    """
    try:
        bound = signature(getattr(cls, method)).bind(None, *args, **kwargs).arguments
    except TypeError as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    _, *given = bound.items()
    return {name: value for name, value in given if name != "kwargs"} | bound.get("kwargs", {})


def _numeric(dtype: DtypeObj) -> bool:
    """Whether ``numeric_only`` keeps a column."""
    return dtype.kind in "biuf" if isinstance(dtype, np.dtype) else bool(dtype._is_numeric)
