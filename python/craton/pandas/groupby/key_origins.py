"""Keys whose labels plans do not hold: in the plan they are numbers, which :mod:`.completion` replaces by labels."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from craton.pandas.core.stand_ins import values
from craton.pandas.core.view import Value
from craton.records import dataclass


class KeyOrigin:
    """Where the numbers of a key come from."""

    __slots__ = ()

    @property
    def cache_key(self) -> Any:
        """Everything on which the stand-in depends."""
        raise NotImplementedError

    def stand_in(self, name: Hashable, rows: pd.Index) -> Any:
        """The key for a group-by of a stand-in with these row labels."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class RowLabels(KeyOrigin):
    """The labels of a key that are Python objects or periods. In the plan the key is the number of each row's label; null if it is missing.

    Parameters
    ----------
    labels
        The labels, an array of objects or of periods.
    missing
        A missing label, as an array of one element; empty if no label is missing.
    of_index
        Whether the key was an Index, whose dtype the labels of the groups keep.
    """

    labels: Any
    missing: Any
    of_index: bool

    @property
    def cache_key(self) -> Any:
        if self.labels.dtype != object:
            return self.labels.dtype
        return type(self.labels[0]) if len(self.labels) else None

    @property
    def _every(self) -> Any:
        """The labels, and after them the missing one, if there is one."""
        if self.labels.dtype != object:
            return self.labels._concat_same_type([self.labels, self.missing])
        return np.concatenate([self.labels, self.missing])

    def labels_of(self, numbers: Any) -> Any:
        """The labels with these numbers, where -1 is the number of a missing label."""
        return self._every.take(numbers)

    def named(self, labels: Any, name: Hashable) -> Any:
        """Labels as a key of pandas' group-by."""
        return (pd.Index if self.of_index else pd.Series)(labels, name=name, dtype=self.labels.dtype)

    def stand_in(self, name: Hashable, rows: pd.Index) -> Any:
        return pd.Series(self._every[:1].repeat(len(rows)), index=rows, name=name, dtype=self.labels.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class TimeBins(KeyOrigin):
    """The intervals of a ``pd.Grouper`` with a frequency. In the plan the key is the number of each row's interval.

    Parameters
    ----------
    grouper
        The Grouper, which is copied before each use because pandas changes its state.
    times
        The times that are divided into intervals.
    name
        The label of their column, or the name of the index.
    missing
        Whether a time is missing.
    labels
        The labels of the intervals, by number.
    """

    grouper: Any
    times: Value
    name: Hashable
    missing: bool
    labels: pd.Index

    @property
    def cache_key(self) -> Any:
        return self.grouper.key is None, self.times.dtype

    def rule(self) -> Any:
        """The Grouper, for a call of pandas."""
        return copy.copy(self.grouper)

    def stand_in(self, name: Hashable, rows: pd.Index) -> Any:
        # The times themselves, because intervals without rows would change dtypes.
        return pd.Series(values(self.times.dtype), index=rows, name=name) if self.grouper.key is None else name

    def with_times(self, frame: pd.DataFrame, times: Any) -> pd.DataFrame:
        """A frame with these times where the Grouper finds them: in a column, or in the row labels."""
        if self.grouper.key is None:
            return frame.set_axis(pd.DatetimeIndex(times, name=self.name))
        frame = frame.copy()
        frame[self.name] = times
        return frame
