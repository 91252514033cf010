"""Subclasses of pandas' deferred objects: windows, resamplers and group-bys.

Methods that are not planned run in pandas, are counted as fallbacks, and return Craton's objects.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pandas.core import resample
from pandas.core.base import SelectionMixin
from pandas.core.groupby import generic
from pandas.core.window import ewm, expanding, rolling

from craton.pandas.core.counterparts import register
from craton.pandas.core.inherit import counterpart
from craton.pandas.core.native import named_as
from craton.pandas.window.window_objects import ATTRIBUTES


def _applying(theirs: Any) -> Any:
    """``apply`` of a group-by class: calls a Python function for each group."""

    def apply(self: Any, label: str, func: Any, *args: Any, **kwargs: Any) -> Any:
        from craton.pandas.udf.groups import apply_groups

        return apply_groups(self, label, func, args, kwargs)

    named_as(theirs.apply, apply)
    return apply


def inherit_deferred() -> None:
    """Register a subclass for each of pandas' windows, resamplers and group-bys."""
    for module in (generic, resample, rolling, expanding, ewm):
        for theirs in vars(module).values():
            if isinstance(theirs, type) and issubclass(theirs, SelectionMixin) and theirs is not SelectionMixin:
                grouped = theirs in (generic.DataFrameGroupBy, generic.SeriesGroupBy)
                calls = {"apply": _applying(theirs)} if grouped else None
                register(partial(_subclass, theirs, calls), theirs)


def _subclass(theirs: Any, calls: Any) -> Any:
    from craton.pandas.groupby import moving as of_groups
    from craton.pandas.window import moving

    for known, attributes in ((moving.NATIVE, ATTRIBUTES), (of_groups.NATIVE, of_groups.GROUPED_ATTRIBUTES)):
        if theirs in known:
            return counterpart(theirs, calls=calls, planned=known[theirs], attributes=attributes)
    return counterpart(theirs, calls=calls)
