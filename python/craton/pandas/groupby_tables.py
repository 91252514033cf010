"""``value_counts`` and ``describe`` of groups: several numbers a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.dtypes import FLOAT64, INT64, family, kind_of
from craton.pandas.groupby_aggregates import Pair, Probe, rows, summarise
from craton.pandas.groupby_keys import Grouped, Key
from craton.pandas.groupby_windows import Result
from craton.pandas.view import IndexSpec, Value, View, column_names
from craton.plan.expr import Call, Expr, Window, conjunction
from craton.plan.operators import Aggregate, AggregateCall, Filter, Operator, Sort, SortKey

STATISTICS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("count", {}),
    ("mean", {}),
    ("std", {}),
    ("min", {}),
    ("quantile", {"q": 0.25}),
    ("quantile", {"q": 0.5}),
    ("quantile", {"q": 0.75}),
    ("max", {}),
)


def describe(state: Grouped, probe: Probe, percentiles: Any = None, include: Any = None, exclude: Any = None) -> Result:
    """Count, mean, standard deviation, extremes and quartiles of numeric columns."""
    if percentiles is not None or include is not None or exclude is not None:
        raise Unsupported("parameters of describe")
    positions = [i for i in state.positions if kind_of(state.held.values[i].dtype) in "iuf"]
    if len(positions) != len(state.positions) or any(family(value.dtype) != "numpy" for value in state.values):
        raise Unsupported("describe of columns that are not numbers")
    if not state.held.rows or any(key.value.clean.nulls for key in state.keys):
        raise Unsupported("describe of what may be no groups")
    template = probe(lambda gb: gb.describe())
    pairs: list[Pair] = [(i, name, parameters) for i in positions for name, parameters in STATISTICS]
    return summarise(state, pairs, template), template


def value_counts(
    state: Grouped,
    probe: Probe,
    subset: Sequence[Any] | None = None,
    normalize: bool = False,
    sort: bool = True,
    ascending: bool = False,
    dropna: bool = True,
) -> Result:
    """How often each combination of values occurs in each group, the most frequent first."""
    flags = (normalize, sort, ascending, dropna)
    if subset is not None or not all(isinstance(flag, bool) for flag in flags):
        raise Unsupported("parameters of value_counts")
    if any(family(value.dtype) == "category" for value in (*state.values, *(key.value for key in state.keys))):
        raise Unsupported("value_counts of categories")
    if not all(value.definite for value in state.values):
        raise Unsupported("a column whose dtype depends on the data")
    own = {key.column for key in state.keys}
    values = [Key(state.held.values[i], state.held.labels[i]) for i in state.positions if i not in own]
    template = probe(lambda gb: gb.value_counts(normalize=normalize, sort=sort, ascending=ascending, dropna=dropna))
    base, keys, counted = rows(state, [key.value.clean.expr for key in values])
    present: list[Expr] = [
        Call("not", (Call("is_null", (expr,), pl.Boolean()),), pl.Boolean())
        for expr, key in zip(counted, values, strict=True)
        if key.value.clean.nulls and dropna
    ]
    if present:
        base = Filter(base, conjunction(present))
    every = [*state.keys, *values]
    *names, count_name = column_names([*(key.name for key in every), "count"])
    named = tuple(zip(names, [*keys, *counted], strict=True))
    counts: Operator = Aggregate(
        base, named, ((count_name, AggregateCall("len", (), pl.Int64())),), sort=False
    )
    order: list[SortKey] = []
    if state.options.sort:
        order += [SortKey(counts.column(name)) for name in names[: len(keys)]]
    if sort:
        order.append(SortKey(counts.column(count_name), descending=not ascending))
    if order:
        counts = Sort(counts, tuple(order))
    number = Value(counts.column(count_name), INT64, nulls=False)
    if normalize:
        total = Window("sum", (number.expr,), pl.Int64(), tuple(counts.column(name) for name in names[: len(keys)]))
        number = Value(Call("truediv", (number.expr, total), pl.Float64()), FLOAT64, nulls=False)
    labels = [
        Value(counts.column(name), key.value.dtype, nulls=key.value.clean.nulls)
        for name, key in zip(names, every, strict=True)
    ]
    return _labelled(state, counts, labels, every, number, template), template


def _labelled(
    state: Grouped, base: Operator, labels: list[Value], keys: list[Key], number: Value, template: Any
) -> View:
    if isinstance(template, pd.Series) and state.options.as_index:
        kind = "multi" if len(keys) > 1 else "labels"
        index = IndexSpec(kind, tuple(labels), tuple(template.index.names))  # type: ignore[arg-type]
        return View(base, (number,), pd.Index([template.name], dtype=object, tupleize_cols=False), index)
    if not isinstance(template, pd.DataFrame) or template.shape[1] != len(keys) + 1:
        raise Unsupported("a result of another shape than was expected")
    return View(base, (*labels, number), template.columns)
