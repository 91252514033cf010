"""``map`` and ``Series.apply`` with functions of Python and NumPy whose results depend on their argument alone: ``len``, ``str.upper``.

A column of texts or integers that repeats its values is mapped once for each distinct value. A few functions of numbers are computed
for the whole column, where NumPy's result is the same number. pandas calls the others for each element; a function of Python's own
takes less time than a worker process would need to receive its argument.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from craton.pandas.core.array_conversion import from_array, to_array
from craton.pandas.core.counterparts import as_pandas, plannable
from craton.pandas.core.dtypes import STR
from craton.pandas.core.routing import plain_pandas
from craton.pandas.values.repeated_values import distinct_values

#: The fewest rows for which a function is not left to pandas' loop.
_FEWEST_ROWS = 2_000
_FUNCTIONS: frozenset[Any] = frozenset(
    [
        len,
        abs,
        str,
        int,
        float,
        bool,
        repr,
        ord,
        chr,
        bin,
        hex,
        *(getattr(math, name) for name in ("floor", "ceil", "sqrt")),
    ]
)
#: Methods of strings that return objects that a user can change.
_NEW_OBJECTS = frozenset(["split", "rsplit", "splitlines"])
#: Functions of NumPy that are exact, and so have the same result for an element as for an array.
_EXACT = frozenset(
    [np.sqrt, np.floor, np.ceil, np.trunc, np.rint, np.fabs, np.absolute, np.isnan, np.isfinite, np.isinf]
)


def mapped_by_known(series: Any, function: Any, na_action: Any) -> Any:
    """``series.map(function)`` for such a function, as an array; None for other functions and for short columns.

    Errors are those of pandas, which calls the function for the values in the order of their first appearance.
    """
    known = _is_known(function)
    if not (known or (isinstance(function, np.ufunc) and function in _EXACT)) or not plannable(type(series)):
        return None
    if na_action not in (None, "ignore") or not (series.dtype == STR or series.dtype in _NUMBERS):
        return None
    if len(series) < _FEWEST_ROWS:
        return None
    with plain_pandas():
        values = series._values
        if isinstance(values, np.ndarray) and (found := _numbers(values, function, na_action)) is not None:
            return found
        if not known:
            return None
        repeated = None if values.dtype.kind == "f" else distinct_values(from_array("", values)[0])
        if repeated is None:
            return as_pandas(series).map(function, na_action=na_action)._values
        distinct, places = repeated
        results = pd.Series(to_array(distinct, series.dtype)).map(function, na_action=na_action)
        return results._values.take(places.to_numpy())


_NUMBERS = tuple(np.dtype(name) for name in ("int64", "float64"))


def _is_known(function: Any) -> bool:
    if isinstance(function, types.MethodDescriptorType):
        return function.__objclass__ is str and function.__name__ not in _NEW_OBJECTS
    if isinstance(function, (types.BuiltinMethodType, type)) and function in _FUNCTIONS:
        return True
    if not isinstance(function, types.BuiltinMethodType):
        return False
    owner = type(function.__self__)
    return (owner is str and function.__name__ not in _NEW_OBJECTS) or (owner is dict and function.__name__ == "get")


def _numbers(values: np.ndarray[Any, Any], function: Any, na_action: Any) -> Any:
    """The results for all numbers at once, if they are the same as those of the function; else None."""
    if na_action is not None and values.dtype.kind == "f":
        return None
    if isinstance(function, np.ufunc):
        return function(values) if values.dtype.kind == "f" or function is np.sqrt else None
    compute = _OF_COLUMN.get(function)
    return None if compute is None else compute(values)


def _absolute(values: np.ndarray[Any, Any]) -> Any:
    if values.dtype.kind == "i" and values.min() == np.iinfo(np.int64).min:
        return None
    return np.abs(values)


def _integers(values: np.ndarray[Any, Any]) -> Any:
    if values.dtype.kind == "f" and not (values.min() > -(2.0**63) and values.max() < 2.0**63):  # false for NaN
        return None
    return values.astype(np.int64)


_OF_COLUMN: dict[Any, Callable[[np.ndarray[Any, Any]], Any]] = {
    abs: _absolute,
    int: _integers,
    float: lambda values: values.astype(np.float64),
    bool: lambda values: values != 0,
}
