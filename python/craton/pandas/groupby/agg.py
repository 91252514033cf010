"""The arguments of ``agg``: pandas accepts strings, functions, lists, dicts and named aggregations."""

from __future__ import annotations

from collections.abc import Hashable
from types import BuiltinMethodType
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.dtypes import family
from craton.pandas.groupby.aggregates import ColumnAggregation
from craton.pandas.groupby.functions import JOIN, NAMES
from craton.pandas.groupby.keys import Grouped
from craton.refusals import Refusal


def aggregation_name(func: Any) -> str | None:
    """The name of the aggregation that a string means, if plans have it; otherwise ``None``.

    A function means no named aggregation, because pandas calls it with each group's values: ``numpy.std`` is then the
    population's standard deviation, and Python's ``sum`` is NaN if a value is missing.
    """
    return func if isinstance(func, str) and func in NAMES else None


def column_aggregations(state: Grouped, func: Any, named: dict[str, Any]) -> list[ColumnAggregation]:
    """As :func:`_column_aggregations`, but refuses ``len`` of a categorical column.

    pandas casts the counts to the column's dtype if all of them are categories.
    """
    aggregations = _column_aggregations(state, func, named)
    for i, name, parameters in aggregations:
        if name == "size" and "by_function" in parameters and family(state.held.values[i].dtype) == "category":
            raise Unsupported(Refusal.FUNCTION_DTYPE)
    return aggregations


def _column_aggregations(state: Grouped, func: Any, named: dict[str, Any]) -> list[ColumnAggregation]:
    """The aggregations in the order of the result's columns.

    Parameters
    ----------
    state
        The group-by.
    func
        The argument of ``agg``: a list, a dict, a function, or ``None`` for named aggregations.
    named
        The keyword arguments of ``agg``.

    Raises
    ------
    Unsupported
        If an aggregation is a Python function that plans do not have or has parameters, or if a column is unknown.
    """
    if func is None:
        if not named:
            raise Unsupported(Refusal.NO_AGGREGATION)
        if state.single:
            return [(state.positions[0], *_aggregation(one)) for one in named.values()]
        return [_named(state, one) for one in named.values()]
    if named:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(named)))
    if isinstance(func, list):
        if state.single:
            return [(state.positions[0], *_aggregation(one)) for one in func]
        return [(i, *_aggregation(one)) for i in state.positions for one in func]
    if callable(func):
        return [(i, *_aggregation(func)) for i in state.positions]
    if isinstance(func, dict) and not state.single:
        aggregations: list[ColumnAggregation] = []
        for label, what in func.items():
            position = _position(state, label)
            aggregations.extend((position, *_aggregation(one)) for one in (what if isinstance(what, list) else [what]))
        return aggregations
    raise Unsupported(Refusal.AGGREGATION_TYPE, type(func).__name__)


def _named(state: Grouped, one: Any) -> ColumnAggregation:
    if isinstance(one, pd.NamedAgg):
        if one.args or one.kwargs:
            raise Unsupported(Refusal.PARAMETER, "kwargs")
        return _position(state, one.column), *_aggregation(one.aggfunc)
    if isinstance(one, tuple) and len(one) == 2:
        return _position(state, one[0]), *_aggregation(one[1])
    raise Unsupported(Refusal.NAMED_AGGREGATION)


def _position(state: Grouped, label: Hashable) -> int:
    try:
        found = state.held.positions(label)
    except TypeError as error:
        raise Unsupported(Refusal.LABEL_NOT_HASHABLE) from error
    if len(found) != 1:
        raise Unsupported(Refusal.NO_COLUMN, repr(label))
    return found[0]


def _aggregation(func: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(func, str) and func in NAMES:
        return func, {}
    if callable(func) and func in CALLABLES:
        return CALLABLES[func], {"by_function": True}
    if isinstance(func, BuiltinMethodType) and func.__name__ == "join" and type(func.__self__) is str:
        return JOIN, {"by_function": True, "separator": func.__self__}
    raise Unsupported(Refusal.AGGREGATION_FUNCTION)


# Called with a group's values, these functions return what the named aggregation returns, for the dtypes that `plan_aggregate` accepts.
CALLABLES: dict[Any, str] = {
    np.sum: "sum",
    np.prod: "prod",
    np.mean: "mean",
    np.min: "min",
    np.max: "max",
    len: "size",
}
