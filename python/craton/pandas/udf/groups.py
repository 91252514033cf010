"""``apply`` of group-bys with a Python function that is called for each group.

The groups are made as in pandas, which sorts the rows by group and slices them. A piece of work has consecutive groups, and
about as many rows as the other pieces. pandas' own code combines the results of all calls.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pandas._libs.lib import is_range_indexer
from pandas.core.groupby.ops import FrameSplitter, SeriesSplitter, _is_indexed_like
from pandas.core.indexes.base import maybe_sequence_to_range

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_craton, as_pandas
from craton.pandas.core.routing import plain_pandas, planned_calls
from craton.pandas.udf.calls import bound_function, require_python_function, run_job
from craton.pandas.udf.results import pack_objects
from craton.refusals import Refusal
from craton.remote.functions import UserFunction, from_table, to_table
from craton.remote.values import Values, unpack

__all__ = ["apply_groups", "call_for_groups"]

_GROUP_OVERHEAD = 30
"""The cost of making an object of a group and calling the function for it, expressed as a number of rows."""

_LARGE = 50_000
"""The rows of a group from which its calls may be planned."""


def apply_groups(groups: Any, label: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``groups.apply(func, …)`` for a function.

    Parameters
    ----------
    groups
        Pandas' own group-by.

    Raises
    ------
    Unsupported
        If `func` is not a Python function, or `include_groups` is given.
    """
    require_python_function(groups.obj, func)
    if "include_groups" in kwargs:
        raise Unsupported(Refusal.PARAMETER, "include_groups")
    function = UserFunction(func, args, kwargs)
    mine = copy.copy(groups)
    mine._grouper = copy.copy(groups._grouper)
    with plain_pandas():

        def groupwise(_: Any, data: Any) -> tuple[list[Any], bool]:
            job = _Groups(mine._grouper, data, function)
            if not len(job):
                return type(mine._grouper).apply_groupwise(mine._grouper, func, data)  # type: ignore[no-any-return]
            results = run_job(job, label)
            return results.to_list(), any(results.values)

        mine._grouper.apply_groupwise = groupwise
        return type(groups).apply(mine, func, *args, **kwargs)


def call_for_groups(grouper: Any, data: Any, label: str, func: Any, named: bool = False) -> list[Any]:
    """The results of a function for the groups of a Series, as ``agg`` calls it.

    Parameters
    ----------
    grouper
        Pandas' grouper, which has groups.
    named
        Whether each group has its key as ``name``, as in ``transform``.

    Raises
    ------
    Unsupported
        If `func` is not a Python function.
    """
    require_python_function(data, func)
    with plain_pandas():
        job = (_Groups if named else _AggregatedGroups)(grouper, data, UserFunction(func, (), {}))
        return run_job(job, label).to_list()


def _slice_groups(data: Any, starts: Any, ends: Any) -> Iterator[Any]:
    """The groups, sliced as by pandas from rows that are sorted by group."""
    chop: Any = (SeriesSplitter if isinstance(data, pd.Series) else FrameSplitter)._chop
    finalize = bool(data.attrs) or not data._flags._allows_duplicate_labels
    for start, end in zip(starts, ends, strict=True):
        yield chop(None, data, slice(start, end), finalize)


def _collect(groups: Iterator[Any], keys: Any, call: Callable[[Any], Any], results: list[Any]) -> bool:
    """Call the function for groups; return whether the index of any result differs from that of its group."""
    mutated = False
    for key, group in zip(keys, groups, strict=True):
        object.__setattr__(group, "name", key)
        axes = group.axes  # read before the call, because the function may change the group
        result = call(group)
        if not mutated and not _is_indexed_like(result, axes):
            mutated = True
        results.append(result)
    return mutated


class _Trial:
    """Chooses the objects that a function gets for large groups: of pandas' classes, or of Craton's, whose calls are planned.

    The first large group is of Craton's class, the second of pandas'. From then on, all are of the kind with less time per row.
    """

    def __init__(self, function: UserFunction) -> None:
        self._call = bound_function(function)
        self._rates: list[float] = []

    @property
    def chosen(self) -> bool:
        """Whether planned calls are faster than those of pandas in one process for each of the kernel's threads."""
        return len(self._rates) == 2 and self._rates[0] * pl.thread_pool_size() < self._rates[1]

    def __call__(self, group: Any) -> Any:
        if len(group) < _LARGE:
            return self._call(group)
        started = time.perf_counter()
        result = self._planned(group) if self.chosen or not self._rates else self._call(group)
        if len(self._rates) < 2:
            self._rates.append((time.perf_counter() - started) / len(group))
        return result

    def _planned(self, group: Any) -> Any:
        name = group.__dict__.get("name")
        group = as_craton(group)
        if name is not None:
            object.__setattr__(group, "name", name)
        with planned_calls():
            result = self._call(group)
        return as_pandas(result) if isinstance(result, (pd.DataFrame, pd.Series)) else result


@dataclass(frozen=True)
class _GroupsBody:
    """The calls for some groups, whose data are the rows, the start and end of each group, and the keys."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> bool:
        data, starts, ends, keys = from_table(rows)
        with plain_pandas():
            return _collect(
                _slice_groups(data, starts.tolist(), ends.tolist()), keys, bound_function(function), results
            )

    def pack(self, results: list[Any]) -> pa.Table:
        return pack_objects(results)


class _RowsByGroup:
    """The rows of an object, sorted by group when they are read; pandas copies all rows in sorted order first.

    Here, the first calls need not wait until all rows are sorted, and workers run while the driver sorts the rest.

    Parameters
    ----------
    data
        The object.
    order
        The positions of its rows, sorted by group.
    """

    def __init__(self, data: Any, order: np.ndarray[Any, Any]) -> None:
        self._data, self._order = data, order
        self._all_rows = data.take(order, axis=0) if is_range_indexer(order, len(data)) else None
        self._labels = (
            data.index.take(order) if self._all_rows is None and not _can_take_in_parts(data.index, order) else None
        )

    def rows(self, first: int, last: int) -> Any:
        """A range of the sorted rows, equal to a slice of all of them."""
        if self._all_rows is not None:
            return self._all_rows.iloc[first:last]
        data, order = self._data, self._order[first:last]
        labels = _take_labels(data.index, order) if self._labels is None else self._labels[first:last]
        manager = data._mgr.reindex_indexer(labels, order, axis=data._get_block_manager_axis(0), allow_dups=True)
        return data._constructor_from_mgr(manager, axes=manager.axes).__finalize__(data, method="take")


def _can_take_in_parts(index: Any, order: np.ndarray[Any, Any]) -> bool:
    """Whether labels can be taken in parts: the Index of each part has the same class as the Index of all labels in this order.

    For other classes of Index, whether the result is a range or has a frequency depends on all labels.
    """
    if type(index) is pd.RangeIndex:
        return len(order) > 2 and not isinstance(maybe_sequence_to_range(order), range)
    return type(index) is pd.Index


def _take_labels(index: Any, order: np.ndarray[Any, Any]) -> Any:
    if type(index) is pd.RangeIndex:
        return pd.Index(index.start + order * index.step, dtype=np.int64, name=index.name, copy=False)
    return index.take(order)


class _Groups:
    """A job that calls the function for each group of a group-by."""

    body = _GroupsBody()

    def __init__(self, grouper: Any, data: Any, function: UserFunction) -> None:
        self.function = function
        self._trial = _Trial(function)
        self._keys = grouper.result_index
        self._sorted = _RowsByGroup(as_pandas(data), grouper.result_ilocs)
        ids = grouper.ids
        sizes = np.bincount(ids[ids >= 0] if grouper.has_dropped_na else ids, minlength=grouper.ngroups)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self.weights = np.cumsum(sizes + _GROUP_OVERHEAD)

    @property
    def planned(self) -> bool:
        return self._trial.chosen

    def __len__(self) -> int:
        return len(self._starts)

    def _part(self, start: int, stop: int) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The rows of some groups, and the start and end of each group in them."""
        starts, ends = self._starts[start:stop], self._ends[start:stop]
        full = starts < ends  # a category without rows has no place among the sorted rows
        first, last = (starts[full][0], ends[full][-1]) if full.any() else (0, 0)
        return self._sorted.rows(first, last), np.where(full, starts - first, 0), np.where(full, ends - first, 0)

    def here(self, start: int, stop: int, results: list[Any]) -> bool:
        data, starts, ends = self._part(start, stop)
        groups = _slice_groups(data, starts.tolist(), ends.tolist())
        return _collect(groups, self._keys[start:stop], self._trial, results)

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table((*self._part(start, stop), self._keys[start:stop]))

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)


@dataclass(frozen=True)
class _AggregatedBody:
    """The calls for some groups, which keep the name of the Series; the data are those of :class:`_GroupsBody`."""

    def call(self, function: UserFunction, rows: pa.Table, results: list[Any]) -> bool:
        data, starts, ends, _ = from_table(rows)
        with plain_pandas():
            results.extend(map(bound_function(function), _slice_groups(data, starts.tolist(), ends.tolist())))
        return False

    def pack(self, results: list[Any]) -> pa.Table:
        return pack_objects(results)


class _AggregatedGroups(_Groups):
    """A job that calls the function for each group of a Series, as ``agg`` does."""

    body = _AggregatedBody()  # type: ignore[assignment]

    def here(self, start: int, stop: int, results: list[Any]) -> bool:
        data, starts, ends = self._part(start, stop)
        results.extend(map(self._trial, _slice_groups(data, starts.tolist(), ends.tolist())))
        return False
