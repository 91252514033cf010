"""The statistics of window objects (:mod:`craton.pandas.window.window_objects`), which extend a plan.

They are pandas' own routines, which a plan calls for whole columns (:mod:`craton.plan.functions.moving`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.api.indexers import BaseIndexer
from pandas.api.types import is_hashable, is_scalar
from pandas.core.window.ewm import ExponentialMovingWindow
from pandas.core.window.expanding import Expanding
from pandas.core.window.rolling import Rolling, Window

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.align import aligned
from craton.pandas.core.counterparts import frame_class, series_class
from craton.pandas.core.dtypes import FLOAT64, family, kind_of
from craton.pandas.core.execute import resolved
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View, is_missing_label
from craton.pandas.reductions.reductions import arguments
from craton.pandas.window.applied import apply_function, has_functions
from craton.plan.expr import Call, Expr, WindowCall, options
from craton.refusals import Refusal

_OF_TWO = ("corr", "cov")
_EACH = ("count", "mean", "sum", "std", "var", "min", "max", "median", "skew", "kurt", "quantile", "sem")
_STATISTICS = (*_EACH, "first", "last", "nunique", "rank", *_OF_TWO)
#: The statistics that a plan computes, by the name of the plan's function.
STATISTICS: dict[str, tuple[str, ...]] = {
    "rolling": _STATISTICS,
    "expanding": _STATISTICS,
    "ewm": ("mean", "sum", "std", "var", *_OF_TWO),
}
CLASSES: dict[str, Any] = {"rolling": Rolling, "expanding": Expanding, "ewm": ExponentialMovingWindow}
Options = dict[str, Any]


# -- columns of window objects ---------------------------------------------------------------------------------------


def check_selection(window: Any, key: Any) -> None:
    """Check the columns of ``window[key]``.

    Raises
    ------
    Unsupported
        If pandas raises an error, or a label is not unique.
    """
    own = window.__dict__
    if own.get("_selection") is not None or not isinstance(own["obj"], pd.DataFrame):
        raise Unsupported(Refusal.COLUMN_UNKNOWN)
    columns = list(own["obj"].columns)
    for label in key if isinstance(key, list) else [key]:
        if not is_scalar(label) or not is_hashable(label) or is_missing_label(label) or isinstance(label, bool):
            raise Unsupported(Refusal.COLUMN_UNKNOWN)
        if columns.count(label) != 1:
            raise Unsupported(Refusal.COLUMN_UNKNOWN)


def select(window: Any, key: Any) -> Any:
    """``window[key]``: the same windows of one or several columns. As in pandas, the times are read again."""
    check_selection(window, key)
    kind = next(kind for kind, theirs in CLASSES.items() if isinstance(window, theirs))
    made = getattr(window.obj, kind)(**{name: getattr(window, name) for name in window._attributes})
    made._selection = list(key) if isinstance(key, list) else key
    return made


# -- arguments --------------------------------------------------------------------------------------------------------


def window_options(window: Any, kind: str) -> Options:
    """The arguments of pandas' ``rolling``, ``expanding`` or ``ewm`` that a window object was made with, as a plan holds them.

    Raises
    ------
    Unsupported
        If a plan can't compute such windows.
    """
    if window.method != "single":
        raise Unsupported(Refusal.PARAMETER, "method")
    if kind == "ewm":
        if window.times is not None:
            raise Unsupported(Refusal.PARAMETER, "times")
        names = ("com", "span", "halflife", "alpha", "min_periods", "adjust", "ignore_na")
        found = {name: getattr(window, name) for name in names}
        if not isinstance(found["adjust"], bool) or not isinstance(found["ignore_na"], bool):
            raise Unsupported(Refusal.PARAMETERS, "adjust and ignore_na")
    else:
        found = {"min_periods": window.min_periods}
    if kind == "rolling":
        if window.step is not None:
            raise Unsupported(Refusal.PARAMETER, "step")
        if isinstance(window.window, BaseIndexer):
            raise Unsupported(Refusal.PARAMETER, "window")
        if window._win_freq_i8 is None:
            found["window"] = int(window.window)
        else:
            found["window"] = f"{pd.tseries.frequencies.to_offset(window.window).nanos}ns"
        found["closed"] = window.closed
        found["center"] = bool(window.center)
    return {name: plain(item, name) for name, item in found.items() if item is not None}


def plain(item: Any, name: str) -> Any:
    """A scalar argument as a Python object.

    Raises
    ------
    Unsupported
        If it is not a number, a boolean or a string.
    """
    if isinstance(item, np.generic):
        item = item.item()
    if not isinstance(item, (bool, int, float, str)):
        raise Unsupported(Refusal.PARAMETER, name)
    return item


def check_accepted(kind: str, window: Options, name: str, parameters: Options) -> None:
    """Check that pandas accepts the arguments of a statistic, by a call on a stand-in.

    Raises
    ------
    Unsupported
        If pandas raises or warns.
    """
    given = {key: item for key, item in window.items() if key != "unit"}

    def call() -> Any:
        index = pd.date_range("2000", periods=2, freq="D") if "unit" in window else None
        column = pd.Series([1.0, 2.0], index=index)
        method = getattr(getattr(column, kind)(**given), name)
        return method(*[column] * (name in _OF_TWO), **parameters)

    stand_ins.probe_cached("moving", (kind, window, name, parameters), call)


# -- columns ----------------------------------------------------------------------------------------------------------


def number(value: Value) -> Expr:
    """A column of numbers as 64-bit floats, in which missing values are null or NaN.

    Raises
    ------
    Unsupported
        If it is not a column of numbers or booleans.
    """
    if not value.definite and kind_of(value.dtype) == "b":
        raise Unsupported(Refusal.DTYPE_OF_DATA)
    if kind_of(value.dtype) not in "biuf" or family(value.dtype) not in ("numpy", "masked", "arrow"):
        raise Unsupported(Refusal.OPERATION, f"a moving window of {value.dtype}")
    return value.expr if value.physical == pl.Float64() else Call("cast", (value.expr,), pl.Float64())


def _present(value: Value) -> Expr:
    """1.0 for each value that is not missing, and 0.0 for each that is."""
    if family(value.dtype) == "object":
        raise Unsupported(Refusal.OPERATION, f"a moving window of {value.dtype}")
    missing = Call("is_null", (value.clean.expr,), pl.Boolean())
    return Call("cast", (Call("not", (missing,), pl.Boolean()),), pl.Float64())


def moved(
    kind: str, window: Options, name: str, parameters: Options, value: Value, roles: Mapping[str, Expr] | None = None
) -> Value:
    """A statistic of one column.

    Parameters
    ----------
    kind, window
        The function of the plan, and the arguments of the windows.
    name, parameters
        The statistic, and its arguments.
    value
        The column.
    roles
        The further columns by role: ``other``, ``times``, ``groups``.
    """
    if name == "sem" and family(value.dtype) == "arrow" and kind_of(value.dtype) == "f":
        raise Unsupported(Refusal.OPERATION, f"sem of {value.dtype}")
    arg, method = (_present(value), "sum") if name == "count" else (number(value), name)
    given = dict(roles or {})
    choice: dict[str, Any] = {"statistic": method, "window": options(**window)}
    if parameters:
        choice["parameters"] = options(**parameters)
    if given:
        choice["roles"] = tuple(given)
    call = WindowCall(kind, (arg, *given.values()), pl.Float64(), (), options(**choice))
    return Value(call, FLOAT64, nulls=False, nans=True)


def numeric_positions(held: View) -> list[int]:
    """The positions of the columns that pandas' windows select with ``numeric_only``."""
    empty = stand_ins.columns([value.dtype for value in held.values])
    return list(empty.select_dtypes(include=["number"], exclude=["timedelta"]).columns)


# -- times ------------------------------------------------------------------------------------------------------------


def _on_column(held: View, label: Any) -> int:
    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex) or not is_scalar(label):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    return held.position(label)


def _time_of(window: Any, held: View) -> tuple[View, Value]:
    """The times of the windows beside the columns, as they were when the window object was made."""
    then = window.__dict__.get("_then")
    obj = window.obj if then is None else then
    found = view(obj)
    if window.on is None:
        if found.index.kind != "labels":
            raise Unsupported(Refusal.PARAMETER, f"window={window.window!r}")
        value = found.index.values[0]
    else:
        value = found.values[_on_column(found, window.on)]
    if kind_of(value.dtype) not in "mM" or family(value.dtype) != "numpy":
        raise Unsupported(Refusal.PARAMETER, f"window={window.window!r}")
    if then is None:  # the frame is in memory, and may have been changed
        with plain_pandas():
            now = obj.index if window.on is None else pd.Index(obj[window.on])
        if not (now is window._on or (now.dtype == window._on.dtype and now.equals(window._on))):
            raise Unsupported(Refusal.PARAMETER, f"window={window.window!r}")
    held, beside = aligned(held, found.series(value, None))
    return held, beside.values[0]


def unit_of(value: Value) -> str:
    """The unit of times or durations."""
    return str(getattr(value.dtype, "unit", None) or np.datetime_data(value.dtype)[0])


# -- statistics -------------------------------------------------------------------------------------------------------


class Prepared:
    """The columns of a window object, and the options of its windows, for one call.

    Parameters
    ----------
    window
        The window object.
    kind
        The function of the plan.
    """

    def __init__(self, window: Any, kind: str) -> None:
        self.kind = kind
        self.options = window_options(window, kind)
        selected = window._selected_obj
        self.single = isinstance(selected, pd.Series)
        held, self.roles = view(selected), {}
        #: The column of times that pandas inserts into the result, and its position among the columns.
        self.inserted: tuple[int, Value, Any] | None = None
        time: Value | None = None
        if kind == "rolling" and window._win_freq_i8 is not None:
            held, time = _time_of(window, held)
            self.roles["times"] = time.expr
            self.options["unit"] = unit_of(time)
        on = getattr(window, "on", None)
        if on is not None and not self.single:
            held = self._without_on(window, held, time)
        self.held = held

    def _without_on(self, window: Any, held: View, time: Value | None) -> View:
        """The columns without the one of the parameter ``on``, which pandas inserts into the result unless it equals the row labels."""
        if time is None:
            raise Unsupported(Refusal.PARAMETER, "on")
        if not held.labels.is_unique:
            raise Unsupported(Refusal.DUPLICATE_LABELS)
        place = _on_column(held, window.on) if window.on in held.labels else None
        if not window._on.equals(window.obj.index) and window.on not in held.index.names:
            self.inserted = (len(held.values) if place is None else place, time, window.on)
        if place is None:
            return held
        return held.take([i for i in range(len(held.values)) if i != place])

    def numeric(self, wanted: Any) -> None:
        """Keep the numeric columns only."""
        if wanted is False:
            return
        if wanted is not True or self.single:
            raise Unsupported(Refusal.PARAMETER, "numeric_only")
        self.held = resolved(self.held)
        kept = numeric_positions(self.held)
        if self.inserted is not None:
            place, time, label = self.inserted
            self.inserted = (sum(i < place for i in kept), time, label)
        self.held = self.held.take(kept)

    def statistic(self, name: str, parameters: Options, value: Value) -> Value:
        """A statistic of one column."""
        check_accepted(self.kind, self.options, name, parameters)
        return moved(self.kind, self.options, name, parameters, value, self.roles)

    def result(self, values: Sequence[Value], labels: pd.Index) -> Any:
        """The result as a lazy frame, or as a series if there is one column."""
        if self.single:
            return lazy(series_class(), self.held.series(values[0], labels[0]))
        if self.inserted is not None:
            place, time, label = self.inserted
            values = [*values[:place], time, *values[place:]]
            labels = labels.insert(place, label)
        return lazy(frame_class(), self.held.with_values(values, labels))


def scalars(named: Options) -> Options:
    """The arguments of a statistic as a plan holds them."""
    return {name: plain(item, name) for name, item in named.items()}


def _statistic(kind: str, name: str) -> Callable[..., Any]:
    def statistic(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(CLASSES[kind], name, args, kwargs)
        numeric_only = named.pop("numeric_only", False)
        parameters = scalars(named)
        if "engine" in named or "engine_kwargs" in named:
            raise Unsupported(Refusal.PARAMETER, "engine")
        if getattr(self, "times", None) is not None:
            return apply_function(self, lambda window: getattr(CLASSES[kind], name)(window, *args, **kwargs))
        prepared = Prepared(self, kind)
        prepared.numeric(numeric_only)
        held = prepared.held = resolved(prepared.held, lambda value: kind_of(value.dtype) == "b")
        if not held.values:
            raise Unsupported(Refusal.NO_COLUMNS)
        values = [prepared.statistic(name, parameters, value) for value in held.values]
        return prepared.result(values, held.labels)

    statistic.__name__ = name
    return statistic


def _of_two_columns(kind: str, name: str) -> Callable[..., Any]:
    def of_two_columns(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(CLASSES[kind], name, args, kwargs)
        other = named.pop("other", None)
        named.pop("pairwise", None)
        prepared = Prepared(self, kind)
        if not prepared.single or not isinstance(other, pd.Series) or named.pop("numeric_only", False):
            raise Unsupported(Refusal.PARAMETER, "other")
        held, theirs = aligned(prepared.held, view(other))
        if held.index.names != theirs.index.names or (
            held.base != prepared.held.base and (prepared.roles or held.index.has_frequency)
        ):
            raise Unsupported(Refusal.ROW_LABELS_DIFFER)
        prepared.held = held
        for value in (held.values[0], theirs.values[0]):
            if family(value.dtype) != "numpy" or kind_of(value.dtype) not in "iuf":
                raise Unsupported(Refusal.OPERATION, f"{name} of {value.dtype}")
        names = [pd.Series([1.0], name=label) for label in (held.labels[0], theirs.labels[0])]
        prepared.roles = {"other": number(theirs.values[0]), **prepared.roles}
        value = prepared.statistic(name, scalars(named), held.values[0])
        return prepared.result([value], pd.Index([(names[0] + names[1]).name], dtype=object, tupleize_cols=False))

    of_two_columns.__name__ = name
    return of_two_columns


# -- agg --------------------------------------------------------------------------------------------------------------


def pairs_of(func: Any, named: Options, labels: pd.Index, single: bool, known: Sequence[str]) -> list[tuple[int, str]]:
    """The columns of the result of ``agg``: for each, the position of the column that it is computed from, and the statistic.

    Raises
    ------
    Unsupported
        If the functions are not names of statistics, or the columns are not unique.
    """
    if not labels.is_unique or isinstance(labels, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)

    def names(given: Any) -> list[str]:
        found = given if isinstance(given, list) else [given]
        if not found or not all(isinstance(one, str) and one in known and one not in _OF_TWO for one in found):
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
        return found

    def place(label: Any) -> int:
        found = [i for i, one in enumerate(labels) if is_scalar(one) and is_scalar(label) and one == label]
        if len(found) != 1:
            raise Unsupported(Refusal.COLUMN_UNKNOWN)
        return found[0]

    if func is None:
        if single or not named or not all(isinstance(one, tuple) and len(one) == 2 for one in named.values()):
            raise Unsupported(Refusal.AGGREGATION_FUNCTION)
        return [(place(label), *names(name)) for label, name in named.values()]  # type: ignore[misc]
    if named:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    if isinstance(func, list):
        return [(i, name) for i in range(len(labels)) for name in names(func)]
    if isinstance(func, dict) and not single:
        return [(place(label), name) for label, given in func.items() for name in names(given)]
    raise Unsupported(Refusal.AGGREGATION_FUNCTION)


def template_of(kind: str, labels: pd.Index, single: bool, func: Any, named: Options) -> pd.Index:
    """The column labels of the result of ``agg``, as pandas makes them for a stand-in."""
    empty: Any = pd.DataFrame(np.ones((2, len(labels))), columns=labels)
    if single:
        empty = empty.iloc[:, 0]
    given: dict[str, Options] = {"rolling": {"window": 1}, "expanding": {}, "ewm": {"com": 1.0}}
    found = stand_ins.probe(lambda: getattr(empty, kind)(**given[kind]).agg(func, **named))
    if not isinstance(found, pd.DataFrame):
        raise Unsupported(Refusal.RESULT_SHAPE)
    return found.columns


def _aggregate(kind: str, natives: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    def aggregate(self: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(func, str) and func in natives and func not in _OF_TWO:
            return natives[func](self, *args, **kwargs)
        if has_functions(func, {} if func is not None else kwargs):
            window_options(self, kind)  # refuses windows that do not belong to one row each
            return apply_function(self, lambda window: CLASSES[kind].agg(window, func, *args, **kwargs))
        if args:
            raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
        prepared = Prepared(self, kind)
        if prepared.inserted is not None or getattr(self, "on", None) is not None:
            raise Unsupported(Refusal.PARAMETER, "on")
        held = prepared.held = resolved(prepared.held, lambda value: kind_of(value.dtype) == "b")
        pairs = pairs_of(func, kwargs, held.labels, prepared.single, STATISTICS[kind])
        labels = template_of(kind, held.labels, prepared.single, func, kwargs)
        if len(labels) != len(pairs):
            raise Unsupported(Refusal.RESULT_SHAPE)
        values = [prepared.statistic(name, {}, held.values[i]) for i, name in pairs]
        prepared.single = False
        return prepared.result(values, labels)

    return aggregate


def _apply(kind: str) -> Callable[..., Any]:
    def apply(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        window_options(self, kind)
        return apply_function(self, lambda window: CLASSES[kind].apply(window, func, *args, **kwargs))

    return apply


def _natives(kind: str) -> dict[str, Callable[..., Any]]:
    found = {name: (_of_two_columns if name in _OF_TWO else _statistic)(kind, name) for name in STATISTICS[kind]}
    found["agg"] = found["aggregate"] = _aggregate(kind, dict(found))
    if kind != "ewm":
        found["apply"] = _apply(kind)
    return {**found, "__getitem__": select}


def _weighted(name: str) -> Callable[..., Any]:
    """A statistic of windows with a ``win_type``, whose weights SciPy computes."""

    def weighted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.step is not None:
            raise Unsupported(Refusal.PARAMETER, "step")
        return apply_function(self, lambda window: getattr(Window, name)(window, *args, **kwargs))

    return weighted


#: The native methods of each of pandas' window classes.
NATIVE: dict[Any, dict[str, Callable[..., Any]]] = {
    **{CLASSES[kind]: _natives(kind) for kind in CLASSES},
    Window: {name: _weighted(name) for name in ("mean", "sum", "std", "var")},
}
