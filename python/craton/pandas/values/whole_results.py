"""Results that pandas computes in one call from whole columns, attached to the rows of the plan that the columns come from.

A user's function over windows, or dates as Python objects, have no equivalent in the kernel. Only the needed columns are computed,
pandas' own method runs on them, and its result becomes columns of the plan, so that the other columns remain planned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.config import options
from craton.pandas.core.align import attached
from craton.pandas.core.array_conversion import from_array_uncopied
from craton.pandas.core.cheap_calls import is_in_memory
from craton.pandas.core.counterparts import as_craton, series_class
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.view import ObjectColumn, Value, View, name_index

__all__ = ["attached_result", "computed_by_pandas", "whole_column"]


def computed_by_pandas(obj: Any, call: Callable[[Any], Any]) -> Any:
    """The result of a call of pandas for an object, attached to the rows of the object's plan.

    Parameters
    ----------
    obj
        The frame or series.
    call
        Calls pandas' own method for an object with the same content. The result must have the row labels of the object.
    """
    if not is_lazy(obj) or (options.small_rows and is_in_memory(obj)):
        with plain_pandas():
            return as_craton(call(obj))
    held = view(obj)
    copy = lazy(type(obj), held, obj)  # evaluated in its place, so that the object remains a plan
    with plain_pandas():
        _ = copy._mgr
        result = call(copy)
    return attached_result(held, result)


def whole_column(held: View, value: Value, call: Callable[[Any], Any]) -> tuple[View, Value]:
    """A column that pandas computes from another one by one call, as a column of the plan.

    Parameters
    ----------
    held
        The view.
    value
        The column.
    call
        Calls pandas' own method for a series of the column, and returns a series of as many rows.

    Returns
    -------
    tuple of (View, Value)
        The view, over whose base the result is an expression; the columns of the given view are valid over it too.
    """
    column = lazy(series_class(), held.series(value, None))
    with plain_pandas():
        _ = column._mgr
        found, make = _column(call(column)._mgr.array)
    held, (expr,) = attached(held, [found])
    return held, make(expr)


def attached_result(held: View, result: Any) -> Any:
    """A frame or series that pandas returned as a lazy object over the rows of a view, which have its row labels."""
    single = isinstance(result, pd.Series)
    arrays = [result._mgr.array] if single else [result._mgr.iget_values(i) for i in range(result.shape[1])]
    found = [_column(array) for array in arrays]
    held, exprs = attached(held, [column for column, _ in found])
    values = [make(expr) for (_, make), expr in zip(found, exprs, strict=True)]
    return lazy(type(result), held.with_values(values, name_index(result.name) if single else result.columns), result)


def _column(array: Any) -> tuple[pl.Series, Callable[[Any], Value]]:
    """A column of a result for the kernel, and a function that makes its value from its expression."""
    if array.dtype == OBJECT:
        objects = np.asarray(array, dtype=object)
        places = pl.Series(np.arange(len(objects), dtype=np.uint32))
        return places, lambda expr: Value(ObjectColumn(expr, objects), OBJECT)
    column, nulls, nans = from_array_uncopied("", array)
    return column, lambda expr: Value(expr, array.dtype, nulls, nans)
