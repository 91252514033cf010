"""The parameter ``key`` of ``sort_values``: a function of the user that is called with each sort key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.align import aligned, attached
from craton.pandas.core.array_conversion import from_array
from craton.pandas.core.counterparts import as_craton, series_class
from craton.pandas.core.dtypes import family
from craton.pandas.core.execute import count_rows, resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import count_fallback
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import IndexSpec, Value, View, name_index
from craton.refusals import Refusal


class KeyFunction:
    """A function for sort keys. It is called once for each key, even if pandas sorts the rows after a refusal.

    Parameters
    ----------
    function
        The function of the user.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._results: list[Any] = []

    def __call__(self, key: Any) -> Any:
        result = self._function(key)
        self._results.append(result)
        return result

    @property
    def called(self) -> bool:
        """Whether the function has returned a result."""
        return bool(self._results)

    def again(self, key: Any) -> Any:
        """The result of the earlier call for a key, if there was one; the keys come in the same order."""
        return self._results.pop(0) if self._results else self._function(key)


def with_key_function(sort: Callable[[Any], Any], label: str, key: Any, in_pandas: Callable[[Any], Any]) -> Any:
    """Sort rows by the results of a function.

    Parameters
    ----------
    sort
        Plans the sort; called with the function.
    label
        The call, by its public name.
    key
        The function of the user; None if there is none.
    in_pandas
        Sorts in pandas; called with a function that returns the results that the function has returned already.
    """
    if key is None:
        return sort(None)
    if not callable(key):
        raise Unsupported(Refusal.SORT_KEY)
    function = KeyFunction(key)
    try:
        return sort(function)
    except Unsupported as refusal:
        if not function.called:
            raise
        count_fallback(label, refusal.reason, emit=True)
        with plain_pandas():
            return as_craton(in_pandas(function.again))


def mapped_keys(
    held: View, keys: Sequence[Value], names: Sequence[Hashable], function: KeyFunction, index: IndexSpec
) -> tuple[View, list[Value]]:
    """The results of a function for sort keys.

    Parameters
    ----------
    held
        The view of the rows.
    keys, names
        The sort keys over the base of the view, and their names.
    index
        The row labels of the Series with which the function is called.

    Returns
    -------
    tuple of (View, list of Value)
        The view, perhaps over another base, and the keys over that base.

    Raises
    ------
    Unsupported
        If a result is not a column of the same rows that can be sorted.
    """
    keys = list(keys)
    for number in reversed(range(len(keys))):  # the order in which pandas calls the function
        given = lazy(series_class(), View(held.base, (keys[number],), name_index(names[number]), index, held.rows))
        held, keys, keys[number] = _beside(held, keys, function(given))
    return held, keys


def _beside(held: View, others: Sequence[Value], result: Any) -> tuple[View, list[Value], Value]:
    """A result of the function over the same base as a view and other columns."""
    if not isinstance(result, (pd.Series, np.ndarray)) or result.ndim != 1:
        raise Unsupported(Refusal.SORT_KEY)
    if isinstance(result, pd.Series) and "_view" in result.__dict__:
        other = resolved(view(result))
        (key,) = other.values
        labels = held.index.values
        columns = [*held.values, *labels, *others]
        own = View(held.base, tuple(columns), pd.RangeIndex(len(columns)), IndexSpec(), held.rows)
        moved, side = aligned(own, replace(other, index=IndexSpec()))
        values = list(moved.values)
        count = len(held.values)
        index = replace(held.index, values=tuple(values[count : count + len(labels)]))
        held = replace(held, base=moved.base, values=tuple(values[:count]), index=index)
        others, key = values[count + len(labels) :], side.values[0]
    else:
        if len(result) != count_rows(held):
            raise Unsupported(Refusal.SORT_KEY)
        array = result._values if isinstance(result, pd.Series) else result
        column, nulls, nans = from_array("key", array)
        held, (expr,) = attached(held, [column])
        key = Value(expr, array.dtype, nulls=nulls, nans=nans)
    if family(key.dtype) == "object":
        raise Unsupported(Refusal.SORT_OBJECTS)
    return held, list(others), key
