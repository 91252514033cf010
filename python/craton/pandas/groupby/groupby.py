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
import pandas as pd
from pandas.api.types import is_dict_like, is_hashable, is_list_like, is_scalar
from pandas.core.groupby import base
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.generic import SeriesGroupBy as PandasSeriesGroupBy

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import as_craton, frame_class, series_class
from craton.pandas.core.dtypes import FLOAT64
from craton.pandas.core.lazy import holds_view, lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import (
    by_object,
    getattr_static,
    mark_never_refused,
    named_as,
    native_property,
    wrapped,
)
from craton.pandas.core.routing import inside_pandas, is_lazy, plain_pandas
from craton.pandas.core.view import View
from craton.pandas.groupby import collected, construction, lambdas, moving, table_methods, tables, windows
from craton.pandas.groupby.agg import aggregation_name, for_stand_in
from craton.pandas.groupby.aggregates import ColumnAggregation, aggregate_columns, plan_aggregations
from craton.pandas.groupby.completed_methods import refuse_unless_completed
from craton.pandas.groupby.completion import completed
from craton.pandas.groupby.construction import ConstructorAttribute, frame_columns, parameters_of, restored, snapshot
from craton.pandas.groupby.functions import NAMES, UndecidedDtype
from craton.pandas.groupby.in_memory import is_sorted
from craton.pandas.groupby.key_origins import TimeBins
from craton.pandas.groupby.keys import GroupByOptions, Grouped, resolve_group_keys
from craton.pandas.groupby.nth import NthSelector
from craton.plan.expr import Expr
from craton.refusals import Refusal


class NativeGroupBy:
    """The common base of both group-by classes."""

    _grouper = ConstructorAttribute()
    exclusions = ConstructorAttribute()

    def _pandas_groupby(self: Any) -> Any:
        """The same group-by as an object of pandas, over the materialised frame."""
        own = self.__dict__
        chosen = parameters_of(own["_plan"].options)
        parent = own["_parent"]
        if parent is not None and self._in_bins():
            return parent._pandas_groupby()[own["_selection"]]
        if parent is not None:
            return (PandasSeriesGroupBy if own["_plan"].single else PandasFrameGroupBy)(
                self.obj,
                parent.keys,
                level=parent.level,
                grouper=parent._grouper,
                exclusions=parent.exclusions,
                selection=own["_selection"],
                **chosen,
            )
        frame, source = own["_frame"], self._source()
        _ = source._mgr
        by = frame_columns(own["_by"], own["_plan"], source)
        pandas_class = PandasSeriesGroupBy if isinstance(frame, pd.Series) else PandasFrameGroupBy
        made = pandas_class(source, by, level=own["level"], **chosen)
        if not self._in_bins():  # otherwise pandas has sorted the frame
            _ = frame._mgr
            made.obj = frame
        return made

    def _pandas_groupby_of_selection(self: Any) -> Any:
        """Pandas' own group-by over a frame with only the keys and the selected columns, if the frame has not been computed.

        None if pandas needs the frame as it is: it is in memory, has no other columns, or was changed.
        """
        own = self.__dict__
        parent = own["_parent"]
        if parent is None or self._in_bins() or self._changed() or parent._changed() or "_grouper" in parent.__dict__:
            return None
        state = parent.__dict__
        frame, grouped_view, plan = state["_frame"], state["_grouped_view"], state["_plan"]
        positions = sorted({*own["_plan"].positions, *(key.column for key in plan.keys if key.column is not None)})
        if "_mgr" in frame.__dict__ or len(positions) == len(grouped_view.values):
            return None
        if any(isinstance(key.value.dtype, pd.CategoricalDtype) for key in plan.keys):
            return None  # pandas prints such a key unless it shares memory with the frame, and cannot print some categories
        made = own.get("_of_selection")
        if made is None:
            source = lazy(type(frame), grouped_view.take(positions), frame)
            _ = source._mgr
            by = frame_columns(state["_by"], plan, source)
            groups = PandasFrameGroupBy(source, by, level=state["level"], **parameters_of(plan.options))
            made = own["_of_selection"] = groups[own["_selection"]]
        made.as_index, made.group_keys = self.as_index, self.group_keys
        return made

    def _pandas_groupby_of_keys(self: Any) -> Any:
        """Pandas' own group-by over a frame with only the keys, if the frame has not been computed; otherwise over the whole frame."""
        state = self.__dict__ if self.__dict__["_parent"] is None else self.__dict__["_parent"].__dict__
        if "_of_keys" in state:
            return state["_of_keys"]
        frame, plan = state["_frame"], state["_plan"]
        positions = sorted({key.column for key in plan.keys if key.column is not None})
        if not isinstance(frame, pd.DataFrame) or "_mgr" in frame.__dict__ or not positions:
            made = self._pandas_groupby()
        else:
            source = lazy(type(frame), state["_grouped_view"].take(positions), frame)
            by = frame_columns(state["_by"], plan, source)
            made = PandasFrameGroupBy(source, by, level=state["level"], **parameters_of(plan.options))
        state["_of_keys"] = made
        return made

    def _source(self: Any) -> Any:
        """The grouped object as pandas' group-by has it.

        Later changes of the object do not affect it, except that a group-by by intervals of sorted times shares the blocks of a
        consolidated frame.
        """
        own = self.__dict__
        frame = own["_frame"]
        if not self._changed():
            return frame
        before = lazy(type(frame), own["_grouped_view"], frame)
        bins = [key.origin for key in own["_plan"].keys if isinstance(key.origin, TimeBins)]
        shares = bins and own["_consolidated"] and is_sorted(before, bins[0].grouper.key)
        return frame if shares else before

    def _in_bins(self: Any) -> bool:
        """Whether a key is intervals of time, so that methods of pandas run on pandas' own group-by, which sorts the rows."""
        return any(isinstance(key.origin, TimeBins) for key in self.__dict__["_plan"].keys)

    def __reduce__(self: Any) -> Any:
        with plain_pandas():
            made = self._pandas_groupby()
        return restored, (type(made), made.__dict__)

    def _current(self: Any) -> Grouped:
        """The plan; refuses if the grouped object was changed in place after ``groupby``."""
        plan: Grouped = self.__dict__["_plan"]
        if self._changed():
            raise Unsupported(Refusal.GROUP_CHANGED)
        for key in plan.keys:
            if key.given is not None:
                key.given.use()
        return plan

    def _changed(self: Any) -> bool:
        return not holds_view(self.__dict__["_frame"], self.__dict__["_grouped_view"])

    def _record_use(self: Any, method: str) -> None:
        """Record a call in which pandas' method would have cached the grouped columns for later calls."""
        own = self.__dict__
        fresh = _CACHING_NOTHING if own["_selection"] is not None else _CACHING_NOTHING | _CACHING_NOTHING_UNSELECTED
        if not own["_plan"].single and method not in fresh:
            own["_used"] = True

    def _restore_used_columns(self: Any) -> None:
        """If the grouped frame was changed in place, give pandas the columns that an earlier call would have cached."""
        own = self.__dict__
        if own.get("_used") and "_obj_with_exclusions" not in own.get("_cache", {}) and self._changed():
            with plain_pandas():
                source = lazy(type(own["_frame"]), own["_grouped_view"], own["_frame"])
                if own["_selection"] is not None:
                    used = source[own["_selection"]]
                elif self.exclusions:
                    used = source._drop_axis(self.exclusions, axis=1)
                else:
                    return
                own.setdefault("_cache", {})["_obj_with_exclusions"] = used

    def _decide_dtypes(self: Any) -> None:
        """Decide dtypes that depend on the data, by a query."""
        self.__dict__["_plan"] = self.__dict__["_plan"].with_decided_dtypes()

    def _probe(self: Any, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """The template of a result: what the method of pandas' own group-by returns for the stand-in."""
        state = self.__dict__

        def call() -> Any:
            groups = state["_plan"].stand_in_groupby(state["_selection"])
            return getattr(groups, method)(*args, **kwargs)

        about = [*state["_plan"].stand_in_key(state["_selection"]), method, args, kwargs]
        return stand_ins.probe_cached("groupby", about, call)

    def _result(self: Any, view: Any, template: Any) -> Any:
        """A lazy Series or DataFrame, of the same kind as the template."""
        like = self.__dict__["_frame"] if template.attrs else None
        return lazy(series_class() if isinstance(template, pd.Series) else frame_class(), view, like)

    def _aggregated(
        self: Any, state: Grouped, aggregations: list[ColumnAggregation], template: Any, in_order: bool = False
    ) -> Any:
        """The result of aggregations (:func:`~craton.pandas.groupby.aggregates.plan_aggregations`)."""
        if not state.completes:
            return self._result(plan_aggregations(state, aggregations, template, in_order), template)
        made = as_craton(completed(state, aggregations, template, in_order))
        if template.attrs:
            name = getattr(made, "name", None)
            made = made.__finalize__(self.__dict__["_frame"])  # it also copies the name of a Series
            if isinstance(made, pd.Series):
                made.name = name
        return made

    def _rows(self: Any, predicate: Expr) -> Any:
        """The rows where a predicate is true, with the selected columns, or with all columns including keys."""
        plan: Grouped = self.__dict__["_plan"]
        held = plan.held if self._selection is None else plan.held.take(plan.positions)
        return lazy(series_class() if plan.single else frame_class(), held.filtered(predicate), self.__dict__["_frame"])

    def _selecting(self: Any, cls: type, key: Any, positions: list[int], single: bool) -> Any:
        """A group-by of some of the columns."""
        own = self.__dict__
        plan, frame, grouped_view = own["_plan"].selecting(positions, single), own["_frame"], own["_grouped_view"]
        if single:  # later changes of the frame do not affect a selected column
            column = grouped_view.position(key)
            frame = lazy(
                series_class(), grouped_view.series(grouped_view.values[column], grouped_view.labels[column]), frame
            )
            grouped_view = view(frame)
        return _make(cls, frame, grouped_view, plan, self.keys, self.level, key, self)


def _make(
    cls: Any,
    frame: Any,
    grouped_view: View,
    plan: Grouped,
    by: Any,
    level: Any,
    selection: Any = None,
    parent: Any = None,
) -> Any:
    gb: Any = object.__new__(cls)
    state = gb.__dict__
    state.update(parameters_of(plan.options))
    state.update(keys=by, level=level, _selection=selection, _parent=parent)
    state.update(_frame=frame, _grouped_view=grouped_view, _plan=plan, obj=frame)
    state["_consolidated"] = not is_lazy(frame) and frame._mgr.is_consolidated()
    state["_by"] = list(map(snapshot, by)) if isinstance(by, list) else snapshot(by)
    return gb


#: Methods that cache nothing of the grouped frame in pandas, so that the next call uses the frame with later assignments.
_CACHING_NOTHING = frozenset({"__getitem__", "__len__", "groups", "indices", "ngroups", "pipe", "size"})
#: Further methods that cache nothing if no columns were selected.
_CACHING_NOTHING_UNSELECTED = frozenset(
    [
        *("__iter__", "boxplot", "ewm", "expanding", "filter", "get_group", "head", "ndim", "nth", "plot", "rolling"),
        *("sample", "tail"),
    ]
)
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
    return _make(SeriesGroupBy if plan.single else DataFrameGroupBy, obj, view(obj), plan, by, level)


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
    template = self._probe("agg", for_stand_in(func), **named)
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
KERNELS = base.transformation_kernels & NATIVE.keys()


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
