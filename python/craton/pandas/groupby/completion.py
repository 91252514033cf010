"""Results of groups that no row is in, and of keys whose labels plans do not hold.

With ``observed=False`` a result has a row for each combination of categories; with a frequency, one for each interval of time.
The plan aggregates the groups that have rows. The row labels come from pandas: its own group-by of a few *sample rows*, which
have the same keys as the groups with rows. It returns the labels of all groups, and the group of each sample. The aggregates
are then placed at these labels, and the groups without rows get the values that pandas gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.errors import Unsupported
from craton.pandas.core.array_conversion import Array
from craton.pandas.core.data_checks import any_row
from craton.pandas.core.dtypes import INT64, kind_of
from craton.pandas.core.execute import materialise
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View
from craton.pandas.groupby.aggregates import (
    ColumnAggregation,
    aggregate,
    inserted_keys,
    inserts_by_name,
    prepared,
    result_value,
    run_and_narrow,
)
from craton.pandas.groupby.functions import JOIN, LABELS, NAMES, PlannedAggregate
from craton.pandas.groupby.key_origins import RowLabels, TimeBins
from craton.pandas.groupby.keys import Grouped, GroupKey
from craton.pandas.groupby.times.labels import group_labels, has_known_labels
from craton.pandas.groupby.traced import TRACED
from craton.plan import build
from craton.plan.expr import Call, Literal, WindowCall, has_window, options
from craton.plan.operators import Aggregate, SortKey
from craton.refusals import Refusal

#: Aggregations that are zero for a group without rows, and those that have another value.
_ZERO = frozenset(["size", "count", "nunique", "sum"])
_NEUTRAL: dict[str, Any] = {"prod": 1, "any": False, "all": True}
#: Aggregations that depend on the order of the rows.
_ORDERED = frozenset(["first", "last"])
#: Methods that aggregate, and those that return values of single rows, for keys whose groups or labels the plan does not hold.
_COMPLETED = frozenset([*(NAMES - LABELS), "ohlc", "agg", "aggregate", "__getitem__", "apply"])
_BY_ROWS = frozenset(
    [
        *(
            "cumsum",
            "cumprod",
            "cummin",
            "cummax",
            "ffill",
            "bfill",
            "head",
            "tail",
            "cumcount",
            "shift",
            "diff",
            "rank",
        ),
        *("pct_change", "transform", "nth"),
    ]
)


def refuse_unless_completed(plan: Grouped, method: str) -> None:
    """Refuse a method that needs all groups or their labels, if the plan does not hold them (``Grouped.completes``)."""
    if not plan.completes or method in _COMPLETED:
        return
    if method not in _BY_ROWS or any(isinstance(key.origin, TimeBins) for key in plan.keys):
        raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)


def completed(
    state: Grouped,
    aggregations: Sequence[ColumnAggregation],
    template: pd.DataFrame | pd.Series,
    in_order: bool = False,
) -> pd.DataFrame | pd.Series:
    """Aggregate now, and return the result with the rows of all groups. The parameters are those of :func:`.plan_aggregations`.

    Raises
    ------
    Unsupported
        If there are no groups with rows, or if the value that pandas gives to a group without rows is not known.
    """
    for position, name, _ in aggregations:
        if name in LABELS or name in (JOIN, TRACED) or (name in ("skew", "kurt") and _is_integer(state, position)):
            raise Unsupported(Refusal.OPERATION, f"{name} of groups that may have no rows")
    if len(state.keys) > 1 and any(key.name in range(len(state.keys)) for key in state.keys):
        raise Unsupported(
            Refusal.GROUP_KEYS_NAMED_BY_NUMBERS
        )  # pandas takes such names for positions of levels, or positions for names
    if any(name in _ORDERED for _, name, _ in aggregations):
        state = _in_order_of_time(state)
    state, labels, in_front, parts = prepared(state, aggregations, template)
    planned = [part for (part,) in parts]  # a traced function has several
    index: pd.Index
    if has_known_labels(state):
        numbers, arrays = aggregated_groups(state, planned)
        if not len(arrays[0]):
            raise Unsupported(Refusal.GROUP_NONE)
        index = group_labels(state, numbers)
        return _finished(state, aggregations, template, in_order, labels[in_front:], in_front, index, arrays)
    keys, columns = _aggregated(state, planned)
    if not len(columns[0]):
        raise Unsupported(Refusal.GROUP_NONE)
    samples = keys
    if state.options.dropna and len(state.keys) > 1 and any(key.value.clean.nulls for key in state.keys):
        # Rows that are in no group because a key is missing have labels of the other keys, which become labels of the levels.
        every = replace(state, options=replace(state.options, dropna=False, sort=False))
        others, _ = _aggregated(every, [PlannedAggregate("len", (), INT64)])
        samples = [_joined(one, other) for one, other in zip(others, keys, strict=True)]
    index, places = _labels(state, samples)
    places = places[len(places) - len(columns[0]) :]
    if (places < 0).any() or (np.bincount(places) > 1).any():
        raise Unsupported(Refusal.GROUP_SAMPLES)
    taken = np.full(len(index), -1, dtype=np.intp)
    taken[places] = np.arange(len(places))
    arrays = [
        placed(array, taken, name, parameters, kind_of(out.dtype))
        for array, out, (_, name, parameters) in zip(columns, planned, aggregations, strict=True)
    ]
    return _finished(state, aggregations, template, in_order, labels[in_front:], in_front, index, arrays)


def _finished(
    state: Grouped,
    aggregations: Sequence[ColumnAggregation],
    template: pd.DataFrame | pd.Series,
    in_order: bool,
    labels: pd.Index,
    in_front: int,
    index: pd.Index,
    arrays: list[Array],
) -> pd.DataFrame | pd.Series:
    """The result, from the labels and the aggregates of all groups."""
    if not state.options.as_index:
        levels = [index.get_level_values(i)._values for i in range(index.nlevels)]  # type: ignore[attr-defined]
        by_name = inserts_by_name(aggregations, in_order)
        arrays = [*inserted_keys(state, levels, labels, in_front, by_name), *arrays]
        index = pd.RangeIndex(len(index))
    else:
        index = index.set_names(list(template.index.names))
    with plain_pandas():
        if isinstance(template, pd.Series):
            return pd.Series(arrays[0], index=index, name=template.name, copy=False)
        frame = pd.DataFrame(dict(enumerate(arrays)), index=index)
        frame.columns = template.columns
        return frame


def _in_order_of_time(state: Grouped) -> Grouped:
    """The group-by with the rows in order of time, in which pandas groups them if the only key is intervals of time."""
    origin = state.keys[0].origin
    if len(state.keys) > 1 or not isinstance(origin, TimeBins):
        return state
    time = origin.times.clean
    earlier = WindowCall("shift", (time.expr,), time.physical, (), options(periods=1))
    held = state.held
    # The comparison is null beside a missing time, so rows on both sides of it are not compared.
    if not origin.missing and not any_row(held, Call("lt", (time.expr, earlier), pl.Boolean())):
        return state
    if any(has_window(value.expr) for value in (*held.values, *(key.value for key in state.keys), time)):
        raise Unsupported(Refusal.GROUP_SAMPLES)  # a window has the rows in the order before the sort
    return replace(state, held=replace(held, base=build.sort(held.base, [SortKey(time.expr)]), rows=None))


def _is_integer(state: Grouped, position: int) -> bool:
    return kind_of(state.held.values[position].dtype) in "biu"


def _aggregated(state: Grouped, planned: list[PlannedAggregate]) -> tuple[list[tuple[Array, ...]], list[Array]]:
    """The keys and the aggregates of the groups that have rows.

    Returns
    -------
    tuple of (list of tuples of arrays, list of arrays)
        For each key its values, for times the first and the last in the group; and the aggregates.
    """
    if any(isinstance(key.origin, RowLabels) for key in state.keys):
        state = replace(state, options=replace(state.options, sort=False))  # their numbers are not in pandas' order
    ends = [
        PlannedAggregate(function, (key.origin.times.clean.expr,), key.origin.times.dtype)
        for key in state.keys
        if isinstance(key.origin, TimeBins)
        for function in ("min", "max")
    ]
    numbers, columns = aggregated_groups(state, [*planned, *ends])
    times = iter(columns[len(planned) :])
    found: list[tuple[Array, ...]] = []
    for key, array in zip(state.keys, numbers, strict=True):
        if isinstance(key.origin, TimeBins):
            found.append((next(times), next(times)))
        elif isinstance(key.origin, RowLabels):
            found.append((key.origin.labels_of(array),))
        else:
            found.append((array,))
    return found, columns[: len(planned)]


def aggregated_groups(state: Grouped, planned: Sequence[PlannedAggregate]) -> tuple[list[Array], list[Array]]:
    """The keys and the aggregates of the groups that have rows. Keys whose labels plans do not hold are numbers."""
    key_names, value_names, base = aggregate(state, planned, list(range(len(planned))))
    operator, outs = base, planned
    if any(out.narrow is not None for out in planned):
        operator, outs = run_and_narrow(base, value_names, planned)  # type: ignore[assignment]
    keys = [_key(operator, name, key, state) for name, key in zip(key_names, state.keys, strict=True)]
    values = [result_value(operator, name, out) for name, out in zip(value_names, outs, strict=True)]
    every = (*keys, *values)
    arrays, _ = materialise(View(operator, every, pd.RangeIndex(len(every))))
    return arrays[: len(keys)], arrays[len(keys) :]


def _key(base: Aggregate, name: str, key: GroupKey, state: Grouped) -> Value:
    column = base.column(name)
    if key.origin is None:
        return Value(column, key.value.dtype, nulls=key.value.clean.nulls and not state.options.dropna)
    number = Call("fill_null", (column, Literal(-1, key.value.physical)), key.value.physical)
    return Value(number, key.value.dtype, nulls=False)


def _joined(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
    with plain_pandas():
        return tuple(
            pd.concat([pd.Series(left), pd.Series(right)], ignore_index=True)._values
            for left, right in zip(one, other, strict=True)
        )


def _labels(state: Grouped, samples: list[tuple[Array, ...]]) -> tuple[pd.Index, Any]:
    """The labels of all groups, and the positions of the samples' groups among them, from pandas' group-by of the samples."""
    rows = len(samples[0][0])
    repeats = max(len(arrays) for arrays in samples)
    with plain_pandas():
        frame = pd.DataFrame(index=pd.RangeIndex(rows * repeats))
        by: list[Any] = []
        for key, arrays in zip(state.keys, samples, strict=True):
            array = _repeated(arrays, repeats)
            if isinstance(key.origin, TimeBins) and key.origin.missing and len(state.keys) == 1:
                # A missing time, which is in no group, takes the frequency from the labels.
                array = pd.api.extensions.take(array, [*range(len(array)), -1], allow_fill=True)
                frame = pd.DataFrame(index=pd.RangeIndex(len(array)))
            if isinstance(key.origin, TimeBins):
                frame = key.origin.with_times(frame, array)
                by.append(key.origin.rule())
            elif isinstance(key.origin, RowLabels):
                by.append(key.origin.named(array, key.name))
            else:
                by.append(pd.Series(array, name=key.name))
        by = [one.set_axis(frame.index) if isinstance(one, pd.Series) else one for one in by]
        options = state.options
        groups: Any = frame.groupby(
            by if len(by) > 1 else by[0], sort=options.sort, observed=options.observed, dropna=options.dropna
        )
        index, places = groups._grouper.result_index, groups._grouper.codes_info
    if repeats > 1 and not (places[:rows] == places[rows : 2 * rows]).all():
        raise Unsupported(Refusal.GROUP_SAMPLES)
    return index, places[:rows]


def _repeated(arrays: tuple[Array, ...], repeats: int) -> Any:
    if repeats == 1:
        return arrays[0]
    one, other = arrays[0], arrays[-1]
    if isinstance(one, pd.Index):
        return one.append(other)  # type: ignore[arg-type]
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])  # type: ignore[list-item]
    return one._concat_same_type([one, other])


def placed(array: Any, taken: Any, name: str, parameters: Mapping[str, Any], kind: str) -> Array:
    """An aggregate of all groups, from that of the groups with rows and their places (-1 for groups without rows)."""
    if not (taken < 0).any():
        return array.take(taken)  # type: ignore[no-any-return]
    if "by_function" in parameters and name != "size":
        raise Unsupported(Refusal.OPERATION, f"{name} of groups that may have no rows")
    neutral = _value_of_no_rows(name, parameters)
    if neutral is None:
        if name == "quantile" and kind != "f":
            raise Unsupported(Refusal.OPERATION, f"{name} of groups that may have no rows")
        if isinstance(array, np.ndarray) and array.dtype.kind in "iub":
            array = array.astype(np.float64)
        return pd.api.extensions.take(array, taken, allow_fill=True)
    if kind not in "biuf":
        raise Unsupported(Refusal.OPERATION, f"{name} of groups that may have no rows")
    return pd.api.extensions.take(array, taken, allow_fill=True, fill_value=array.dtype.type(neutral))


def _value_of_no_rows(name: str, parameters: Mapping[str, Any]) -> Any:
    """The value of an aggregation for a group without rows; ``None`` if it is missing."""
    if name in ("sum", "prod") and parameters.get("min_count", 0) > 0:
        return None
    return 0 if name in _ZERO else _NEUTRAL.get(name)
