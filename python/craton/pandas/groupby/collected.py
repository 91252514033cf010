"""Lists, distinct values and largest values of groups, and functions that plans do not have; results are made when the call is made.

pandas makes a Series of each group and calls the function with it. Here a plan computes the keys and the columns that are
aggregated. The rows are sorted by group once, the values are converted to Python objects once, and each result is a slice of them.
pandas' own code finds the groups, and makes the result of the slices.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
from pandas._libs.algos import kth_smallest
from pandas._libs.hashtable import Float64HashTable, Int64HashTable
from pandas.core.arrays import ArrowExtensionArray, BaseMaskedArray, DatetimeArray, TimedeltaArray
from pandas.core.groupby.ops import extract_result

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.routing import plain_pandas
from craton.pandas.groupby import lambdas
from craton.pandas.groupby.agg import column_aggregations
from craton.pandas.groupby.aggregates import ColumnAggregation
from craton.pandas.groupby.functions import NAMES, UndecidedDtype
from craton.pandas.groupby.keys import Grouped
from craton.refusals import Refusal

_TABLES: dict[Any, Any] = {np.dtype("int64"): Int64HashTable, np.dtype("float64"): Float64HashTable}
"""pandas' hash tables, with which ``pd.unique`` finds the distinct numbers of these dtypes."""

_LARGEST = (pd.Series.nlargest, pd.Series.nsmallest)
_KEEPS = ("first", "last", "all")

__all__ = ["aggregated", "applied", "largest", "planned", "transformed", "unique"]

_KINDS: tuple[Any, ...] = (list, set, tuple)


class _Collector:
    """``list``, ``set``, ``tuple`` or a user's function as a function of groups, which can be recognised."""

    def __init__(self, kind: Callable[..., Any], name: str) -> None:
        self.kind = kind
        self.__name__ = name

    def __call__(self, values: Any) -> Any:
        return self.kind(values)


def _canonical(kind: Any) -> Any:
    """The code of a lambda that calls the type."""
    return {list: lambda s: list(s), set: lambda s: set(s), tuple: lambda s: tuple(s)}[kind].__code__


_CODES = {kind: _canonical(kind) for kind in _KINDS}


#: The flags of functions with ``*args`` and ``**kwargs``, generators and coroutines.
_FLAGS = 0x3AC


def _collector(func: Any) -> _Collector | None:
    """The collector that a function is, or ``None``."""
    for kind in _KINDS:
        if func is kind:
            return _Collector(kind, kind.__name__)
        if type(func) is FunctionType and _calls(func, kind):
            return _Collector(kind, func.__name__)
    return _Collector(func, func.__name__) if _is_function(func) else None


def _is_function(func: Any) -> bool:
    """Whether this is a function with a name, as pandas shows it, that is called with the values of a group."""
    return (
        callable(func) and not isinstance(func, (type, np.ufunc)) and isinstance(getattr(func, "__name__", None), str)
    )


def _calls(func: FunctionType, kind: Any) -> bool:
    """Whether a function is ``lambda values: list(values)``."""
    code, like = func.__code__, _CODES[kind]
    same = code.co_code == like.co_code and code.co_names == like.co_names and code.co_consts == like.co_consts
    plain = (
        func.__defaults__ is None
        and func.__kwdefaults__ is None
        and code.co_argcount == 1
        and not (code.co_flags ^ like.co_flags) & _FLAGS
    )
    return same and plain and kind.__name__ not in func.__globals__ and getattr(builtins, kind.__name__) is kind


def collects(func: Any, named: dict[str, Any], functions: bool = False) -> bool:
    """Whether an argument of ``agg`` has functions that collect values, or ``"unique"``, and else only names of aggregations.

    Parameters
    ----------
    functions
        Whether it may have other functions of the user.
    """
    if func is not None and named:
        return False
    every = list(_functions(named if func is None else func))
    kinds = [one.kind for one in map(_collector, every) if one is not None]
    names = [one for one in every if isinstance(one, str) and (one == "unique" or one in NAMES)]
    if len(kinds) + len(names) < len(every) or not (kinds or "unique" in names):
        return False
    return functions or all(kind in _KINDS for kind in kinds)


def _functions(func: Any) -> Any:
    if isinstance(func, dict):
        func = list(func.values())
    if not isinstance(func, list):
        func = [func]
    for one in func:
        if isinstance(one, pd.NamedAgg):
            yield one.aggfunc if not one.args and not one.kwargs else None
        elif isinstance(one, tuple):
            yield one[1] if len(one) == 2 else None
        elif isinstance(one, list):
            yield from one
        else:
            yield one


def _replaced(func: Any) -> Any:
    """An argument of ``agg`` with collectors in place of types."""
    if isinstance(func, dict):
        return {label: _replaced(one) for label, one in func.items()}
    if isinstance(func, list):
        return [_replaced(one) for one in func]
    if isinstance(func, pd.NamedAgg):
        return pd.NamedAgg(func.column, _replaced(func.aggfunc))
    if isinstance(func, tuple):
        return tuple(_replaced(one) for one in func)
    return _collector(func) or func


def planned(state: Grouped, func: Any, named: dict[str, Any]) -> list[ColumnAggregation] | None:
    """The aggregations of a plan for the arguments of ``agg``; ``None`` if functions collect values, or must be called for each group."""
    if collects(func, named):
        return None
    try:
        return column_aggregations(state, func, named)
    except UndecidedDtype:
        raise
    except Unsupported:
        if not collects(func, named, functions=True):
            raise
        return None


def aggregated(self: Any, func: Any, named: dict[str, Any]) -> Any:
    """``agg`` of arguments for which :func:`collects` is true."""
    columns = _aggregated_columns(func, named)
    labels = self._current().labels
    if self.__dict__["_parent"] is None and 0 < len(columns) < len(labels) and all(map(labels.__contains__, columns)):
        self = self[columns]  # so that only these are computed
    return _called(
        self,
        "agg",
        *(() if func is None else (_replaced(func),)),
        **{name: _replaced(one) for name, one in named.items()},
    )


def _aggregated_columns(func: Any, named: dict[str, Any]) -> list[str]:
    """The columns that the arguments of ``agg`` name; empty if they name none."""
    if func is None:
        given = [one[0] if isinstance(one, tuple) else None for one in named.values()]
    else:
        given = list(func) if isinstance(func, dict) else []
    labels = [label for label in given if isinstance(label, str)]
    return list(dict.fromkeys(labels)) if len(labels) == len(given) else []


def applied(self: Any, func: Any) -> Any:
    """``apply`` of a function that collects the values of a column; ``None`` for other functions."""
    found = _collector(func)
    if found is None or found.kind not in _KINDS or not self._plan.single:
        return None
    return _called(self, "apply", found)


def transformed(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """``transform`` by a function, as a plan if it can be traced; otherwise it is called for each group of a column."""
    try:
        return self._result(*lambdas.transformed(self._current(), self._probe, func, args, kwargs))
    except UndecidedDtype:
        raise
    except Unsupported:
        if args or kwargs or type(func) is not FunctionType or not self._plan.single:
            raise
    results: list[Any] = []

    def prepare(grouper: Any, label: str) -> None:
        from craton.pandas.udf.groups import call_for_groups  # it imports the workers, which few programs need

        iterate = grouper.get_iterator

        def get_iterator(data: Any) -> Any:
            results[:] = reversed(call_for_groups(grouper, data, label, func, named=True)) if grouper.ngroups else ()
            return iterate(data)

        grouper.get_iterator = get_iterator

    def result_of_group(_: Any) -> Any:
        return results.pop()

    return _called(self, "transform", result_of_group, prepare=prepare)


def unique(self: Any) -> Any:
    """``unique``."""
    return _called(self, "unique")


def largest(name: str) -> Callable[..., Any]:
    """``nlargest`` or ``nsmallest``."""

    def of_groups(self: Any, n: Any = 5, keep: Any = "first") -> Any:
        return _called(self, name, n, keep)

    return of_groups


def _called(self: Any, method: str, *args: Any, prepare: Any = None, **kwargs: Any) -> Any:
    state = self._current()
    if state.completes:
        raise Unsupported(Refusal.GROUP_WITHOUT_ROWS)
    with plain_pandas():
        groups = self._pandas_groupby_of_selection()
        groups = copy.copy(self._pandas_groupby() if groups is None else groups)
        groups._grouper = copy.copy(groups._grouper)
        (prepare or _Collecting)(groups._grouper, f"{type(self).__name__}.{method}")
        return as_craton(getattr(groups, method)(*args, **kwargs))


class _Collecting:
    """Replaces the methods of pandas' grouper that call a function for each group."""

    def __init__(self, grouper: Any, label: str) -> None:
        self._grouper, self._label = grouper, label
        self._sorted: tuple[Any, Any] | None = None
        self._pure, self._groupwise = grouper._aggregate_series_pure_python, grouper.apply_groupwise
        grouper._aggregate_series_pure_python = self.aggregate
        grouper.apply_groupwise = self.apply

    def aggregate(self, obj: Any, func: Any) -> Any:
        results = self._results(obj, func)
        if results is None:
            return self._pure(obj, func)
        results = list(map(extract_result, results))
        found = np.empty(len(results), dtype=object)
        for i, one in enumerate(results):
            found[i] = one
        return found

    def apply(self, func: Any, data: Any) -> Any:
        results = self._results(data, func)
        return self._groupwise(func, data) if not results else (results, True)

    def _results(self, obj: Any, func: Any) -> list[Any] | None:
        """The results for all groups; ``None`` if the function or the column is another one."""
        inner = [func, *(cell.cell_contents for cell in getattr(func, "__closure__", None) or ())]
        if not isinstance(obj, pd.Series):
            return None
        for one in inner:
            known = (
                one.func if isinstance(one, partial) and not one.args and not one.keywords else one
            )  # pandas' names of lambdas
            if isinstance(known, _Collector):
                return self._collected(obj, known.kind) if known.kind in _KINDS else self._called(obj, known.kind)
            if known is type(obj).unique:
                return self._unique(obj)
        if isinstance(func, partial) and func.func in _LARGEST:
            return self._largest(obj, func)
        return None

    def _order(self) -> tuple[Any, Any]:
        """The positions of the rows, sorted by group, and the end of each group."""
        if self._sorted is None:
            ids = self._grouper.ids
            sizes = np.bincount(ids[ids >= 0], minlength=self._grouper.ngroups)
            self._sorted = self._grouper.result_ilocs, np.cumsum(sizes)
        return self._sorted

    def _called(self, obj: Any, function: Any) -> list[Any] | None:
        """The results of a user's function."""
        from craton.pandas.udf.groups import call_for_groups  # it imports the workers, which few programs need

        return call_for_groups(self._grouper, obj, self._label, function) if self._grouper.ngroups else None

    def _collected(self, obj: Any, kind: Any) -> list[Any] | None:
        order, ends = self._order()
        flat = _objects(obj.array.take(order) if len(order) else obj.array)
        if flat is None:
            return None
        made, start = [], 0
        for end in ends.tolist():
            made.append(flat[start:end])
            start = end
        return made if kind is list else list(map(kind, made))

    def _unique(self, obj: Any) -> list[Any] | None:
        values = obj._values
        order, ends = self._order()
        if not _has_simple_values(values) or not len(ends):
            return None
        labels = None
        if isinstance(values, (DatetimeArray, TimedeltaArray)):
            numbers = values.asi8
        elif isinstance(values, np.ndarray):
            numbers = values
        else:
            numbers, labels = pd.factorize(values, use_na_sentinel=False)
        made, start = [], 0
        ordered = numbers.take(order)
        table = _TABLES.get(ordered.dtype)
        for end in ends.tolist():
            part = ordered[start:end]
            made.append(pd.unique(part) if table is None else table(len(part)).unique(part))
            start = end
        if isinstance(values, np.ndarray):
            return made
        every = np.concatenate(made)
        found = values._from_backing_data(every.view(values._ndarray.dtype)) if labels is None else labels.take(every)
        stops = np.cumsum(list(map(len, made))).tolist()
        return [found[first:last].copy() for first, last in zip([0, *stops], stops, strict=False)]

    def _largest(self, obj: Any, func: Any) -> list[Any] | None:
        """The largest or smallest values of each group, by pandas' algorithm without a Series of each group."""
        n, keep, values = func.keywords["n"], func.keywords["keep"], obj._values
        if (
            type(values) is not np.ndarray
            or values.dtype not in _TABLES
            or type(n) is not int
            or n < 1
            or keep not in _KEEPS
        ):
            return None
        order, ends = self._order()
        if not len(ends):
            return None
        ordered, places, starts = values.take(order), [], [0, *ends[:-1].tolist()]
        negated = -ordered - (ordered.dtype.kind == "i") if func.func is pd.Series.nlargest else ordered
        for first, last in zip(starts, ends.tolist(), strict=True):
            found = _first_in_order(negated[first:last], n, keep)
            places.append(None if found is None else found + first)
        known = [rows for rows in places if rows is not None]
        every = np.concatenate(known) if known else order[:0]
        labels, chosen = obj.index.take(order), obj.take(order.take(every))
        plain = type(labels) is pd.Index  # other classes may return another class for the rows of a group
        if plain:
            chosen.index = labels.take(every)
        made, end = [], 0
        for rows, first, last in zip(places, starts, ends.tolist(), strict=True):
            if rows is None:  # pandas' rules for groups with few values
                made.append(func(obj.take(order[first:last]).set_axis(labels[first:last])))
                continue
            part = chosen.iloc[end : end + len(rows)]
            made.append(part if plain else part.set_axis(labels[first:last].take(rows - first)))
            end += len(rows)
        return made


def _first_in_order(values: Any, n: int, keep: str) -> Any:
    """The positions of the `n` least values, in order, as ``nsmallest`` finds them; ``None`` if there are not more than `n`."""
    valid = None
    if values.dtype.kind == "f" and (missing := np.isnan(values)).any():
        valid = np.flatnonzero(~missing)
        values = values[valid]
    if len(values) <= n:
        return None
    if keep == "last":
        values = values[::-1]
    (near,) = np.nonzero(values <= kth_smallest(values.copy(order="C"), n - 1))
    found = near[values[near].argsort(kind="stable")]
    if keep != "all":
        found = found[:n]
    if keep == "last":
        found = len(values) - 1 - found
    return found if valid is None else valid[found]


def _has_simple_values(values: Any) -> bool:
    """Whether the distinct values of a part of an array are those of the same class and dtype, the first of equal ones."""
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "biuf"
    return isinstance(values, (DatetimeArray, TimedeltaArray)) or isinstance(values.dtype, pd.StringDtype)


def _objects(values: Any) -> list[Any] | None:
    """The Python objects over which a Series iterates; ``None`` if they depend on more than each value."""
    if isinstance(values.dtype, pd.StringDtype):
        missing = values.dtype.na_value
        return list(values.to_numpy(dtype=object, na_value=missing))
    if isinstance(values, (DatetimeArray, TimedeltaArray, BaseMaskedArray, ArrowExtensionArray)):
        return list(values)
    plain = values.to_numpy() if isinstance(values, pd.arrays.NumpyExtensionArray) else None
    return plain.tolist() if plain is not None and (plain.dtype.kind in "biufc" or plain.dtype == OBJECT) else None
