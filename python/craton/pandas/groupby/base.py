"""The common base of DataFrameGroupBy and SeriesGroupBy: what a group-by object holds, and the same group-by as an object of pandas.

A group-by object holds the grouped view, the keys and the options (:class:`~craton.pandas.groupby.keys.Grouped`). The labels
and dtypes of a result come from a *template*: what the same method of pandas returns for a two-row stand-in.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.groupby.generic import SeriesGroupBy as PandasSeriesGroupBy

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import as_craton, frame_class, series_class
from craton.pandas.core.lazy import holds_view, lazy, view
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.view import View
from craton.pandas.groupby.aggregates import ColumnAggregation, plan_aggregations
from craton.pandas.groupby.completion import completed
from craton.pandas.groupby.construction import ConstructorAttribute, frame_columns, parameters_of, restored, snapshot
from craton.pandas.groupby.in_memory import is_sorted
from craton.pandas.groupby.key_origins import TimeBins
from craton.pandas.groupby.keys import Grouped
from craton.plan.expr import Expr
from craton.refusals import Refusal

#: Methods that cache nothing of the grouped frame in pandas, so that the next call uses the frame with later assignments.
_CACHING_NOTHING = frozenset({"__getitem__", "__len__", "groups", "indices", "ngroups", "pipe", "size"})
#: Further methods that cache nothing if no columns were selected.
_CACHING_NOTHING_UNSELECTED = frozenset(
    [
        *("__iter__", "boxplot", "ewm", "expanding", "filter", "get_group", "head", "ndim", "nth", "plot", "rolling"),
        *("sample", "tail"),
    ]
)
#: Methods whose results depend on the keys alone.
_OF_NO_COLUMN = frozenset({"size", "cumcount", "ngroup"})


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
        given = state["_by"] if isinstance(state["_by"], list) else [state["_by"]]
        columns = any(isinstance(one, pd.Series) for one in given)
        if columns and any(isinstance(key.value.dtype, pd.CategoricalDtype) for key in plan.keys):
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
        none = method in _OF_NO_COLUMN or kwargs.get("numeric_only") is True
        return self._probe_columns(() if none else None, method, args, kwargs)

    def _probe_columns(
        self: Any, needed: Collection[int] | None, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """As :meth:`_probe`, of a method that needs of the columns of Python objects only those at some positions (None: all)."""
        state = self.__dict__

        def call() -> Any:
            groups = state["_plan"].stand_in_groupby(state["_selection"], needed, method == "shift")
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
        return make_groupby(cls, frame, grouped_view, plan, self.keys, self.level, key, self)


def make_groupby(
    cls: Any,
    frame: Any,
    grouped_view: View,
    plan: Grouped,
    by: Any,
    level: Any,
    selection: Any = None,
    parent: Any = None,
) -> Any:
    """A group-by of class ``cls`` of a Craton object.

    Parameters
    ----------
    cls
        The class of the group-by.
    frame, grouped_view
        The grouped object, and its view.
    plan
        The keys, the options and the selected columns.
    by, level
        The keys as they were given.
    selection, parent
        The labels of the columns that were selected from the group-by ``parent``.
    """
    gb: Any = object.__new__(cls)
    state = gb.__dict__
    state.update(parameters_of(plan.options))
    state.update(keys=by, level=level, _selection=selection, _parent=parent)
    state.update(_frame=frame, _grouped_view=grouped_view, _plan=plan, obj=frame)
    state["_consolidated"] = not is_lazy(frame) and frame._mgr.is_consolidated()
    state["_by"] = list(map(snapshot, by)) if isinstance(by, list) else snapshot(by)
    return gb
