"""Methods of group-bys whose results have several rows per group, or the rows of some groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_list_like
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.generic import SeriesGroupBy as PandasSeriesGroupBy

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton, frame_class, series_class
from craton.pandas.core.execute import materialise
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import named_as
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import View
from craton.pandas.groupby import lambdas, pairs, tables
from craton.pandas.groupby.aggregates import has_groups
from craton.pandas.groupby.functions import UndecidedDtype
from craton.refusals import Refusal


def _finalized(self: Any, found: Any, template: Any) -> Any:
    """A result of pandas as Craton's, with the attributes of the grouped object if the template has them."""
    result = as_craton(found)
    return result.__finalize__(self.__dict__["_frame"]) if template.attrs else result


def of_needed_columns(name: str, planned: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A method that pandas computes from the keys and the selected columns; one plan computes these.

    Parameters
    ----------
    name
        The method.
    planned
        The method as a plan, which is tried first.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = self._current()
        if planned is not None:
            try:
                return planned(self, *args, **kwargs)
            except UndecidedDtype:
                raise
            except Unsupported:
                pass
        if state.completes:
            raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
        if any(map(callable, (*args, *kwargs.values()))):
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
        with plain_pandas():
            groups = self._pandas_groupby_of_selection()
            if groups is None:
                self._restore_used_columns()
                groups = self._pandas_groupby()
            _ = groups.obj._mgr  # calls of an object that is a plan are planned within pandas, too
            return as_craton(getattr(groups, name)(*args, **kwargs))

    method.__name__ = name
    return method


def of_keys(name: str) -> Callable[..., Any]:
    """``groups`` or ``indices``, which pandas makes of the keys alone, and keeps."""

    def of_keys(self: Any) -> Any:
        if self._current().completes:
            raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
        with plain_pandas():
            return getattr(self._pandas_groupby_of_keys(), name)

    return of_keys


def filter_groups(self: Any, func: Any, dropna: bool = True, *args: Any, **kwargs: Any) -> Any:
    """``filter``."""
    predicate = lambdas.filtered(self._current(), self._selection is not None, func, dropna, args, kwargs)
    return self._rows(predicate)


def sample(
    self: Any, n: Any = None, frac: Any = None, replace: Any = False, weights: Any = None, random_state: Any = None
) -> Any:
    """``sample``: pandas draws the positions from the keys alone, and these rows are taken."""
    if weights is not None:
        raise Unsupported(Refusal.PARAMETER, "weights")
    state, frame = self._current(), self.__dict__["_frame"]
    if not state.held.values or not state.positions or not has_groups(state):
        raise Unsupported(Refusal.GROUP_NONE)
    keys = View(state.held.base, tuple(key.value for key in state.keys), pd.RangeIndex(len(state.keys)))
    arrays, index = materialise(keys)
    options = state.options
    with plain_pandas():
        rows = pd.Series(np.arange(len(index)))
        # pandas takes arrays of its own for labels if there are as many of them as rows.
        by = [pd.Series(array, copy=False) for array in arrays]
        groups = rows.groupby(by, sort=options.sort, dropna=options.dropna, observed=options.observed)
        positions = groups.sample(n, frac, replace, None, random_state).to_numpy()
    held = state.held if self._selection is None else state.held.take(state.positions)
    return lazy(series_class() if state.single else frame_class(), held, frame).take(positions)


def _counts_of_column(
    self: Any,
    normalize: bool = False,
    sort: bool = True,
    ascending: bool = False,
    bins: Any = None,
    dropna: bool = True,
) -> Any:
    """``value_counts`` of a column."""
    if bins is not None:
        raise Unsupported(Refusal.PARAMETER, "bins")
    return _counts_of_columns(self, None, normalize, sort, ascending, dropna)


def _counts_of_columns(
    self: Any,
    subset: Any = None,
    normalize: bool = False,
    sort: bool = True,
    ascending: bool = False,
    dropna: bool = True,
) -> Any:
    """``value_counts`` of columns."""
    state = self._current()
    counts = series_class()(tables.value_counts(state, self._probe, subset, normalize, sort, ascending, dropna))
    name = counts.name
    counts = counts.__finalize__(self.__dict__["_frame"], method="value_counts")  # it also copies the name of a Series
    counts.name = name
    return counts


named_as(PandasSeriesGroupBy.value_counts, _counts_of_column)
named_as(PandasFrameGroupBy.value_counts, _counts_of_columns)
series_value_counts = of_needed_columns("value_counts", _counts_of_column)
frame_value_counts = of_needed_columns("value_counts", _counts_of_columns)


def quantile(of_one: Callable[..., Any]) -> Callable[..., Any]:
    """``quantile``; ``of_one`` computes a single one."""

    def quantile(self: Any, q: Any = 0.5, *args: Any, **kwargs: Any) -> Any:
        if not is_list_like(q):
            return of_one(self, q, *args, **kwargs)
        state = self._current()
        if state.completes:
            raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
        return _finalized(self, *tables.quantiles(state, self._probe, q, *args, **kwargs))

    return quantile


def matrices(name: str) -> Callable[..., Any]:
    """``corr`` or ``cov`` of columns."""

    def of_columns(self: Any, *args: Any, numeric_only: bool = False, **kwargs: Any) -> Any:
        usual = {"method": "pearson", "min_periods": 1} if name == "corr" else {"min_periods": None, "ddof": 1}
        if args or any(usual.get(given, usual) != item for given, item in kwargs.items()):
            raise Unsupported(Refusal.PARAMETERS, "method, min_periods and ddof")
        return _finalized(self, *pairs.matrices(self._current(), self._probe, name, numeric_only))

    return of_columns


def with_other(name: str) -> Callable[..., Any]:
    """``corr`` or ``cov`` of a column with another Series."""

    def of_two(self: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            raise Unsupported(Refusal.PARAMETERS, "method, min_periods and ddof")
        return self._result(*pairs.of_two_columns(self._current(), self._probe, name, other, kwargs))

    return of_two
