"""``value_counts`` and ``describe`` of groups: methods with several result values per group and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.core.groupby.groupby import _insert_quantile_level

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core.array_conversion import to_array
from craton.pandas.core.data_checks import any_missing, any_row, has_odd_floats
from craton.pandas.core.dtypes import family, kind_of, physical
from craton.pandas.core.execute import materialise
from craton.pandas.core.view import Value, View
from craton.pandas.groupby.aggregates import (
    ColumnAggregation,
    Probe,
    has_groups,
    is_numeric,
    plan_aggregations,
    rows_in_groups,
)
from craton.pandas.groupby.functions import is_infinite
from craton.pandas.groupby.keys import Grouped, GroupKey
from craton.pandas.groupby.windows import ViewAndTemplate
from craton.pandas.values.comparison import is_missing
from craton.plan import build
from craton.plan.expr import Call, Expr, conjunction
from craton.plan.names import column_names
from craton.plan.operators import AggregateCall, Operator
from craton.refusals import Refusal

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


def describe(
    state: Grouped, probe: Probe, percentiles: Any = None, include: Any = None, exclude: Any = None
) -> ViewAndTemplate:
    """Count, mean, standard deviation, extremes and quartiles of numeric columns."""
    if percentiles is not None or include is not None or exclude is not None:
        raise Unsupported(Refusal.PARAMETERS, "percentiles, include and exclude")
    positions = [i for i in state.positions if kind_of(state.held.values[i].dtype) in "iuf"]
    if len(positions) != len(state.positions) or any(family(value.dtype) != "numpy" for value in state.values):
        raise Unsupported(Refusal.GROUP_DESCRIBE_DTYPE)
    if not state.options.sort or not has_groups(state):
        raise Unsupported(Refusal.GROUP_DESCRIBE_NONE)
    if any(any_missing(state.held, key.value) for key in state.keys):
        # pandas unstacks the statistics, and with several keys the order of its rows depends on the groups that were left out.
        raise Unsupported(Refusal.GROUP_DESCRIBE_MISSING)
    floats = [state.held.values[i] for i in positions if kind_of(state.held.values[i].dtype) == "f"]
    if any(any_row(state.held, is_infinite(value)) for value in floats):
        # Between infinities, pandas' describe interpolates to NaN, but its quantile, which plans implement, does not.
        raise Unsupported(Refusal.GROUP_DESCRIBE_INFINITE)
    if _spread_wraps(state.held, [state.held.values[i] for i in positions]):
        # Interpolation between distant integers overflows in pandas' describe, but not in its quantile, which plans implement.
        raise Unsupported(Refusal.GROUP_DESCRIBE_WRAPS)
    template = probe("describe")
    aggregations: list[ColumnAggregation] = [
        (i, name, parameters) for i in positions for name, parameters in STATISTICS
    ]
    return plan_aggregations(state, aggregations, template), template


def quantiles(
    state: Grouped, probe: Probe, q: Any, interpolation: str = "linear", numeric_only: Any = False
) -> tuple[pd.DataFrame | pd.Series, Any]:
    """Several quantiles of each group, which are the innermost level of the row labels, as a pandas object; and the template."""
    shares = np.asarray(q, dtype=np.float64)
    if (
        type(q) not in (list, tuple, np.ndarray)
        or shares.ndim != 1
        or not len(shares)
        or type(numeric_only) is not bool
    ):
        raise Unsupported(Refusal.PARAMETER, "q")
    if not state.options.as_index or not has_groups(state):
        raise Unsupported(Refusal.PARAMETER, "q")
    numbers = {"interpolation": interpolation, "numeric_only": numeric_only}
    if state.single:
        del numbers["numeric_only"]
    template = probe("quantile", list(shares), **numbers)
    single = probe("quantile", shares[0], **numbers)
    dtypes = [single.dtype] if state.single else list(single.dtypes)
    if any(family(dtype) != "numpy" for dtype in dtypes):
        raise Unsupported(Refusal.PARAMETER, "q")
    positions = [i for i in state.positions if not numeric_only or is_numeric(state.held.values[i].dtype)]
    aggregations: list[ColumnAggregation] = [
        (i, "quantile", {"q": float(share), "interpolation": interpolation}) for i in positions for share in shares
    ]
    every = pd.DataFrame(
        {number: pd.Series(dtype=dtype) for number, dtype in enumerate(np.repeat(np.array(dtypes), len(shares)))}
    )
    every.index = every.index.set_names(None) if single.index.nlevels == 1 else single.index[:0]
    every.index.names = single.index.names
    arrays, index = materialise(plan_aggregations(state, aggregations, every))
    count = len(shares)
    columns = [
        np.column_stack([np.asarray(array) for array in arrays[start : start + count]]).ravel()
        for start in range(0, len(arrays), count)
    ]
    found: Any
    labels = _insert_quantile_level(index, shares)
    if state.single:
        found = pd.Series(columns[0], index=labels, name=template.name, copy=False)
    else:
        found = pd.DataFrame(dict(enumerate(columns)), index=labels, copy=False)
        found.columns = template.columns
    return found, template


def _spread_wraps(held: View, values: Sequence[Value]) -> bool:
    """Whether the difference of two signed integers of a column overflows the column's dtype."""
    signed = list(dict.fromkeys(value for value in values if kind_of(value.dtype) == "i"))
    if not signed:
        return False
    calls = [AggregateCall(name, (value.clean.expr,), value.physical) for value in signed for name in ("min", "max")]
    ends = collect_rows(
        [build.aggregate(held.base, (), tuple(zip(column_names(range(len(calls))), calls, strict=True)))]
    )[0].row(0)
    extremes = zip(signed, ends[::2], ends[1::2], strict=True)
    return any(low is not None and high - low > np.iinfo(value.dtype).max for value, low, high in extremes)  # type: ignore[type-var]


def value_counts(
    state: Grouped,
    probe: Probe,
    subset: Sequence[Any] | None = None,
    normalize: bool = False,
    sort: bool = True,
    ascending: bool = False,
    dropna: bool = True,
) -> pd.Series:
    """The number of occurrences of each combination of values in each group, the most frequent first, as a pandas Series."""
    flags = (normalize, sort, ascending, dropna)
    if subset is not None or not all(isinstance(flag, bool) for flag in flags):
        raise Unsupported(Refusal.PARAMETERS, "subset, normalize, sort, ascending and dropna")
    if any(family(value.dtype) == "category" for value in (*state.values, *(key.value for key in state.keys))):
        raise Unsupported(Refusal.GROUP_VALUE_COUNTS_CATEGORIES)
    if not all(value.definite for value in state.values):
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    for value in state.values:
        if has_odd_floats(state.held, value):
            raise Unsupported(Refusal.ARROW_FLOATS_DISTINCT)
    if not state.options.as_index:
        raise Unsupported(Refusal.GROUP_VALUE_COUNTS_AS_INDEX)
    template = probe("value_counts", normalize=normalize, sort=sort, ascending=ascending, dropna=dropna)
    # pandas excludes the columns that have a key's name. NaN as a name does not equal itself, so such columns stay.
    every_one = template.index.nlevels == len(state.keys) + len(state.positions)
    own = set() if every_one else {key.column for key in state.keys}
    values = [GroupKey(state.held.values[i], state.held.labels[i]) for i in state.positions if i not in own]
    if template.index.nlevels != len(state.keys) + len(values):
        raise Unsupported(Refusal.RESULT_SHAPE)
    dtype = probe("value_counts", dropna=dropna).dtype
    base, keys, counted = rows_in_groups(state, [key.value.clean.expr for key in values])
    present: list[Expr] = [
        Call("not", (Call("is_null", (expr,), pl.Boolean()),), pl.Boolean())
        for expr, key in zip(counted, values, strict=True)
        if key.value.clean.nulls and dropna
    ]
    if present:
        base = build.filter(base, conjunction(present))
    every = [*state.keys, *values]
    *names, count_name = column_names([*(key.name for key in every), "count"])
    call = AggregateCall("len", (), physical(dtype))
    named = tuple(zip(names, [*keys, *counted], strict=True))
    counts = build.aggregate(base, named, ((count_name, call),), sort=False)
    columns = [
        *(Value(counts.column(name), key.value.dtype) for name, key in zip(names, every, strict=True)),
        Value(counts.column(count_name), dtype),
    ]
    arrays, _ = materialise(View(counts, tuple(columns), pd.RangeIndex(len(columns))))
    found = _CombinationCounts(dict(enumerate(arrays)), copy=False)
    groups = found.groupby(
        list(range(len(keys))),
        sort=state.options.sort,
        dropna=state.options.dropna,
        group_keys=state.options.group_keys,
    )
    positions = list(range(len(keys), len(every)))
    result = groups[positions].value_counts(normalize=normalize, sort=sort, ascending=ascending, dropna=dropna)
    if isinstance(result.index, pd.MultiIndex):
        result.index = _with_all_labels(state, every, result.index, dropna)
    result.index.names = template.index.names
    return result


def _with_all_labels(state: Grouped, every: Sequence[GroupKey], index: pd.MultiIndex, dropna: bool) -> pd.MultiIndex:
    """The index whose levels also contain the labels of rows that were not counted because one of their values is missing.

    pandas keeps these labels in the levels, whose order decides the order of an unstacked result.
    """
    dropped = [state.options.dropna if i < len(state.keys) else dropna for i in range(len(every))]
    gaps = [key.value for key, drops in zip(every, dropped, strict=True) if drops and key.value.clean.nulls]
    if not any(any_row(state.held, is_missing(value).expr) for value in gaps):
        return index
    plans: list[Operator] = [
        build.aggregate(state.held.base, (("label", key.value.clean.expr),), (), sort=False) for key in every
    ]
    levels, codes = [], []
    for i, (key, frame) in enumerate(zip(every, collect_rows(plans, ordered=True), strict=True)):
        labels = pd.Index(to_array(frame.get_column("label"), key.value.dtype), copy=False)
        labels = labels[~labels.isna()] if dropped[i] else labels
        levels.append(labels.sort_values() if state.options.sort and i < len(state.keys) else labels)
        numbers = levels[i].get_indexer(index.levels[i])
        codes.append(numbers[np.asarray(index.codes[i])])
    found = pd.MultiIndex(levels, codes, verify_integrity=False)
    return found._sort_levels_monotonic() if state.options.sort else found  # type: ignore[attr-defined,no-any-return]


class _CombinationCounts(pd.DataFrame):
    """One row per combination of values, in the order of their first appearance, with the count as the last column.

    pandas sorts combinations partly with unstable sorts, so the order of equal counts depends on the order of first
    appearance. Therefore pandas' own ``value_counts`` sorts this frame; ``size`` of its group-bys returns the counts.
    """

    def groupby(self, *args: Any, **kwargs: Any) -> Any:
        groups = super().groupby(*args, **kwargs)
        groups.size = groups[self.columns[-1]].sum
        return groups
