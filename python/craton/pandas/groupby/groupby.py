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
from pandas.core.groupby.indexing import GroupByNthSelector

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import as_craton, counterpart_of, frame_class, series_class
from craton.pandas.core.lazy import holds_view, lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import (
    Native,
    by_object,
    count_fallback,
    getattr_static,
    mark_never_refused,
    named_as,
    native_property,
    wrapped,
)
from craton.pandas.core.routing import inside_pandas, plain_pandas
from craton.pandas.core.view import View
from craton.pandas.groupby import tables, windows
from craton.pandas.groupby.agg import aggregation_name, column_aggregations
from craton.pandas.groupby.aggregates import aggregate_columns, plan_aggregations
from craton.pandas.groupby.functions import NAMES, UndecidedDtype
from craton.pandas.groupby.keys import GroupByOptions, Grouped, resolve_group_keys
from craton.plan.expr import Expr
from craton.refusals import Reason, Refusal


class ConstructorAttribute:
    """An attribute that pandas' constructor sets; the first access runs the constructor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, gb: Any, owner: type | None = None) -> Any:
        if gb is None:
            raise AttributeError(self.name)
        own = gb.__dict__
        if not inside_pandas():
            count_fallback(f"{type(gb).__name__}.{self.name}", Reason(Refusal.METHOD))
        with plain_pandas():
            made = gb._pandas_groupby()
        # Parameters are not updated, because pandas changes some of them temporarily.
        own.update(_grouper=made._grouper, exclusions=made.exclusions)
        return own[self.name]


class NativeGroupBy:
    """The common base of both group-by classes."""

    _grouper = ConstructorAttribute()
    exclusions = ConstructorAttribute()

    def _pandas_groupby(self: Any) -> Any:
        """The same group-by as an object of pandas, over the materialised frame."""
        own = self.__dict__
        options = _options(own["_plan"].options)
        parent = own["_parent"]
        if parent is not None:
            return (PandasSeriesGroupBy if own["_plan"].single else PandasFrameGroupBy)(
                self.obj,
                parent.keys,
                level=parent.level,
                grouper=parent._grouper,
                exclusions=parent.exclusions,
                selection=own["_selection"],
                **options,
            )
        frame = own["_frame"]
        source = lazy(type(frame), own["_grouped_view"], frame) if self._changed() else frame
        _ = source._mgr
        by = _frame_columns(own["_by"], own["_plan"], source)
        pandas_class = PandasSeriesGroupBy if isinstance(frame, pd.Series) else PandasFrameGroupBy
        made = pandas_class(source, by, level=own["level"], **options)
        _ = frame._mgr
        made.obj = frame
        return made

    def __reduce__(self: Any) -> Any:
        with plain_pandas():
            made = self._pandas_groupby()
        return _restored, (type(made), made.__dict__)

    def _current(self: Any) -> Grouped:
        """The plan; refuses if the grouped object was changed in place after ``groupby``."""
        plan: Grouped = self.__dict__["_plan"]
        if self._changed():
            raise Unsupported(Refusal.GROUP_CHANGED)
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


def _restored(cls: type, state: dict[str, Any]) -> Any:
    """Unpickle a group-by; its state is that of pandas' group-by."""
    groups: Any = object.__new__(counterpart_of(cls))
    groups.__dict__.update(state)
    return groups


def _frame_columns(by: Any, plan: Grouped, source: Any) -> Any:
    """The keys for pandas. The frame's own columns are taken from it again, because pandas recognises them by shared memory."""

    def own(one: Any, key: Any) -> Any:
        if not isinstance(one, pd.Series) or key.column is None:
            return one
        return source[key.name].astype(key.value.dtype)

    if isinstance(by, list):
        return [own(one, key) for one, key in zip(by, plan.keys, strict=True)]
    return own(by, plan.keys[0])


def _options(options: GroupByOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in GroupByOptions.__dataclass_fields__}


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
    state.update(_options(plan.options))
    state.update(keys=by, level=level, _selection=selection, _parent=parent)
    state.update(_frame=frame, _grouped_view=grouped_view, _plan=plan, obj=frame)
    state["_by"] = list(map(_snapshot, by)) if isinstance(by, list) else _snapshot(by)
    return gb


def _snapshot(key: Any) -> Any:
    """A snapshot of a key; later changes of a Series in place do not affect it."""
    return lazy(type(key), view(key), key) if isinstance(key, pd.Series) else key


#: Methods that cache nothing of the grouped frame in pandas, so that the next call uses the frame with later assignments.
_CACHING_NOTHING = frozenset({"__getitem__", "__len__", "groups", "indices", "ngroups", "pipe", "size"})
#: Further methods that cache nothing if no columns were selected.
_CACHING_NOTHING_UNSELECTED = frozenset(
    [
        *("__iter__", "boxplot", "ewm", "expanding", "filter", "get_group", "head", "ndim", "nth", "plot", "rolling"),
        *("sample", "tail"),
    ]
)


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
        view, template = aggregate_columns(state, self._probe, name, args, kwargs)
        return self._result(view, template)

    reduction.__name__ = name
    return reduction


def _aggregate(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    name = aggregation_name(func)
    if name is not None:
        return _reduction(name)(self, *args, **kwargs)
    if args:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    state = self._current()
    aggregations = column_aggregations(state, func, kwargs)
    template = self._probe("agg", func, **kwargs)
    in_order = self._plan.single or (is_list_like(func) and not is_dict_like(func))
    return self._result(plan_aggregations(state, aggregations, template, in_order), template)


def _transform(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(func, str) and func in KERNELS:
        return NATIVE[func](self, *args, **kwargs)
    if args or not isinstance(func, str) or func not in NAMES:
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)
    if not self._plan.single:
        refuse_unique_labels_flag(self.__dict__["_frame"])
    return self._result(*windows.broadcast(self._current(), self._probe, func, kwargs))


def _apply(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    if not callable(func):
        raise Unsupported(Refusal.NOT_A_FUNCTION)
    from craton.pandas.udf.groups import apply_groups

    self._current()
    with plain_pandas():
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
    try:
        return _aggregate(gb, func, **kwargs)
    except UndecidedDtype:
        gb._decide_dtypes()
        return _aggregate(gb, func, **kwargs)


def _getitem(self: Any, key: Any) -> Any:
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


def _series_value_counts(
    self: Any,
    normalize: bool = False,
    sort: bool = True,
    ascending: bool = False,
    bins: Any = None,
    dropna: bool = True,
) -> Any:
    if bins is not None:
        raise Unsupported(Refusal.PARAMETER, "bins")
    return _frame_value_counts(self, None, normalize, sort, ascending, dropna)


def _frame_value_counts(
    self: Any,
    subset: Any = None,
    normalize: bool = False,
    sort: bool = True,
    ascending: bool = False,
    dropna: bool = True,
) -> Any:

    state = self._current()
    counts = series_class()(tables.value_counts(state, self._probe, subset, normalize, sort, ascending, dropna))
    name = counts.name
    counts = counts.__finalize__(self.__dict__["_frame"], method="value_counts")  # it also copies the name of a Series
    counts.name = name
    return counts


def _nth(self: Any, n: Any, dropna: Any = None) -> Any:
    if dropna:
        raise Unsupported(Refusal.GROUP_NTH_DROPNA)
    rows = self._rows(windows.nth(self._current(), n))
    self._record_use("nth")
    return rows


def _nth_in_pandas(self: Any, n: Any, dropna: Any = None) -> Any:
    self._restore_used_columns()
    return type(self)._nth(self, n, dropna)


def _nth_item_in_pandas(self: Any, n: Any) -> Any:
    self._restore_used_columns()
    return GroupByNthSelector(self)[n]


def _nth_label(self: Any, *_: Any) -> str:
    return f"{type(self).__name__}.nth"


_NTH = Native("nth of groups", PandasFrameGroupBy._nth, _nth, _nth_in_pandas, named=_nth_label)
_NTH_ITEM = Native("nth[...] of groups", PandasFrameGroupBy._nth, None, _nth_item_in_pandas, named=_nth_label)


class _NthSelector(GroupByNthSelector):
    """``nth``, to be called or indexed."""

    def __call__(self, n: Any, dropna: Any = None) -> Any:
        gb: Any = self.groupby_object
        return gb._nth(n, dropna) if inside_pandas() else _NTH.run(gb, (n, dropna), {})

    def __getitem__(self, n: Any) -> Any:
        return _NTH_ITEM.run_in_pandas(Reason(Refusal.GROUP_NTH_BRACKETS), self.groupby_object, (n,), {})


named_as(GroupByNthSelector.__call__, _NthSelector.__call__)


def _ngroups(self: Any) -> int:
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
NATIVE |= {"aggregate": _aggregate, "agg": _aggregate, "transform": _transform, "apply": _apply}
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
    "describe": _window(tables.describe, "describe"),
    "get_group": _get_group,
    "ngroups": _ngroups,
    "__len__": _ngroups,
}
SERIES: dict[str, Callable[..., Any]] = {"value_counts": _series_value_counts}
FRAME: dict[str, Callable[..., Any]] = {"value_counts": _frame_value_counts, "__getitem__": _getitem}
KERNELS = base.transformation_kernels & NATIVE.keys()


def _inherit(pandas_class: Any, own: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """The members of a group-by class: native methods that fall back to pandas' own, and pandas' methods, counted as fallbacks."""
    members: dict[str, Any] = {"__getattr__": _getattr, "__setattr__": _setattr}
    for name, function in (("ndim", lambda gb: _ndim(gb)), ("nth", lambda gb: _NthSelector(gb))):
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
        try:
            result = function(self, *args, **kwargs)  # type: ignore[misc]
        except UndecidedDtype:
            self._decide_dtypes()
            result = function(self, *args, **kwargs)  # type: ignore[misc]
        self._record_use(theirs.__name__)
        return result

    def in_pandas(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._restore_used_columns()
        return theirs(self, *args, **kwargs)

    named_as(theirs, function)
    planned = None if function is None else planned_method
    return wrapped(label, theirs, planned, fallback=in_pandas, route=by_object(_stays))  # type: ignore[no-any-return]


def _property(pandas_class: Any, name: str, function: Callable[..., Any] | None) -> Any:
    attribute = getattr_static(pandas_class, name)

    def read(gb: Any) -> Any:
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
