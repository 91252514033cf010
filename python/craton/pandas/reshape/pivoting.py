"""``pivot_table``: a plan aggregates the groups, and pandas' own code pivots the small result.

The columns of a pivot table are values of the data, so the table is computed immediately. pandas' implementation receives a
stand-in for the frame, whose ``groupby(...).agg(...)`` runs a plan and returns a plain pandas object.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import frame_class, series_class
from craton.pandas.core.dtypes import family
from craton.pandas.core.execute import materialise
from craton.pandas.groupby.groupby import aggregate_native, group
from craton.pandas.groupby.keys import GroupByOptions
from craton.refusals import Refusal


class _FrameStandIn:
    """The methods of a frame that pandas' implementation calls."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    def columns(self) -> pd.Index:
        return self.frame.columns

    def __contains__(self, label: Hashable) -> bool:
        return label in self.frame.columns

    def __getitem__(self, labels: list[Hashable]) -> _FrameStandIn:
        return _FrameStandIn(self.frame[labels])

    def groupby(self, keys: list[Any], *, observed: bool, sort: bool, dropna: bool) -> _GroupByStandIn:
        groups = group(self.frame, keys, None, GroupByOptions(sort=sort, observed=observed, dropna=dropna))
        values = [key.value.clean for key in groups._plan.keys]
        if not dropna and any(value.nulls or family(value.dtype) == "category" for value in values):
            raise Unsupported(Refusal.PIVOT_DROPNA)
        return _GroupByStandIn(groups)


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
        If it has margins or is not sorted, or if a plan cannot aggregate the groups.
    """
    if kwargs.get("margins", False) or not kwargs.get("sort", True) or len(args) > 5:
        raise Unsupported(Refusal.PARAMETERS, "margins and sort")
    table = pd.pivot_table(_FrameStandIn(frame), *args, **kwargs)  # type: ignore[arg-type]
    result = series_class()(table) if isinstance(table, pd.Series) else frame_class()(table)
    return result.__finalize__(frame, method="pivot_table")
