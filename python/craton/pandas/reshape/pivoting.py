"""``pivot_table``: the groups are aggregated by a plan, what is left to do on the small result is pandas' own code.

How a pivot table is laid out, sorted and filled depends on the values that the column keys have, so it is computed
at once. pandas' implementation gets a stand-in for the frame whose ``groupby(...).agg(...)`` runs a plan and returns a
plain pandas object.
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


class _Table:
    """What pandas' implementation uses of a frame."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    def columns(self) -> pd.Index:
        return self.frame.columns

    def __contains__(self, label: Hashable) -> bool:
        return label in self.frame.columns

    def __getitem__(self, labels: list[Hashable]) -> _Table:
        return _Table(self.frame[labels])

    def groupby(self, keys: list[Any], *, observed: bool, sort: bool, dropna: bool) -> _Groups:
        groups = group(self.frame, keys, None, GroupByOptions(sort=sort, observed=observed, dropna=dropna))
        values = [key.value.clean for key in groups._plan.keys]
        if not dropna and any(value.nulls or family(value.dtype) == "category" for value in values):
            raise Unsupported(Refusal.PIVOT_DROPNA)
        return _Groups(groups)


class _Groups:
    """What pandas' implementation uses of a group-by."""

    def __init__(self, groups: Any) -> None:
        self.groups = groups

    def __getitem__(self, labels: list[Hashable]) -> _Groups:
        return _Groups(self.groups[labels])

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
        frame = pd.DataFrame(dict(enumerate(arrays)), index=index, copy=True)  # the user's, to be written to
        frame.columns = view.labels
        return frame


def pivot_table(frame: Any, *args: Any, **kwargs: Any) -> Any:
    """A pivot table of a craton DataFrame.

    Raises
    ------
    Unsupported
        If it has margins, or the groups can't be aggregated by a plan.
    """
    if kwargs.get("margins", False) or not kwargs.get("sort", True) or len(args) > 5:
        raise Unsupported(Refusal.PARAMETERS, "margins and sort")
    table = pd.pivot_table(_Table(frame), *args, **kwargs)  # type: ignore[arg-type]
    made = series_class()(table) if isinstance(table, pd.Series) else frame_class()(table)
    return made.__finalize__(frame, method="pivot_table")
