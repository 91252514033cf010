"""``resample`` of groups: a group-by of the keys and of intervals of time, as a subclass of pandas' resampler of groups.

pandas divides the times of each group by themselves, from the interval of the group's first time to that of its last. The plan groups by
the keys and the intervals that all groups share, if the edges of a group's intervals do not depend on its times. Other methods, and other
intervals, run on pandas' own resampler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.groupby.generic import DataFrameGroupBy as PandasFrameGroupBy
from pandas.core.resample import DatetimeIndexResamplerGroupBy as PandasResampler
from pandas.core.resample import TimeGrouper

from craton.errors import Unsupported
from craton.pandas.core.array_conversion import Array
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.dtypes import kind_of
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.stand_ins import probe, probe_cached
from craton.pandas.groupby.aggregates import aggregate_columns, prepared
from craton.pandas.groupby.completion import aggregated_groups, placed
from craton.pandas.groupby.key_origins import TimeBins
from craton.pandas.groupby.keys import Grouped, GroupKey
from craton.pandas.groupby.times.bins import bins_of, have_fixed_edges
from craton.pandas.groupby.times.labels import level_of
from craton.pandas.groupby.times.resampler import NativeResampler, arguments_of, resampler_class
from craton.refusals import Refusal

__all__ = ["resample"]

#: The native methods: those of frames, and those of single columns.
_OF_FRAMES = ("sum", "mean", "min", "max", "median", "std", "var", "sem", "prod", "count")
_OF_COLUMNS = (*_OF_FRAMES, "nunique")


def resample(self: Any, rule: Any, *args: Any, include_groups: bool = False, **kwargs: Any) -> Any:
    """A lazy resampler of groups.

    Raises
    ------
    Unsupported
        If a plan can't group by these keys and intervals.
    """
    if args or include_groups is not False or kwargs.get("level") is not None:
        raise Unsupported(Refusal.PARAMETERS, "resample")
    given = dict(kwargs)
    state: Grouped = self._current()
    grouper = probe(TimeGrouper, freq=rule, key=given.pop("on", None), **given)
    if not have_fixed_edges(grouper):
        raise Unsupported(Refusal.PARAMETER, "rule")
    options = state.options
    if state.completes or not (options.as_index and options.sort and options.group_keys and options.dropna):
        raise Unsupported(Refusal.PARAMETERS, "sort, dropna and as_index of groups of times")
    keys = [key.value.dtype for key in state.keys]
    if not all(isinstance(dtype, pd.StringDtype) or kind_of(dtype) in "iufbM" for dtype in keys):
        raise Unsupported(Refusal.GROUP_KEY_DTYPE, keys)
    number, column, bins = bins_of(state.held, grouper, state.of_series)
    if bins.missing or isinstance(bins.times.dtype, pd.DatetimeTZDtype) or column in {key.column for key in state.keys}:
        raise Unsupported(Refusal.GROUP_KEY_DTYPE, bins.times.dtype)
    interval = GroupKey(number, bins.name, column=column, level=0 if column is None else None, origin=bins)
    state = state.selecting([i for i in state.positions if i != column], state.single)
    made: Any = object.__new__(DatetimeIndexResamplerGroupBy)
    made.__dict__.update(
        _groups=self, _state=replace(state, keys=(*state.keys, interval)), _arguments={"rule": rule, **kwargs}
    )
    return made


class _ResamplerOfGroups(NativeResampler):
    def _make(self) -> Any:
        own = self.__dict__
        groups = own["_groups"]
        narrow = groups._pandas_groupby_of_selection() if own["_state"].single else None
        if narrow is None:
            groups._restore_used_columns()
            narrow = groups
        with plain_pandas():
            return PandasFrameGroupBy.resample(narrow, **own["_arguments"])  # that of all group-bys


def _reduction(name: str) -> Callable[..., Any]:
    theirs = getattr(PandasResampler, name)

    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        if arguments_of(theirs, self, args, kwargs):
            raise Unsupported(Refusal.PARAMETERS, name)
        groups, state = self.__dict__["_groups"], self.__dict__["_state"]
        groups._current()
        frame = groups.__dict__["_frame"]
        if frame.attrs or not frame.flags.allows_duplicate_labels:
            raise Unsupported(Refusal.OPERATION, "attributes of a frame")
        if not state.positions or not all(_is_number(state.held.values[i].dtype) for i in state.positions):
            raise Unsupported(Refusal.OPERATION, f"{name} of columns that are not numbers")
        if name not in (_OF_COLUMNS if state.single else _OF_FRAMES):
            raise Unsupported(Refusal.OPERATION, f"{name} of several columns")
        return as_craton(_resampled(groups, state, name))

    reduction.__name__ = name
    return reduction


def _is_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iuf"


def _resampled(groups: Any, state: Grouped, name: str) -> pd.DataFrame | pd.Series:
    """The aggregate of each interval of each group, from that of its first time to that of its last one."""
    selection = groups._selection if state.single else list(state.labels)
    by_keys = replace(state, keys=state.keys[:-1])

    def template_of(method: str, **parameters: Any) -> Any:
        about = [*by_keys.stand_in_key(selection), method, parameters]
        return probe_cached(
            "groupby", about, lambda: getattr(by_keys.stand_in_groupby(selection), method)(**parameters)
        )

    aggregations, template = aggregate_columns(by_keys, template_of, name, (), {})
    state, labels, _, parts = prepared(state, aggregations, template)
    planned = [part for (part,) in parts]
    (*keys, numbers), columns = aggregated_groups(state, planned)
    if not len(numbers):
        raise Unsupported(Refusal.GROUP_NONE)
    codes = [pd.factorize(array, use_na_sentinel=False)[0] for array in keys]
    starts = np.flatnonzero(np.any([np.diff(one, prepend=-1) != 0 for one in codes], axis=0))
    ends = np.append(starts[1:], len(numbers)) - 1
    first, lengths = numbers[starts], numbers[ends] - numbers[starts] + 1
    offsets = np.cumsum(lengths) - lengths
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(numbers))))
    taken = np.full(int(lengths.sum()), -1, dtype=np.intp)
    taken[offsets[group] + numbers - first[group]] = np.arange(len(numbers))
    arrays: list[Array] = [
        placed(array, taken, name, {}, kind_of(out.dtype)) for array, out in zip(columns, planned, strict=True)
    ]
    with plain_pandas():
        index = _index(state, [array.take(starts) for array in keys], first, lengths)
        if state.single:
            return pd.Series(arrays[0], index=index, name=template.name, copy=False)
        frame = pd.DataFrame(dict(enumerate(arrays)), index=index)
        frame.columns = labels
        return frame


def _index(state: Grouped, keys: Sequence[Any], first: Any, lengths: Any) -> pd.MultiIndex:
    """The labels of the groups' intervals, with the levels that pandas gives them.

    Parameters
    ----------
    state
        The group-by, whose last key is the intervals.
    keys
        The labels of the groups.
    first, lengths
        The number of each group's first interval, and of its intervals.
    """
    bins = state.keys[-1].origin
    assert isinstance(bins, TimeBins)
    levels, codes = [], []
    for array in keys:
        level, numbers = level_of(array)
        levels.append(level)
        codes.append(np.repeat(numbers, lengths))
    total = int(lengths.sum())
    numbers = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths - first, lengths)
    same = (first == first[0]).all() and (lengths == lengths[0]).all()
    if same or (first[1:] == first[:-1] + lengths[:-1]).all():  # each begins where the one before it ends
        times = bins.labels[first[0] : first[-1] + lengths[-1]]  # it keeps the frequency
        inside = numbers - first[0]
    else:
        present, inside = np.unique(numbers, return_inverse=True)
        times = pd.DatetimeIndex(bins.labels._data[present])  # type: ignore[attr-defined]
    names = [key.name for key in state.keys]
    return pd.MultiIndex([*levels, times], [*codes, inside], names=names, verify_integrity=False)  # type: ignore[arg-type]


DatetimeIndexResamplerGroupBy: Any = resampler_class(
    _ResamplerOfGroups, PandasResampler, {name: _reduction(name) for name in _OF_COLUMNS}
)
