"""``pivot_table``: a plan aggregates the groups, and pandas' own code pivots the small result.

The columns of a pivot table are values of the data, so the table is computed immediately. pandas' implementation receives a
stand-in for the frame, whose ``groupby(...).agg(...)`` runs a plan and returns a plain pandas object. For margins, pandas groups by the
rows' and the columns' keys alone, and reduces whole columns; these are plans too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_scalar

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import frame_class, series_class
from craton.pandas.core.dtypes import family
from craton.pandas.core.execute import materialise
from craton.pandas.core.lazy import view
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.groupby.groupby import aggregate_native, group
from craton.pandas.groupby.keys import GroupByOptions
from craton.refusals import Refusal


class _FrameStandIn:
    """The methods of a frame that pandas' implementation calls."""

    _constructor_sliced = pd.Series

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    def columns(self) -> pd.Index:
        return self.frame.columns

    @property
    def index(self) -> pd.Index:
        raise Unsupported(Refusal.PIVOT_NO_VALUES)

    def __contains__(self, label: Hashable) -> bool:
        return label in self.frame.columns

    def __getitem__(self, key: Any) -> _FrameStandIn:
        if isinstance(key, _CompleteRows):
            return _FrameStandIn(self.frame.dropna())
        return _FrameStandIn(self.frame[key])

    def items(self) -> Iterator[tuple[Hashable, Any]]:
        return ((label, _ColumnStandIn(self.frame[label])) for label in self.frame.columns)

    def notna(self) -> _CompleteRows:
        return _CompleteRows()

    def groupby(self, keys: list[Any], *, observed: bool, dropna: bool, sort: bool = True) -> _GroupByStandIn:
        groups = group(self.frame, keys, None, GroupByOptions(sort=sort, observed=observed, dropna=dropna))
        if groups._plan.completes:
            raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
        if not dropna:
            _check_keys(groups)
        return _GroupByStandIn(groups)


#: The functions that the stand-in of a column has: `len`, and functions of NumPy that call the method of their name.
_REDUCING = (len, np.sum, np.mean, np.min, np.max, np.prod, np.std, np.var)


class _ColumnStandIn:
    """A Series that pandas reduces by name, or by a function of NumPy, which passes parameters that are None."""

    def __init__(self, series: Any) -> None:
        self.series = series

    def __len__(self) -> int:
        return len(self.series)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        reduction = getattr(self.series, name)
        return lambda **given: reduction(**{key: value for key, value in given.items() if value is not None})


def _check_keys(groups: Any) -> None:
    """Refuse categorical keys, whose unused categories pandas combines if it drops no labels."""
    if any(family(key.value.dtype) == "category" for key in groups._plan.keys):
        raise Unsupported(Refusal.PIVOT_DROPNA)


class _CompleteRows:
    """The mask ``data.notna().all(axis=1)`` of a stand-in."""

    def all(self, *, axis: int) -> _CompleteRows:
        return self


class _GroupByStandIn:
    """The methods of a group-by that pandas' implementation calls."""

    def __init__(self, groups: Any) -> None:
        self.groups = groups

    def __getitem__(self, labels: list[Hashable]) -> _GroupByStandIn:
        chosen = self.groups[labels]
        if type(chosen) is not type(self.groups):  # pandas has selected the columns
            raise Unsupported(Refusal.PIVOT_SELECTION)
        return _GroupByStandIn(chosen)

    @property
    def _obj_with_exclusions(self) -> Any:
        plan = self.groups._plan
        if not plan.positions:
            raise Unsupported(Refusal.PIVOT_NO_VALUES)
        return stand_ins.without_rows(plan.labels)

    def agg(self, func: Any, **kwargs: Any) -> pd.DataFrame | pd.Series:
        result = aggregate_native(self.groups, func, **kwargs)
        if not is_lazy(result):  # the function was called for each group
            with plain_pandas():
                made: pd.DataFrame | pd.Series = (pd.Series if isinstance(result, pd.Series) else pd.DataFrame)(
                    result, copy=True
                )
            return made
        view = result.__dict__["_view"]
        arrays, index = materialise(view)
        if isinstance(result, pd.Series):
            return pd.Series(arrays[0], index=index, name=result.name, copy=True)
        frame = pd.DataFrame(dict(enumerate(arrays)), index=index, copy=True)  # the user may write into the result
        frame.columns = view.labels
        return frame


def pivot_table(frame: Any, *args: Any, **kwargs: Any) -> Any:
    """A pivot table of a Craton DataFrame.

    Raises
    ------
    Unsupported
        If a plan cannot aggregate the groups, or if it has margins by keys that are not columns.
    """
    table = pandas_table(frame, *args, **kwargs)
    result = series_class()(table) if isinstance(table, pd.Series) else frame_class()(table)
    return result.__finalize__(frame, method="pivot_table")


def pandas_table(frame: Any, *args: Any, **kwargs: Any) -> pd.DataFrame | pd.Series:
    """As :func:`pivot_table`, but the result is an object of pandas."""
    given = signature(pd.pivot_table).bind(frame, *args, **kwargs).arguments
    if given.get("margins", False):
        _check_margins(frame, given)
    return pd.pivot_table(_FrameStandIn(frame), *args, **kwargs)  # type: ignore[arg-type]


def _check_margins(frame: Any, given: dict[str, Any]) -> None:
    """Refuse margins for which pandas selects columns in ways that the stand-in does not know."""
    if given["margins"] is not True or given.get("values") is None:
        raise Unsupported(Refusal.PIVOT_NO_VALUES)
    functions = given.get("aggfunc", "mean")
    several = functions.values() if isinstance(functions, dict) else functions
    for one in several if isinstance(functions, (dict, list)) else [functions]:
        if callable(one) and one not in _REDUCING:  # pandas calls it for whole columns
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    labels = view(frame).labels
    if isinstance(labels, pd.MultiIndex) or not labels.is_unique:
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    for keys in (given.get("index"), given.get("columns")):
        for key in keys if isinstance(keys, list) else [] if keys is None else [keys]:
            if not is_scalar(key) or key not in labels:
                raise Unsupported(Refusal.PIVOT_MARGINS)
