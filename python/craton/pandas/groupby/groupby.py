"""DataFrameGroupBy and SeriesGroupBy: pandas' own classes over a plan.

A group-by object holds what is grouped by what (:class:`~craton.pandas.groupby.keys.Grouped`) and pandas' own group-by
of a two-row template. Native methods plan; any other method is pandas' own, inherited: the attributes it needs
(``obj``, ``_grouper``, ``exclusions``) are class-level descriptors that run pandas' constructor on the materialised
frame when they are first touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
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
from craton.pandas.core.lazy import holds_view, lazy, view
from craton.pandas.core.native import (
    Native,
    by_object,
    count_fallback,
    getattr_static,
    mark_never_refused,
    native_property,
    wrapped,
)
from craton.pandas.core.routing import inside_pandas, plain_pandas
from craton.pandas.core.view import View
from craton.pandas.groupby import tables, windows
from craton.pandas.groupby.agg import direct, pairs_of
from craton.pandas.groupby.aggregates import reduced, summarise
from craton.pandas.groupby.functions import NAMES, Undecided
from craton.pandas.groupby.keys import Grouped, Options, grouped
from craton.plan.expr import Expr
from craton.refusals import Reason, Refusal


class PandasState:
    """A class-level attribute that pandas' constructor sets on the instance: touched first, it runs the constructor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, gb: Any, owner: type | None = None) -> Any:
        if gb is None:
            raise AttributeError(self.name)
        own = gb.__dict__
        if not inside_pandas():
            count_fallback(f"{type(gb).__name__}.{self.name}", Reason(Refusal.METHOD))
        with plain_pandas():
            made = gb._made()
        # The parameters stay as they are, since pandas changes some for a while.
        own.update(_grouper=made._grouper, exclusions=made.exclusions)
        return own[self.name]


class NativeGroupBy:
    """What both classes share."""

    _grouper = PandasState()
    exclusions = PandasState()

    def _made(self: Any) -> Any:
        """The same group-by, made by pandas of the materialised object."""
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
        source = lazy(type(frame), own["_seen"], frame) if self._changed() else frame
        _ = source._mgr
        by = _own_columns(own["_by"], own["_plan"], source)
        pandas_class = PandasSeriesGroupBy if isinstance(frame, pd.Series) else PandasFrameGroupBy
        made = pandas_class(source, by, level=own["level"], **options)
        _ = frame._mgr
        made.obj = frame
        return made

    def __reduce__(self: Any) -> Any:
        with plain_pandas():
            made = self._made()
        return _restored, (type(made), made.__dict__)

    def _current(self: Any) -> Grouped:
        """The plan, if the grouped object was not changed in place since."""
        plan: Grouped = self.__dict__["_plan"]
        if self._changed():
            raise Unsupported(Refusal.GROUP_CHANGED)
        return plan

    def _changed(self: Any) -> bool:
        return not holds_view(self.__dict__["_frame"], self.__dict__["_seen"])

    def _note_use(self: Any, method: str) -> None:
        """What pandas' method would have kept of the grouped columns, kept for its later calls."""
        own = self.__dict__
        fresh = _KEEPING_NOTHING if own["_selection"] is not None else _KEEPING_NOTHING | _OF_ALL_COLUMNS
        if not own["_plan"].single and method not in fresh:
            own["_used"] = True

    def _keep_used(self: Any) -> None:
        """Give pandas the columns that an earlier call used, if the grouped frame was changed in place since."""
        own = self.__dict__
        if own.get("_used") and "_obj_with_exclusions" not in own.get("_cache", {}) and self._changed():
            with plain_pandas():
                source = lazy(type(own["_frame"]), own["_seen"], own["_frame"])
                if own["_selection"] is not None:
                    used = source[own["_selection"]]
                elif self.exclusions:
                    used = source._drop_axis(self.exclusions, axis=1)
                else:
                    return
                own.setdefault("_cache", {})["_obj_with_exclusions"] = used

    def _settle(self: Any) -> None:
        """Decide dtypes that depend on the data."""
        self.__dict__["_plan"] = self.__dict__["_plan"].settled()

    def _probe(self: Any, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """What a method of pandas' own group-by of a template returns."""
        state = self.__dict__

        def call() -> Any:
            groups = state["_plan"].template(state["_selection"])
            return getattr(groups, method)(*args, **kwargs)

        about = [*state["_plan"].kind(state["_selection"]), method, args, kwargs]
        return stand_ins.probe_cached("groupby", about, call)

    def _result(self: Any, view: Any, template: Any) -> Any:
        """A lazy object of the class that the template's result has."""
        like = self.__dict__["_frame"] if template.attrs else None
        return lazy(series_class() if isinstance(template, pd.Series) else frame_class(), view, like)

    def _rows(self: Any, predicate: Expr) -> Any:
        """Some of the rows, with the columns that were selected, keys among them, or all."""
        plan: Grouped = self.__dict__["_plan"]
        held = plan.held if self._selection is None else plan.held.take(plan.positions)

        return lazy(series_class() if plan.single else frame_class(), held.filtered(predicate), self.__dict__["_frame"])

    def _selecting(self: Any, cls: type, key: Any, positions: list[int], single: bool) -> Any:
        """A group-by of some of the columns."""
        own = self.__dict__
        plan, frame, seen = own["_plan"].selecting(positions, single), own["_frame"], own["_seen"]
        if single:  # which is of the column as it is now, whatever becomes of the frame
            column = seen.position(key)
            frame = lazy(series_class(), seen.series(seen.values[column], seen.labels[column]), frame)
            seen = view(frame)
        return _make(cls, frame, seen, plan, self.keys, self.level, key, self)


def _restored(cls: type, state: dict[str, Any]) -> Any:
    """A group-by that pandas made, from a pickle."""
    groups: Any = object.__new__(counterpart_of(cls))
    groups.__dict__.update(state)
    return groups


def _own_columns(by: Any, plan: Grouped, source: Any) -> Any:
    """Keys that are columns of the frame, taken from it as it is now: pandas knows them by their memory."""

    def own(one: Any, key: Any) -> Any:
        if not isinstance(one, pd.Series) or key.column is None:
            return one
        return source[key.name].astype(key.value.dtype)

    if isinstance(by, list):
        return [own(one, key) for one, key in zip(by, plan.keys, strict=True)]
    return own(by, plan.keys[0])


def _options(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in Options.__dataclass_fields__}


def _make(
    cls: Any,
    frame: Any,
    seen: View,
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
    state.update(_frame=frame, _seen=seen, _plan=plan, obj=frame)
    state["_by"] = list(map(_frozen, by)) if isinstance(by, list) else _frozen(by)
    return gb


def _frozen(key: Any) -> Any:
    """A key as it is now; what is written to a Series later does not change it."""
    return lazy(type(key), view(key), key) if isinstance(key, pd.Series) else key


#: Methods for which pandas keeps nothing of the grouped frame: they see what is assigned to it between two calls.
_KEEPING_NOTHING = frozenset({"__getitem__", "__len__", "groups", "indices", "ngroups", "pipe", "size"})
#: Those for which it keeps nothing where no columns were selected.
_OF_ALL_COLUMNS = frozenset(
    [
        *("__iter__", "boxplot", "ewm", "expanding", "filter", "get_group", "head", "ndim", "nth", "plot", "rolling"),
        *("sample", "tail"),
    ]
)


def group(obj: Any, by: Any, level: Any, options: Options) -> Any:
    """A lazy group-by of a craton DataFrame or Series.

    Raises
    ------
    Unsupported
        If a plan can't group so.
    """
    plan = grouped(obj, by, level, options)
    return _make(SeriesGroupBy if plan.single else DataFrameGroupBy, obj, view(obj), plan, by, level)


# -- native methods ---------------------------------------------------------------------------------------------------


def _reduction(name: str) -> Callable[..., Any]:
    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = self._current()
        view, template = reduced(state, self._probe, name, args, kwargs)
        return self._result(view, template)

    reduction.__name__ = name
    return reduction


def _aggregate(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    name = direct(func)
    if name is not None:
        return _reduction(name)(self, *args, **kwargs)
    if args:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    state = self._current()
    pairs = pairs_of(state, func, kwargs)
    template = self._probe("agg", func, **kwargs)
    in_order = self._plan.single or (is_list_like(func) and not is_dict_like(func))
    return self._result(summarise(state, pairs, template, in_order), template)


def _transform(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(func, str) and func in KERNELS:
        return NATIVE[func](self, *args, **kwargs)
    if args or not isinstance(func, str) or func not in NAMES:
        raise Unsupported(Refusal.FUNCTION_TRANSFORM)
    return self._result(*windows.broadcast(self._current(), self._probe, func, kwargs))


def _apply(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    if not callable(func):
        raise Unsupported(Refusal.NOT_A_FUNCTION)
    from craton.pandas.udf.groups import apply_groups

    self._current()
    with plain_pandas():
        made = self._made()
    return as_craton(apply_groups(made, f"{type(self).__name__}.apply", func, args, kwargs))


def _window(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A method that gives a row for a row; one whose arguments don't fit is pandas' to refuse."""

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


def _ends(name: str) -> Callable[..., Any]:
    def ends(self: Any, n: int = 5) -> Any:
        return self._rows(windows.ends(self._current(), name, n))

    return ends


def aggregate_native(gb: Any, func: Any, **kwargs: Any) -> Any:
    """``gb.agg(func, **kwargs)`` as a plan.

    Raises
    ------
    Unsupported
        If a plan can't compute it.
    """
    try:
        return _aggregate(gb, func, **kwargs)
    except Undecided:
        gb._settle()
        return _aggregate(gb, func, **kwargs)


def _getitem(self: Any, key: Any) -> Any:
    plan = self._current()
    if self._selection is not None or plan.single:
        raise Unsupported(Refusal.GROUP_SELECTION_TWICE)
    if isinstance(key, list):
        if any(isinstance(label, (bool, np.bool_)) for label in key):
            raise Unsupported(Refusal.GROUP_COLUMNS_TYPE, "list of bool")  # which rows pandas takes, or which columns
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
    counts = counts.__finalize__(self.__dict__["_frame"], method="value_counts")  # which hands on a Series' name too
    counts.name = name
    return counts


def _nth(self: Any, n: Any, dropna: Any = None) -> Any:
    if dropna:
        raise Unsupported(Refusal.GROUP_NTH_DROPNA)
    rows = self._rows(windows.nth(self._current(), n))
    self._note_use("nth")
    return rows


def _nth_in_pandas(self: Any, n: Any, dropna: Any = None) -> Any:
    self._keep_used()
    return type(self)._nth(self, n, dropna)


def _nth_item_in_pandas(self: Any, n: Any) -> Any:
    self._keep_used()
    return GroupByNthSelector(self)[n]


def _class_nth(self: Any, *_: Any) -> str:
    return f"{type(self).__name__}.nth"


_NTH = Native("nth of groups", PandasFrameGroupBy._nth, _nth, _nth_in_pandas, named=_class_nth)
_NTH_ITEM = Native("nth[...] of groups", PandasFrameGroupBy._nth, None, _nth_item_in_pandas, named=_class_nth)


class _NthSelector(GroupByNthSelector):
    """``nth``, to be called or indexed."""

    def __call__(self, n: Any, dropna: Any = None) -> Any:
        gb: Any = self.groupby_object
        return gb._nth(n, dropna) if inside_pandas() else _NTH.run(gb, (n, dropna), {})

    def __getitem__(self, n: Any) -> Any:
        return _NTH_ITEM.run_in_pandas(Reason(Refusal.GROUP_NTH_BRACKETS), self.groupby_object, (n,), {})


def _ngroups(self: Any) -> int:
    return windows.count_groups(self._current())


def _get_group(self: Any, name: Any) -> Any:
    return self._rows(windows.one_group(self._current(), name, self.keys, self.level))


def _getattr(self: Any, name: str) -> Any:
    frame = self.__dict__["_frame"]
    if name.startswith("_") or self.__dict__["_plan"].single or name not in frame.columns:
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
    return self[name]


def _setattr(self: Any, name: str, value: Any) -> None:
    """What pandas looks at in each call is of the plan from then on; of the others, which the groups are made by, nothing comes."""
    if name in ("as_index", "group_keys") and isinstance(value, bool):
        plan = self.__dict__["_plan"]
        self.__dict__["_plan"] = replace(plan, options=replace(plan.options, **{name: value}))
    object.__setattr__(self, name, value)


def _ndim(self: Any) -> int:
    if isinstance(self._selection, list) and self._changed():
        self._keep_used()
        with plain_pandas():
            return int(self._selected_obj.ndim)
    return 1 if self.__dict__["_plan"].single else 2


NATIVE: dict[str, Callable[..., Any]] = {name: _reduction(name) for name in NAMES}
NATIVE |= {"aggregate": _aggregate, "agg": _aggregate, "transform": _transform, "apply": _apply}
NATIVE |= {name: _cumulative(name) for name in ("cumsum", "cumprod", "cummin", "cummax")}
NATIVE |= {name: _fill(name) for name in ("ffill", "bfill")}
NATIVE |= {name: _ends(name) for name in ("head", "tail")}
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
    """The methods of a group-by class: native ones with pandas' own behind them, and the others counted."""
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


def _method(label: str, function: Callable[..., Any] | None, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def settling(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = function(self, *args, **kwargs)  # type: ignore[misc]
        except Undecided:
            self._settle()
            result = function(self, *args, **kwargs)  # type: ignore[misc]
        self._note_use(theirs.__name__)
        return result

    def in_pandas(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._keep_used()
        return theirs(self, *args, **kwargs)

    planned = None if function is None else settling
    return wrapped(label, theirs, planned, fallback=in_pandas, route=by_object(_stays))  # type: ignore[no-any-return]


def _property(pandas_class: Any, name: str, function: Callable[..., Any] | None) -> Any:
    attribute = getattr_static(pandas_class, name)

    def read(gb: Any) -> Any:
        gb._keep_used()
        return attribute.__get__(gb, type(gb))

    return native_property(pandas_class, name, read=read, stays=_stays)(function)


DataFrameGroupBy: Any = type(
    "DataFrameGroupBy",
    (NativeGroupBy, PandasFrameGroupBy),
    {**_inherit(PandasFrameGroupBy, FRAME), "__module__": "pandas.api.typing"},
)
SeriesGroupBy: Any = type(
    "SeriesGroupBy",
    (NativeGroupBy, PandasSeriesGroupBy),
    {**_inherit(PandasSeriesGroupBy, SERIES), "__module__": "pandas.api.typing"},
)
