"""The arguments of ``agg``: pandas accepts strings, functions, lists, dicts and named aggregations."""

from __future__ import annotations

from collections.abc import Hashable
from types import BuiltinMethodType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.dtypes import family
from craton.pandas.groupby.aggregates import ColumnAggregation
from craton.pandas.groupby.functions import JOIN, NAMES, UndecidedDtype
from craton.pandas.groupby.keys import Grouped
from craton.pandas.groupby.lambdas import refuse_unstable
from craton.pandas.groupby.symbols import DTYPES, Group, Rows, column, trace
from craton.pandas.groupby.traced import TRACED, parts
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
            return [_aggregation(state, state.positions[0], one) for one in named.values()]
        return [_named(state, one) for one in named.values()]
    if named:
        raise Unsupported(Refusal.PARAMETER, ", ".join(sorted(named)))
    if isinstance(func, list):
        if state.single:
            return [_aggregation(state, state.positions[0], one) for one in func]
        return [_aggregation(state, i, one) for i in state.positions for one in func]
    if callable(func):
        return [_aggregation(state, i, func) for i in state.positions]
    if isinstance(func, dict) and not state.single:
        aggregations: list[ColumnAggregation] = []
        for label, what in func.items():
            position = _position(state, label)
            aggregations.extend(
                _aggregation(state, position, one) for one in (what if isinstance(what, list) else [what])
            )
        return aggregations
    raise Unsupported(Refusal.AGGREGATION_TYPE, type(func).__name__)


def _named(state: Grouped, one: Any) -> ColumnAggregation:
    if isinstance(one, pd.NamedAgg):
        if one.args or one.kwargs:
            raise Unsupported(Refusal.PARAMETER, "kwargs")
        return _aggregation(state, _position(state, one.column), one.aggfunc)
    if isinstance(one, tuple) and len(one) == 2:
        return _aggregation(state, _position(state, one[0]), one[1])
    raise Unsupported(Refusal.NAMED_AGGREGATION)


def _position(state: Grouped, label: Hashable) -> int:
    try:
        found = state.held.positions(label)
    except TypeError as error:
        raise Unsupported(Refusal.LABEL_NOT_HASHABLE) from error
    if len(found) != 1:
        raise Unsupported(Refusal.NO_COLUMN, repr(label))
    return found[0]


def _aggregation(state: Grouped, position: int, func: Any) -> ColumnAggregation:
    if isinstance(func, str) and func in NAMES:
        return position, func, {}
    if isinstance(func, FunctionType):
        return position, TRACED, {"by_function": True, "symbol": _traced(state, position, func)}
    if callable(func) and func in CALLABLES:
        return position, CALLABLES[func], {"by_function": True}
    if isinstance(func, BuiltinMethodType) and func.__name__ == "join" and type(func.__self__) is str:
        return position, JOIN, {"by_function": True, "separator": func.__self__}
    raise Unsupported(Refusal.AGGREGATION_FUNCTION)


def _traced(state: Grouped, position: int, func: Any) -> Group:
    if any(family(key.value.dtype) == "category" for key in state.keys):
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)  # there may be groups without rows
    value = state.held.values[position]
    if value.dtype in DTYPES and not value.definite:
        raise UndecidedDtype(Refusal.DTYPE_OF_DATA)
    found = _number_of_group(func, column(position, value.dtype))
    refuse_unstable(state, [found])
    return found


def _number_of_group(func: Any, rows: Rows) -> Group:
    found = trace(func, rows)
    if not isinstance(found, Group) or next(parts(found, "pair"), None) is not None:
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    return found


def for_stand_in(func: Any) -> Any:
    """An argument of ``agg``, with functions that return a number of the right dtype in place of the user's.

    The user's functions might divide by zero in the small groups of the stand-in.
    """
    if isinstance(func, FunctionType):
        return _constant(func)
    if isinstance(func, list):
        return [for_stand_in(one) for one in func]
    if isinstance(func, dict):
        return {label: for_stand_in(one) for label, one in func.items()}
    if isinstance(func, pd.NamedAgg):
        return pd.NamedAgg(func.column, for_stand_in(func.aggfunc), *func.args, **func.kwargs)
    if isinstance(func, tuple) and len(func) == 2:
        return func[0], for_stand_in(func[1])
    return func


def _constant(func: Any) -> Any:
    def constant(rows: Any) -> Any:
        return _number_of_group(func, column(0, rows.dtype)).dtype.type(1)

    constant.__name__ = func.__name__
    return constant


# Called with a group's values, these functions return what the named aggregation returns, for the dtypes that `plan_aggregate` accepts.
CALLABLES: dict[Any, str] = {
    np.sum: "sum",
    np.prod: "prod",
    np.mean: "mean",
    np.min: "min",
    np.max: "max",
    len: "size",
}
