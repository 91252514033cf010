"""DataFrameGroupBy and SeriesGroupBy: subclasses of pandas' classes whose native methods extend a plan.

A group-by object holds the grouped view, the keys and the options (:class:`~craton.pandas.groupby.keys.Grouped`). The labels
and dtypes of a result come from a *template*: what the same method of pandas returns for a two-row stand-in. Other methods are
inherited from pandas. The attributes that they need (``_grouper``, ``exclusions``) are descriptors that run pandas' constructor
on the materialised frame at their first access.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np
from pandas.api.types import is_dict_like, is_hashable, is_list_like, is_scalar
from pandas.core.groupby import base as pandas_groupby
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.generic import SeriesGroupBy as PandasSeriesGroupBy

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.dtypes import FLOAT64
from craton.pandas.core.lazy import refuse_unique_labels_flag, view
from craton.pandas.core.native import (
    by_object,
    getattr_static,
    mark_never_refused,
    named_as,
    native_property,
    wrapped,
)
from craton.pandas.core.routing import inside_pandas, plain_pandas
from craton.pandas.groupby import collected, construction, lambdas, moving, table_methods, tables, windows
from craton.pandas.groupby.agg import aggregation_name, for_stand_in
from craton.pandas.groupby.aggregates import ColumnAggregation, aggregate_columns
from craton.pandas.groupby.base import NativeGroupBy, make_groupby
from craton.pandas.groupby.completion import refuse_unless_completed
from craton.pandas.groupby.functions import NAMES, UndecidedDtype
from craton.pandas.groupby.keys import GroupByOptions, resolve_group_keys
from craton.pandas.groupby.nth import NthSelector
from craton.pandas.groupby.times.resampled_groups import resample
from craton.refusals import Refusal

#: Methods whose results refer to the group-by. Those of ``resample`` refer to the selected columns only.
_KEEPING_GROUPS = frozenset(["__getitem__", "__iter__", "ewm", "expanding", "pipe", "resample", "rolling"])


def group(obj: Any, by: Any, level: Any, options: GroupByOptions) -> Any:
    """A lazy group-by of a Craton DataFrame or Series.

    Raises
    ------
    Unsupported
        If a plan can't group by these keys and options.
    """
    plan = resolve_group_keys(obj, by, level, options)
    return make_groupby(SeriesGroupBy if plan.single else DataFrameGroupBy, obj, view(obj), plan, by, level)


# -- native methods ---------------------------------------------------------------------------------------------------


def _reduction(name: str) -> Callable[..., Any]:
    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = self._current()
        aggregations, template = aggregate_columns(state, self._probe, name, args, kwargs)
        return self._aggregated(state, aggregations, template)

    reduction.__name__ = name
    return reduction


def _aggregate(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    name = aggregation_name(func)
    if name is not None:
        return _reduction(name)(self, *args, **kwargs)
    if args:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    state = self._current()
    aggregations = collected.planned(state, func, kwargs)
    if aggregations is None:
        return collected.aggregated(self, func, kwargs)
    named = {name: for_stand_in(one) for name, one in kwargs.items()}
    by_column = not self._plan.single and (func is None or is_dict_like(func))
    needed = {position for position, _, _ in aggregations} if by_column else None
    template = self._probe_columns(needed, "agg", (for_stand_in(func),), named)
    in_order = self._plan.single or (is_list_like(func) and not is_dict_like(func))
    return self._aggregated(state, aggregations, template, in_order)


def _ohlc(self: Any) -> Any:
    state = self._current()
    if any(value.dtype != FLOAT64 for value in state.values):
        raise Unsupported(Refusal.OPERATION, "ohlc of columns that are not floats of 64 bits")
    names = ("first", "max", "min", "last")
    aggregations: list[ColumnAggregation] = [(i, name, {}) for i in state.positions for name in names]
    return self._aggregated(state, aggregations, self._probe("ohlc"))


def _transform(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(func, str) and func in KERNELS:
        return NATIVE[func](self, *args, **kwargs)
    if not self._plan.single:
        refuse_unique_labels_flag(self.__dict__["_frame"])
    if callable(func):
        return collected.transformed(self, func, args, kwargs)
    if isinstance(func, (dict, list)) and not args and not kwargs:
        return self._result(*windows.broadcast_several(self._current(), self._probe, func))
    if args or not isinstance(func, str) or func not in NAMES:
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)
    return self._result(*windows.broadcast(self._current(), self._probe, func, kwargs))


def _apply(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    if not callable(func):
        raise Unsupported(Refusal.NOT_A_FUNCTION)
    if not args and not kwargs and (made := collected.applied(self, func)) is not None:
        return made
    if kwargs.get("include_groups", True) is False:
        del kwargs["include_groups"]
    state = self._current()
    try:
        return self._result(*lambdas.applied(state, self._probe, func, args, kwargs))
    except UndecidedDtype:
        raise
    except Unsupported:
        pass
    from craton.pandas.udf.groups import apply_groups

    with plain_pandas():
        made = self._pandas_groupby_of_selection()
        if made is None:
            made = self._pandas_groupby()
    return as_craton(apply_groups(made, f"{type(self).__name__}.apply", func, args, kwargs))


def _window(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method that computes its result with ``function``; a call whose arguments don't match it goes to pandas, which raises."""

    def window(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature(function).bind(self._current(), self._probe, *args, **kwargs)
        except TypeError as error:
            raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
        return self._result(*function(*bound.args, **bound.kwargs))

    window.__name__ = name
    return window


def _cumulative(name: str) -> Callable[..., Any]:
    def cumulative(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._result(*windows.cumulative(self._current(), self._probe, name, args, kwargs))

    return cumulative


def _fill(name: str) -> Callable[..., Any]:
    def fill(self: Any, limit: Any = None) -> Any:
        return self._result(*windows.fill(self._current(), self._probe, name, limit))

    return fill


def _head_or_tail(name: str) -> Callable[..., Any]:
    def head_or_tail(self: Any, n: int = 5) -> Any:
        return self._rows(windows.head_or_tail(self._current(), name, n))

    return head_or_tail


def aggregate_native(gb: Any, func: Any, **kwargs: Any) -> Any:
    """``gb.agg(func, **kwargs)`` as a plan.

    Raises
    ------
    Unsupported
        If a plan can't compute it.
    """
    if func == "ohlc":
        return _ohlc(gb, **kwargs)
    try:
        return _aggregate(gb, func, **kwargs)
    except UndecidedDtype:
        gb._decide_dtypes()
        return _aggregate(gb, func, **kwargs)


def _getitem(self: Any, key: Any) -> Any:
    if self._changed():
        construction.refuse_changed_keys(self.__dict__)
        return group(self._frame, self._by, self.level, self._plan.options)[key]
    plan = self._current()
    if self._selection is not None or plan.single:
        raise Unsupported(Refusal.GROUP_SELECTION_TWICE)
    if isinstance(key, list):
        if any(isinstance(label, (bool, np.bool_)) for label in key):
            raise Unsupported(
                Refusal.GROUP_COLUMNS_TYPE, "list of bool"
            )  # pandas may treat it as a mask of rows or as column labels
        if any(label is None or not is_hashable(label) or len(plan.held.positions(label)) != 1 for label in key):
            raise Unsupported(Refusal.COLUMN_UNKNOWN)
        positions = [plan.held.position(label) for label in key]
        return self._selecting(DataFrameGroupBy, key, positions, False)
    if key is None:
        raise Unsupported(Refusal.LABEL_NONE)
    if is_scalar(key) and is_hashable(key):
        if not plan.held.positions(key):
            raise KeyError(f"Column not found: {key}")
        return self._selecting(SeriesGroupBy, key, [plan.held.position(key)], True)
    raise Unsupported(Refusal.GROUP_COLUMNS_TYPE, type(key).__name__)


def _ngroups(self: Any) -> int:
    refuse_unless_completed(self.__dict__["_plan"], "ngroups")
    return windows.count_groups(self._current())


def _get_group(self: Any, name: Any) -> Any:
    return self._rows(windows.group_predicate(self._current(), name, self.keys, self.level))


def _getattr(self: Any, name: str) -> Any:
    frame = self.__dict__["_frame"]
    # Row labels count as attributes of the group-by of a Series, because pandas tests `name in series`; selecting one raises an error.
    if name.startswith("_") or name not in (frame.index if self.__dict__["_plan"].single else frame.columns):
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
    return self[name]


def _setattr(self: Any, name: str, value: Any) -> None:
    """Set an attribute. ``as_index`` and ``group_keys`` also change in the plan, because pandas reads them in each call.

    pandas reads the other options only when it makes the groups, so setting these later has no effect.
    """
    if name in ("as_index", "group_keys") and isinstance(value, bool):
        plan = self.__dict__["_plan"]
        self.__dict__["_plan"] = replace(plan, options=replace(plan.options, **{name: value}))
    object.__setattr__(self, name, value)


def _ndim(self: Any) -> int:
    if isinstance(self._selection, list) and self._changed():
        self._restore_used_columns()
        with plain_pandas():
            return int(self._selected_obj.ndim)
    return 1 if self.__dict__["_plan"].single else 2


NATIVE: dict[str, Callable[..., Any]] = {name: _reduction(name) for name in NAMES}
NATIVE |= {
    "aggregate": _aggregate,
    "agg": _aggregate,
    "transform": _transform,
    "apply": _apply,
    "filter": table_methods.filter_groups,
}
NATIVE |= {name: _cumulative(name) for name in ("cumsum", "cumprod", "cummin", "cummax")}
NATIVE |= {name: _fill(name) for name in ("ffill", "bfill")}
NATIVE |= {name: _head_or_tail(name) for name in ("head", "tail")}
NATIVE |= {
    "cumcount": _window(windows.cumcount, "cumcount"),
    "shift": _window(windows.shift, "shift"),
    "diff": _window(windows.diff, "diff"),
    "rank": _window(windows.rank, "rank"),
    "ngroup": _window(windows.ngroup, "ngroup"),
    "pct_change": _window(windows.pct_change, "pct_change"),
    "ohlc": _ohlc,
    "describe": table_methods.of_needed_columns("describe", _window(tables.describe, "describe")),
    "quantile": table_methods.quantile(_reduction("quantile")),
    "get_group": _get_group,
    "sample": table_methods.sample,
    "ngroups": _ngroups,
    "groups": table_methods.of_keys("groups"),
    "indices": table_methods.of_keys("indices"),
    "__len__": _ngroups,
}
NATIVE["resample"] = resample
NATIVE |= {kind: moving.make_window(kind) for kind in ("rolling", "expanding", "ewm")}
SERIES: dict[str, Callable[..., Any]] = {"value_counts": table_methods.series_value_counts}
SERIES |= {
    "unique": collected.unique,
    "nlargest": collected.largest("nlargest"),
    "nsmallest": collected.largest("nsmallest"),
}
SERIES |= {name: table_methods.with_other(name) for name in ("corr", "cov")}
FRAME: dict[str, Callable[..., Any]] = {"value_counts": table_methods.frame_value_counts, "__getitem__": _getitem}
FRAME |= {name: table_methods.matrices(name) for name in ("corr", "cov")}
KERNELS = pandas_groupby.transformation_kernels & NATIVE.keys()


def _inherit(pandas_class: Any, own: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """The members of a group-by class: native methods that fall back to pandas' own, and pandas' methods, counted as fallbacks."""
    members: dict[str, Any] = {"__getattr__": _getattr, "__setattr__": _setattr}
    for name, function in (("ndim", lambda gb: _ndim(gb)), ("nth", lambda gb: NthSelector(gb))):
        members[name] = property(
            mark_never_refused(f"{pandas_class.__name__}.{name}", getattr_static(pandas_class, name), function)
        )
    public = [name for name in dir(pandas_class) if not name.startswith("_") and name != "pipe"]
    for name in (*public, "__getitem__", "__iter__", "__len__"):
        attribute = getattr_static(pandas_class, name)
        if name in members or attribute is None:  # None: set by the constructor
            continue
        planned = (NATIVE | own).get(name)
        label = f"{pandas_class.__name__}.{name}"
        if callable(attribute):
            members[name] = _method(label, planned, attribute)
        else:
            members[name] = _property(pandas_class, name, planned)
    return members


def _stays(_: Any) -> bool:
    return inside_pandas()


def _copy_of(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A copy of a function, which can have another name: the two classes share functions, and errors name the class's method."""
    if not isinstance(function, FunctionType):
        return function
    parts = (function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy = FunctionType(*parts)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _method(label: str, shared: Callable[..., Any] | None, theirs: Callable[..., Any]) -> Callable[..., Any]:
    function = _copy_of(shared)

    def planned_method(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_unless_completed(self.__dict__["_plan"], theirs.__name__)
        try:
            result = function(self, *args, **kwargs)  # type: ignore[misc]
        except UndecidedDtype:
            self._decide_dtypes()
            result = function(self, *args, **kwargs)  # type: ignore[misc]
        self._record_use(theirs.__name__)
        return result

    def in_pandas(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._in_bins():
            return theirs(self._pandas_groupby(), *args, **kwargs)
        keeping = _KEEPING_GROUPS - {"resample"} if self.__dict__["_plan"].single else _KEEPING_GROUPS
        narrow = None if theirs.__name__ in keeping else self._pandas_groupby_of_selection()
        if narrow is not None:
            result = theirs(narrow, *args, **kwargs)
            self._record_use(theirs.__name__)
            return result
        self._restore_used_columns()
        return theirs(self, *args, **kwargs)

    named_as(theirs, function)
    planned = None if function is None else planned_method
    return wrapped(label, theirs, planned, fallback=in_pandas, route=by_object(_stays))  # type: ignore[no-any-return]


def _property(pandas_class: Any, name: str, function: Callable[..., Any] | None) -> Any:
    attribute = getattr_static(pandas_class, name)

    def read(gb: Any) -> Any:
        if gb._in_bins():
            return getattr(gb._pandas_groupby(), name)
        gb._restore_used_columns()
        return attribute.__get__(gb, type(gb))

    return native_property(pandas_class, name, read=read, stays=_stays)(function)


SeriesGroupBy: Any = type(
    "SeriesGroupBy",
    (NativeGroupBy, PandasSeriesGroupBy),
    {**_inherit(PandasSeriesGroupBy, SERIES), "__module__": "pandas.api.typing"},
)
DataFrameGroupBy: Any = type(
    "DataFrameGroupBy",
    (NativeGroupBy, PandasFrameGroupBy),
    {**_inherit(PandasFrameGroupBy, FRAME), "__module__": "pandas.api.typing"},
)
