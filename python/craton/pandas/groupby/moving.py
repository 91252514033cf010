"""``rolling``, ``expanding`` and ``ewm`` of groups: window objects whose statistics extend a plan.

The result has the rows of a group together and in order. So the rows are sorted by the keys, stably, and each statistic is computed over
the whole sorted column, with windows that stay within a group (:mod:`craton.plan.functions.moving`). The row labels are the keys
and the previous labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import polars as pl
from pandas.api.indexers import BaseIndexer
from pandas.core.window.ewm import ExponentialMovingWindowGroupBy
from pandas.core.window.expanding import ExpandingGroupBy
from pandas.core.window.rolling import RollingGroupBy

from craton.engine import collect_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import as_craton, frame_class, series_class
from craton.pandas.core.dtypes import family, kind_of
from craton.pandas.core.execute import has_rows, resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.view import IndexSpec, LevelSource, Value, View
from craton.pandas.groupby.aggregates import has_groups, key_index
from craton.pandas.groupby.keys import Grouped
from craton.pandas.reductions.reductions import arguments
from craton.pandas.window.moving import (
    STATISTICS,
    Options,
    check_accepted,
    check_selection,
    moved,
    numeric_positions,
    pairs_of,
    scalars,
    template_of,
    unit_of,
    window_options,
)
from craton.pandas.window.window_objects import ATTRIBUTES
from craton.plan import build
from craton.plan.expr import Call, Expr, WindowCall, conjunction, options
from craton.plan.operators import AggregateCall, Slice, Sort, SortKey
from craton.refusals import Refusal

_CLASSES: dict[str, Any] = {
    "rolling": RollingGroupBy,
    "expanding": ExpandingGroupBy,
    "ewm": ExponentialMovingWindowGroupBy,
}


class _Grouper:
    """The attribute ``_grouper``, pandas' own groups, which are computed when a method needs them that is not planned."""

    def __get__(self, window: Any, owner: type | None = None) -> Any:
        if window is None or "_groups" not in window.__dict__:
            raise AttributeError("_grouper")
        own = window.__dict__
        own["_grouper"] = own["_groups"]._grouper
        return own["_grouper"]


def make_window(kind: str) -> Callable[..., Any]:
    """The method of a group-by that makes a window object."""

    def windows(self: Any, *args: Any, **kwargs: Any) -> Any:
        state: Grouped = self._current()

        def call() -> Any:
            return getattr(state.stand_in_groupby(self._selection), kind)(*args, **kwargs)

        made = stand_ins.probe(call)
        if isinstance(made.window, BaseIndexer):
            raise Unsupported(Refusal.PARAMETER, "window")
        if kind == "ewm" and made.times is not None:
            raise Unsupported(Refusal.PARAMETER, "times")
        times = _times(state, made)
        if times is not None and made._win_freq_i8 is not None:
            _refuse_unordered(state, times)
        like = self.__dict__["_frame"]
        if state.single:
            made.obj = lazy(series_class(), state.held.take(state.positions), like)
        else:
            positions = [state.held.position(label) for label in made.obj.columns]
            made.obj = lazy(frame_class(), state.held.take(positions), like)
        own = made.__dict__
        for name in ("_on", "_grouper", "_deltas", "_cache"):
            own.pop(name, None)
        own.update(_then=made.obj, _groups=self, _grouped=state, _times=times)
        if made.on is not None:
            own["_then"] = _labelled_by(made.obj, times, made.on)
        if not state.single and self._selection is not None:
            made._selection = None
        return as_craton(made)

    windows.__name__ = kind
    return windows


def _times(state: Grouped, made: Any) -> Value | None:
    """The column of the parameter ``on``, or the row labels for windows of time; None if neither is needed."""
    if made.on is not None:
        if state.single or not isinstance(made.on, str) or made.on not in made.obj.columns:
            raise Unsupported(Refusal.PARAMETER, "on")
        value = state.held.values[state.held.position(made.on)]
    elif getattr(made, "_win_freq_i8", None) is None:
        return None
    elif state.held.index.kind == "labels":
        value = state.held.index.values[0]
    else:
        raise Unsupported(Refusal.PARAMETER, "window")
    if kind_of(value.dtype) not in "mM" or family(value.dtype) != "numpy":
        raise Unsupported(Refusal.PARAMETER, "on" if made.on is not None else "window")
    return value


def _refuse_unordered(state: Grouped, times: Value) -> None:
    """Refuse times that are missing, or neither ascend nor descend in a group: pandas raises an error for them."""
    time, keys = times.clean, tuple(key.value.clean.expr for key in state.keys)
    before = WindowCall("shift", (time.expr,), time.physical, keys, options(periods=1))
    falls, rises = (Call(name, (time.expr, before), pl.Boolean()) for name in ("lt", "gt"))
    missing = Call("is_null", (time.expr,), pl.Boolean())
    named = zip(("missing", "falls", "rises"), (missing, falls, rises), strict=True)
    names = [f"key{i}" for i in range(len(keys))]
    base = build.project(state.held.base, (*zip(names, keys, strict=True), *named))
    found = ("missing", "falls", "rises")
    calls = tuple((name, AggregateCall("any", (base.column(name),), pl.Boolean())) for name in found)
    (frame,) = collect_rows([build.aggregate(base, tuple((name, base.column(name)) for name in names), calls, False)])
    if frame.get_column("missing").any() or (frame.get_column("falls") & frame.get_column("rises")).any():
        raise Unsupported(Refusal.PARAMETER, "window")


def _labelled_by(frame: Any, times: Value | None, name: str) -> Any:
    """A planned frame with times as its row labels."""
    assert times is not None
    return lazy(type(frame), replace(view(frame), index=IndexSpec("labels", (times,), (name,))))


def select(window: Any, key: Any) -> Any:
    """``window[key]``: the same windows of one or several columns. With ``on``, pandas makes the times the row labels."""
    state: Grouped | None = window.__dict__.get("_grouped")
    if state is None:  # pandas makes another window object, with other options
        raise Unsupported(Refusal.PARAMETER, "window")
    check_selection(window, key)
    made: Any = object.__new__(type(window))
    own = made.__dict__
    own.update({name: item for name, item in window.__dict__.items() if name not in ("_cache", "_on")})
    own["_selection"] = list(key) if isinstance(key, list) else key
    own["_as_index"] = True  # as in pandas, which does not pass the option on
    if window.on is not None:
        index = IndexSpec("labels", (own["_times"],), (window.on,))
        own["_grouped"] = replace(state, held=replace(state.held, index=index))
        own["obj"] = own["_then"]
    return made


class _Prepared:
    """The sorted rows of a window object's groups, for one call.

    Parameters
    ----------
    window
        The window object.
    kind
        The function of the plan.
    """

    def __init__(self, window: Any, kind: str, numeric_only: bool = False) -> None:
        state: Grouped | None = window.__dict__.get("_grouped")
        if state is None:
            raise Unsupported(Refusal.PARAMETER, "window")
        self.kind, self.state, self.as_index = kind, state, bool(window._as_index)
        self.options = window_options(window, kind)
        if window.on is not None and window._selection is None:
            raise Unsupported(Refusal.PARAMETER, "on")
        times: Value | None = window.__dict__["_times"] if self.of_time(window) else None
        if times is not None:
            self.options["unit"] = unit_of(times)
        held = state.held
        if state.single:
            held = held.take(state.positions)
        else:
            held = held.take([held.position(label) for label in window.obj.columns])
            if window._selection is not None:
                chosen = window._selection if isinstance(window._selection, list) else [window._selection]
                held = held.take([held.position(label) for label in chosen])
        self.single = state.single or not (window._selection is None or isinstance(window._selection, list))
        held = resolved(held, lambda value: kind_of(value.dtype) == "b")
        if numeric_only:
            if self.single:
                raise Unsupported(Refusal.PARAMETER, "numeric_only")
            held = resolved(held)
            held = held.take(numeric_positions(held))
        if not held.values:
            raise Unsupported(Refusal.NO_COLUMNS)
        self.held, self.keys, moments = _sorted(state, held, () if times is None else (times,))
        self.roles: dict[str, Expr] = {} if times is None else {"times": moments[0].expr}
        self.roles |= {f"group{i}": key.clean.expr for i, key in enumerate(self.keys)}

    @staticmethod
    def of_time(window: Any) -> bool:
        """Whether the windows are of time."""
        return getattr(window, "_win_freq_i8", None) is not None

    def statistic(self, name: str, parameters: Options, value: Value) -> Value:
        """A statistic of one column."""
        check_accepted(self.kind, self.options, name, parameters)
        return moved(self.kind, self.options, name, parameters, value, self.roles)

    def result(self, values: list[Value], labels: pd.Index) -> Any:
        """The result as a lazy frame, or as a series if there is one column."""
        if not self.as_index:
            return self._with_key_columns(values, labels)
        held = replace(self.held, index=self._index())
        if self.single:
            return lazy(series_class(), held.series(values[0], labels[0]))
        return lazy(frame_class(), held.with_values(values, labels))

    def _with_key_columns(self, values: list[Value], labels: pd.Index) -> Any:
        """The result of ``as_index=False``: a frame in which the keys are the first columns, with the previous row labels."""
        names = [key.name for key in self.state.keys]
        if not all(isinstance(name, str) for name in names) or len({*names, *labels}) < len(names) + len(labels):
            raise Unsupported(Refusal.PARAMETER, "as_index")
        if self.held.index.kind == "range" and _descends(self.held):
            raise Unsupported(
                Refusal.PARAMETER, "as_index"
            )  # evenly spaced labels are a RangeIndex only if they ascend
        every = pd.Index([*names, *labels], name=labels.name)
        if every.dtype != (labels if len(labels) and not self.single else every).dtype:
            raise Unsupported(Refusal.LABELS_NOT_STRINGS)
        return lazy(frame_class(), self.held.with_values([*self.keys, *values], every))

    def _index(self) -> IndexSpec:
        """The keys and the previous labels, as levels of sorted labels."""
        base, index, chosen = self.held.base, self.held.index, self.state.options
        names = (*(key.name for key in self.state.keys), *index.names)
        if len(self.keys) == 1:
            key = self.keys[0]
            sources = (LevelSource(base, key.clean.expr, chosen.sort, not chosen.dropna),)
        else:
            sources = key_index(self.state, self.keys, base).sources  # type: ignore[assignment]
        own = index.sources
        if index.kind != "multi":
            own = (LevelSource(base, index.values[0].clean.expr, True, False, ranged=index.kind == "range"),)
        return IndexSpec("multi", (*self.keys, *index.values), names, sources=(*sources, *own))


def _sorted(state: Grouped, held: View, further: Sequence[Value]) -> tuple[View, list[Value], list[Value]]:
    """The rows in groups, sorted by group; and the keys and further columns over them."""
    held.index.refuse_frequency()
    if held.index.levels:
        raise Unsupported(Refusal.GROUP_LABELS_OF_SEVERAL_LEVELS)
    if held.index.kind == "multi":
        held = held.with_levels()
    sort, dropna = state.options.sort, state.options.dropna
    keys = [key.value for key in state.keys]
    held = held.numbered()
    for value in (*keys, *held.index.values):
        if family(value.dtype) not in ("numpy", "str", "category", "masked", "arrow") or not value.definite:
            raise Unsupported(Refusal.OPERATION, f"a moving window over groups with keys or labels of {value.dtype}")
    if any(family(value.dtype) == "category" for value in held.index.values):
        raise Unsupported(Refusal.OPERATION, "a moving window over groups with labels that are categories")
    if not dropna and any(key.clean.nulls for key in keys):
        raise Unsupported(Refusal.PARAMETER, "dropna")
    count = len(held.values)
    names = [*held.labels, *(key.name for key in state.keys), *(None for _ in further)]
    every = held.with_values([*held.values, *keys, *further], pd.Index(names, dtype=object, tupleize_cols=False))
    missing = [Call("is_null", (key.clean.expr,), pl.Boolean()) for key in keys if key.clean.nulls]
    if missing:
        if not has_groups(state) and has_rows(held):
            raise Unsupported(Refusal.GROUP_NONE)
        every = every.filtered(conjunction([Call("not", (one,), pl.Boolean()) for one in missing]))
    last = count + len(keys)
    by: list[Expr] = [key.clean.expr for key in every.values[count:last]]
    if not sort:
        row = build.row_number()
        by = [WindowCall("min", (row,), row.dtype, tuple(by))]
    every = every.with_rows_from(
        lambda base, exprs: Sort(base, tuple(SortKey(expr) for expr in exprs)), by, rows=None if missing else held.rows
    )
    sorted_values = every.values
    held = every.with_values(sorted_values[:count], held.labels)
    return held, list(sorted_values[count:last]), list(sorted_values[last:])


def _descends(held: View) -> bool:
    """Whether the second row label is less than the first."""
    label = held.index.values[0].expr
    first = Slice(build.project(held.base, (("label", label),)), 0, 2)
    labels = collect_rows([first], ordered=True)[0].get_column("label").to_list()
    return len(labels) == 2 and labels[1] < labels[0]


def _statistic(kind: str, name: str) -> Callable[..., Any]:
    def statistic(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(_CLASSES[kind], name, args, kwargs)
        numeric_only = named.pop("numeric_only", False)
        if numeric_only not in (True, False):
            raise Unsupported(Refusal.PARAMETER, "numeric_only")
        parameters = scalars(named)
        if "engine" in named or "engine_kwargs" in named:
            raise Unsupported(Refusal.PARAMETER, "engine")
        prepared = _Prepared(self, kind, numeric_only)
        if name == "sem" and not prepared.as_index:
            raise Unsupported(
                Refusal.PARAMETER, "as_index"
            )  # pandas divides two results, of which the keys are columns
        values = [prepared.statistic(name, parameters, value) for value in prepared.held.values]
        return prepared.result(values, prepared.held.labels)

    statistic.__name__ = name
    return statistic


def _aggregate(kind: str, natives: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    def aggregate(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(func, str) and func in natives:
            return natives[func](self, *args, **kwargs)
        if args:
            raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
        prepared = _Prepared(self, kind)
        if not prepared.as_index:
            raise Unsupported(Refusal.PARAMETER, "as_index")
        held = prepared.held
        pairs = pairs_of(func, kwargs, held.labels, prepared.single, STATISTICS[kind])
        labels = template_of(kind, held.labels, prepared.single, func, kwargs)
        if len(labels) != len(pairs):
            raise Unsupported(Refusal.RESULT_SHAPE)
        values = [prepared.statistic(name, {}, held.values[i]) for i, name in pairs]
        prepared.single = False
        return prepared.result(values, labels)

    return aggregate


def _natives(kind: str) -> dict[str, Callable[..., Any]]:
    found = {name: _statistic(kind, name) for name in STATISTICS[kind] if name not in ("corr", "cov")}
    found["agg"] = found["aggregate"] = _aggregate(kind, dict(found))
    return {**found, "__getitem__": select}


#: The native methods of each of pandas' window classes of groups.
NATIVE: dict[Any, dict[str, Callable[..., Any]]] = {_CLASSES[kind]: _natives(kind) for kind in _CLASSES}
#: Attributes of the subclasses, besides their methods.
GROUPED_ATTRIBUTES: dict[str, Any] = {**ATTRIBUTES, "_grouper": _Grouper()}
