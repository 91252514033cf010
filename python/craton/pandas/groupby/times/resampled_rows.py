"""``resample``: a group-by of intervals of time, as a subclass of pandas' resampler whose native methods are those of groups.

Other methods run on pandas' own resampler of the materialised object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from pandas.api.types import is_hashable, is_scalar
from pandas.core.resample import DatetimeIndexResampler as PandasResampler
from pandas.core.resample import TimeGrouper

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.lazy import lazy
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stand_ins import probe
from craton.pandas.groupby.groupby import NATIVE, aggregate_native, group
from craton.pandas.groupby.keys import GroupByOptions
from craton.pandas.groupby.times.resampler import NativeResampler, arguments_of, resampler_class
from craton.refusals import Refusal

#: Aggregations that a resampler has as methods.
_METHODS = "sum prod min max first last median mean std var sem nunique count size quantile ohlc"
#: Methods that pandas computes for all rows at once.
_IN_ONE_PASS = "ffill bfill nearest asfreq interpolate transform"


def resample(obj: Any, arguments: dict[str, Any]) -> Any:
    """A lazy resampler of a Craton DataFrame or Series, from the arguments of the method ``resample`` by name.

    Raises
    ------
    Unsupported
        If a plan can't group by these intervals.
    """
    given = dict(arguments)
    rule, on, level = given.pop("rule"), given.pop("on", None), given.pop("level", None)
    if level is not None:
        raise Unsupported(Refusal.PARAMETER, "level")
    grouper = probe(TimeGrouper, freq=rule, key=on, **given)
    groups = group(obj, grouper, None, GroupByOptions(group_keys=grouper.group_keys))
    made: Any = object.__new__(DatetimeIndexResampler)
    made.__dict__.update(_groups=groups, _object=obj, _arguments=arguments)
    return made


class _ResamplerOfRows(NativeResampler):
    def _make(self) -> Any:
        own = self.__dict__
        with plain_pandas():
            source = own["_groups"]._source()
            _ = source._mgr
            return type(source)._stands_for.resample(source, **own["_arguments"])

    def __getattr__(self, name: str) -> Any:
        own: Any = self.__dict__
        if not name.startswith("_") and isinstance(own["_object"], pd.DataFrame) and name in own["_object"].columns:
            return self[name]  # type: ignore[index]
        return super().__getattr__(name)


def _reduction(name: str) -> Callable[..., Any]:
    theirs = getattr(PandasResampler, name)

    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        return aggregate_native(self.__dict__["_groups"], name, **arguments_of(theirs, self, args, kwargs))

    reduction.__name__ = name
    return reduction


def _aggregate(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    if args or not _names_only(func, kwargs):
        return _aggregate_by_functions(self, func, args, kwargs)
    if isinstance(func, str):
        if func not in NATIVE or func not in _METHODS.split():
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
        return _reduction(func)(self, **kwargs)
    return aggregate_native(self.__dict__["_groups"], func, **kwargs)


def _aggregate_by_functions(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """``agg`` of a dict with functions, which pandas calls for the groups of a column: the columns that it names are computed.

    Raises
    ------
    Unsupported
        If pandas needs the object as it is: all columns are named, or it raises an error.
    """
    own = self.__dict__
    held, on = own["_groups"]._current().held, own["_arguments"].get("on")
    if own["_groups"]._plan.single or not isinstance(func, dict) or not held.labels.is_unique:
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    needed = held.labels.isin([*func, *([] if on is None else [on])])
    if needed.all() or needed.sum() != len({*func, *([] if on is None else [on])}):
        raise Unsupported(Refusal.AGGREGATION_FUNCTION)
    values = [value for value, chosen in zip(held.values, needed, strict=True) if chosen]
    frame = lazy(type(own["_object"]), held.with_values(values, held.labels[needed]), own["_object"])
    with plain_pandas():
        return as_craton(resample(frame, own["_arguments"])._pandas_resampler().agg(func, *args, **kwargs))


def _names_only(func: Any, named: dict[str, Any]) -> bool:
    """Whether an argument of ``agg`` has only names of aggregations, no functions."""
    if isinstance(func, str):
        return True
    if func is None:
        named_aggregations = [one[1] if isinstance(one, tuple) and len(one) == 2 else one for one in named.values()]
        return all(isinstance(one, str) for one in named_aggregations)
    items = list(func.values()) if isinstance(func, dict) else [func]
    every = [one for item in items for one in (item if isinstance(item, list) else [item])]
    return all(isinstance(one, str) for one in every)


def _of_needed_columns(name: str) -> Callable[..., Any]:
    """A method that pandas computes in one pass over the times and the columns; a plan computes these."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if any(map(callable, (*args, *kwargs.values()))):
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
        self.__dict__["_groups"]._current()
        with plain_pandas():
            return as_craton(getattr(self._pandas_resampler(), name)(*args, **kwargs))

    method.__name__ = name
    return method


def _getitem(self: Any, key: Any) -> Any:
    groups = self.__dict__["_groups"]
    labels = groups._plan.held.labels
    listed = isinstance(key, list)
    if groups._plan.single or not all(
        is_hashable(one) and is_scalar(one) and one in labels for one in (key if listed else [key])
    ):
        raise Unsupported(Refusal.COLUMN_UNKNOWN)
    return groups[key]


def _native() -> dict[str, Callable[..., Any]]:
    """The native methods by name."""
    native: dict[str, Callable[..., Any]] = {name: _reduction(name) for name in _METHODS.split()}
    native |= {name: _of_needed_columns(name) for name in _IN_ONE_PASS.split()}
    return native | {"aggregate": _aggregate, "agg": _aggregate, "__getitem__": _getitem}


DatetimeIndexResampler: Any = resampler_class(_ResamplerOfRows, PandasResampler, _native())
