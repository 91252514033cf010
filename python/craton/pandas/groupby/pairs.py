"""``corr`` and ``cov`` of groups: of the columns of each group, and of each group of a column with another column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.core.align import aligned
from craton.pandas.core.data_checks import any_missing
from craton.pandas.core.dtypes import FLOAT64, family
from craton.pandas.core.execute import materialise
from craton.pandas.core.lazy import view
from craton.pandas.core.numpy_errors import reported_kinds
from craton.pandas.core.view import Value, View, name_index
from craton.pandas.groupby.aggregates import Probe, aggregate, has_groups, is_numeric, key_index
from craton.pandas.groupby.functions import PlannedAggregate, as_number, of_two
from craton.pandas.groupby.keys import Grouped
from craton.plan.expr import Call, Expr, Literal
from craton.refusals import Refusal

__all__ = ["matrices", "of_two_columns", "refuse_constant", "refuse_degenerate"]


def _extremes(exprs: Sequence[Expr]) -> list[PlannedAggregate]:
    return [PlannedAggregate(end, (expr,), FLOAT64, nulls=True) for expr in exprs for end in ("min", "max")]


def _found(state: Grouped, planned: Sequence[PlannedAggregate]) -> tuple[list[Any], pd.Index]:
    """The values of aggregates for each group, and the groups."""
    key_names, names, base = aggregate(state, planned, list(range(len(planned))))
    keys = [
        Value(base.column(name), key.value.dtype, nulls=key.value.clean.nulls)
        for name, key in zip(key_names, state.keys, strict=True)
    ]
    values = tuple(Value(base.column(name), FLOAT64, nulls=True, nans=True) for name in names)
    arrays, index = materialise(View(base, values, pd.RangeIndex(len(values)), key_index(state, keys, base)))
    return [np.asarray(array) for array in arrays], index


def _require_groups(state: Grouped) -> None:
    """Refuse groups whose labels pandas combines by other rules than those of :func:`matrices`."""
    if not state.options.as_index or not state.options.group_keys or not has_groups(state):
        raise Unsupported(Refusal.GROUP_NONE)
    for key in state.keys:
        missing = not state.options.dropna and any_missing(state.held, key.value)
        if family(key.value.dtype) == "category" or missing:
            raise Unsupported(Refusal.GROUP_KEY_DTYPE, key.value.dtype)


def matrices(state: Grouped, probe: Probe, name: str, numeric_only: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The matrix of each group, one below the other; and the template."""
    _require_groups(state)
    template = probe(name, numeric_only=numeric_only)
    positions = [i for i in state.positions if not numeric_only or is_numeric(state.held.values[i].dtype)]
    values = [state.held.values[i] for i in positions]
    numbers = [as_number(value) for value in values]
    pairs = list(combinations_with_replacement(range(len(values)), 2))
    if name == "corr":
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
    planned = [of_two(name, values[i], values[j]) for i, j in pairs]
    arrays, index = _found(state, [*_extremes(numbers), *planned, PlannedAggregate("len", (), FLOAT64)])
    count, sizes = len(values), arrays.pop()
    if name == "cov" and _raises_warnings() and (sizes == 1).any():
        raise Unsupported(Refusal.GROUP_CONSTANT)
    ends, rest = arrays[: 2 * count], arrays[2 * count :]
    if any(np.isinf(end).any() for end in ends):
        raise Unsupported(Refusal.GROUP_DESCRIBE_INFINITE)
    result = np.full((len(index), count, count), np.nan)
    if name == "corr":
        for i in range(count):
            result[:, i, i] = np.where(ends[2 * i] < ends[2 * i + 1], 1.0, np.nan)
    for (i, j), array in zip(pairs, rest, strict=True):
        result[:, i, j] = result[:, j, i] = array
    labels = template.columns
    rows = _with_labels(index, labels)
    return pd.DataFrame(result.reshape(-1, count), index=rows, columns=labels, copy=False), template


def _with_labels(index: pd.Index, labels: pd.Index) -> pd.MultiIndex:
    """The labels of each group's rows: the group, and the label of a column."""
    several = isinstance(index, pd.MultiIndex)
    levels = list(index.levels) if several else [index]  # type: ignore[attr-defined]
    codes = list(index.codes) if several else [np.arange(len(index))]  # type: ignore[attr-defined]
    return pd.MultiIndex(
        [*levels, labels],
        [*(np.repeat(code, len(labels)) for code in codes), np.tile(np.arange(len(labels)), len(index))],
        names=[*index.names, labels.name],
    )


def refuse_degenerate(state: Grouped, name: str, one: Value, other: Value) -> None:
    """Refuse two Series if one is constant in a group: their correlation divides rounding errors by each other in pandas.

    The correlation of a frame's columns is exact in this case. NumPy warns of the covariance of one row. A query computes the extremes.
    """
    if name == "cov" and not _raises_warnings():
        return
    exprs = [as_number(value) for value in (one, other)]
    kind = pl.Float64()
    missing = Call("or", tuple(Call("is_null", (expr,), pl.Boolean()) for expr in exprs), pl.Boolean())
    both = [Call("when", (missing, Literal(None, kind), expr), kind) for expr in exprs]
    (low, high, least, most, rows), _ = _found(state, [*_extremes(both), _count(both[0])])
    if (((low == high) | (least == most)) & (rows > 1)).any() if name == "corr" else (rows == 1).any():
        raise Unsupported(Refusal.GROUP_CONSTANT)


def refuse_constant(state: Grouped, value: Value) -> None:
    """Refuse the deviation of a Series as a divisor if the Series is constant in a group: it is a rounding error in pandas."""
    expr = as_number(value)
    (low, high, rows), _ = _found(state, [*_extremes([expr]), _count(expr)])
    if ((low == high) & (rows > 1)).any():
        raise Unsupported(Refusal.GROUP_CONSTANT)


def _raises_warnings() -> bool:
    """Whether NumPy's warnings may be errors."""
    return warning_filters.may_raise(RuntimeWarning) or bool(reported_kinds())


def _count(expr: Expr) -> PlannedAggregate:
    return PlannedAggregate("count", (expr,), FLOAT64)


def of_two_columns(
    state: Grouped, probe: Probe, name: str, other: Any, parameters: dict[str, Any]
) -> tuple[View, pd.Series]:
    """``corr`` or ``cov`` of each group of a column with another Series."""
    if parameters.get("method", "pearson") != "pearson" or parameters.get("min_periods") not in (None, 1):
        raise Unsupported(Refusal.PARAMETERS, "method and min_periods")
    if parameters.get("ddof", 1) != 1 or not isinstance(other, pd.Series):
        raise Unsupported(Refusal.PARAMETERS, "other and ddof")
    _require_groups(state)
    if state.held.index.kind != "default":
        raise Unsupported(Refusal.ROW_LABELS_DIFFER)
    width = len(state.held.values)
    values = (*state.held.values, *(key.value for key in state.keys))
    held, beside = aligned(state.held.with_values(values, pd.RangeIndex(len(values))), view(other))
    keys = tuple(replace(key, value=value) for key, value in zip(state.keys, held.values[width:], strict=True))
    moved = replace(state, held=held.with_values(held.values[:width], state.held.labels), keys=keys)
    (one,), (second,) = moved.values, beside.values
    refuse_degenerate(moved, name, one, second)
    key_names, (found,), base = aggregate(moved, [of_two(name, one, second)], ["found"])
    template = probe("apply", lambda _: 1.0)
    labels = [
        Value(base.column(label), key.value.dtype, nulls=False)
        for label, key in zip(key_names, moved.keys, strict=True)
    ]
    value = Value(base.column(found), FLOAT64, nulls=True, nans=True)
    index = key_index(moved, labels, base).renamed(template.index.names)
    return View(base, (value,), name_index(template.name), index), template
