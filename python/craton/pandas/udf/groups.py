"""Group-by with Python functions: ``apply``, group after group.

The groups are those that pandas makes: it sorts the rows by group, and cuts. Pieces are runs of groups, of about equal
numbers of rows. What all calls returned is combined by pandas' own code.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas._libs.lib import is_range_indexer
from pandas.core.groupby.ops import FrameSplitter, SeriesSplitter, _is_indexed_like
from pandas.core.indexes.base import maybe_sequence_to_range

from craton.errors import Unsupported
from craton.pandas.core.counterparts import as_pandas
from craton.pandas.core.routing import plain_pandas
from craton.pandas.udf.calls import bound_function, require_python_function, run_job
from craton.pandas.udf.results import pack_objects
from craton.refusals import Refusal
from craton.remote.functions import Function, from_table, to_table
from craton.remote.values import Values, unpack

__all__ = ["apply_groups"]

_GROUP_OVERHEAD = 30
"""What a group costs beside its rows, in rows: pandas makes an object of it, and calls a function that does the same."""


def apply_groups(groups: Any, label: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``groups.apply(func, …)`` for a function.

    Parameters
    ----------
    groups
        Pandas' own group-by.

    Raises
    ------
    Unsupported
        If `func` is none.
    """
    require_python_function(groups.obj, func)
    if "include_groups" in kwargs:
        raise Unsupported(Refusal.PARAMETER, "include_groups")
    function = Function(func, args, kwargs)
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


def _chopped(data: Any, starts: Any, ends: Any) -> Iterator[Any]:
    """The groups of rows that are sorted by group, as pandas cuts them."""
    chop: Any = (SeriesSplitter if isinstance(data, pd.Series) else FrameSplitter)._chop
    finalize = bool(data.attrs) or not data._flags._allows_duplicate_labels
    for start, end in zip(starts, ends, strict=True):
        yield chop(None, data, slice(start, end), finalize)


def _collect(groups: Iterator[Any], keys: Any, call: Callable[[Any], Any], results: list[Any]) -> bool:
    """Call the function for groups; return whether a result is not indexed as its group."""
    mutated = False
    for key, group in zip(keys, groups, strict=True):
        object.__setattr__(group, "name", key)
        axes = group.axes  # the group might be changed
        result = call(group)
        if not mutated and not _is_indexed_like(result, axes):
            mutated = True
        results.append(result)
    return mutated


@dataclass(frozen=True)
class _GroupsBody:
    """Some groups: rows, where each group starts and ends, and the keys."""

    def call(self, function: Function, rows: pa.Table, results: list[Any]) -> bool:
        data, starts, ends, keys = from_table(rows)
        with plain_pandas():
            return _collect(_chopped(data, starts.tolist(), ends.tolist()), keys, bound_function(function), results)

    def pack(self, results: list[Any]) -> pa.Table:
        return pack_objects(results)


class _RowsByGroup:
    """The rows of an object sorted by group, of which pandas makes a copy at once: here some are copied when they are asked for.

    So the first groups are called before all rows are in order, and workers already run while the driver sorts the others.

    Parameters
    ----------
    data
        The object.
    order
        The places of its rows, sorted by group.
    """

    def __init__(self, data: Any, order: np.ndarray[Any, Any]) -> None:
        self._data, self._order = data, order
        self._all_rows = data.take(order, axis=0) if is_range_indexer(order, len(data)) else None
        self._labels = (
            data.index.take(order) if self._all_rows is None and not _can_take_in_parts(data.index, order) else None
        )

    def rows(self, first: int, last: int) -> Any:
        """Some of the rows, as a slice of all of them would be."""
        if self._all_rows is not None:
            return self._all_rows.iloc[first:last]
        data, order = self._data, self._order[first:last]
        labels = _take_labels(data.index, order) if self._labels is None else self._labels[first:last]
        manager = data._mgr.reindex_indexer(labels, order, axis=data._get_block_manager_axis(0), allow_dups=True)
        return data._constructor_from_mgr(manager, axes=manager.axes).__finalize__(data, method="take")


def _can_take_in_parts(index: Any, order: np.ndarray[Any, Any]) -> bool:
    """Whether some of the labels in that order are of the class that all of them are of, and can be taken by themselves.

    Of labels of other classes pandas tells only from all of them whether they are a range, or have a frequency.
    """
    if type(index) is pd.RangeIndex:
        return len(order) > 2 and not isinstance(maybe_sequence_to_range(order), range)
    return type(index) is pd.Index


def _take_labels(index: Any, order: np.ndarray[Any, Any]) -> Any:
    if type(index) is pd.RangeIndex:
        return pd.Index(index.start + order * index.step, dtype=np.int64, name=index.name, copy=False)
    return index.take(order)


class _Groups:
    """The groups of a group-by, one after another."""

    body = _GroupsBody()

    def __init__(self, grouper: Any, data: Any, function: Function) -> None:
        self.function = function
        self._keys = grouper.result_index
        self._sorted = _RowsByGroup(as_pandas(data), grouper.result_ilocs)
        ids = grouper.ids
        sizes = np.bincount(ids[ids >= 0] if grouper.has_dropped_na else ids, minlength=grouper.ngroups)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self.weights = np.cumsum(sizes + _GROUP_OVERHEAD)

    def __len__(self) -> int:
        return len(self._starts)

    def _part(self, start: int, stop: int) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The rows of some groups, and where each group starts and ends there."""
        starts, ends = self._starts[start:stop], self._ends[start:stop]
        full = starts < ends  # a category without rows is none of them, at the start of all
        first, last = (starts[full][0], ends[full][-1]) if full.any() else (0, 0)
        return self._sorted.rows(first, last), np.where(full, starts - first, 0), np.where(full, ends - first, 0)

    def here(self, start: int, stop: int, results: list[Any]) -> bool:
        data, starts, ends = self._part(start, stop)
        groups = _chopped(data, starts.tolist(), ends.tolist())
        return _collect(groups, self._keys[start:stop], bound_function(self.function), results)

    def rows(self, start: int, stop: int) -> pa.Table:
        return to_table((*self._part(start, stop), self._keys[start:stop]))

    def unpack(self, table: pa.Table) -> Values:
        return unpack(table)
