"""Compact forms of many results that are pandas objects of one shape: a few arrays instead of an object for each result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.core.groupby.ops import FrameSplitter, SeriesSplitter

from craton.pandas.core.dtypes import same_dtype
from craton.records import dataclass
from craton.remote.functions import to_table
from craton.remote.values import Values, pack, values_of

__all__ = ["Concatenated", "Stacked", "concatenated", "pack_objects", "stacked"]


@dataclass(frozen=True, slots=True)
class Stacked:
    """A sequence of Series with the same labels and dtype, stored as the rows of a matrix.

    Parameters
    ----------
    values
        The matrix, with one row for each Series.
    labels
        The index of each Series.
    names
        The names of the Series.
    """

    values: np.ndarray[Any, Any]
    labels: pd.Index
    names: Values

    def like(self, other: Stacked) -> bool:
        """Whether both can be concatenated."""
        return self.values.dtype == other.values.dtype and _same(self.labels, other.labels)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        for row, name in zip(self.values, self.names.to_list(), strict=True):
            yield pd.Series(row, index=self.labels, name=name, copy=False)


def stacked(results: list[Any]) -> Stacked | None:
    """Results as a :class:`Stacked`; None if they are not all Series of the same unique labels and plain dtype."""
    if not results or not isinstance(results[0], pd.Series):
        return None
    labels, dtype = results[0].index, results[0].dtype
    # pandas makes a union of Indexes of other classes, which may be of another class.
    if (
        type(labels) is not pd.Index
        or not labels.is_unique
        or not isinstance(dtype, np.dtype)
        or dtype.kind not in "fiubO"
    ):
        return None
    for one in results:
        if not isinstance(one, pd.Series) or one.dtype != dtype or one.attrs or not _same(one.index, labels):
            return None
    values = np.empty((len(results), len(labels)), dtype)
    for row, one in zip(values, results, strict=True):
        row[:] = one._values
    return Stacked(values, labels, values_of([one.name for one in results]))


def _same(one: pd.Index, other: pd.Index) -> bool:
    if one is other:
        return True
    return type(one) is pd.Index and one.dtype == other.dtype and one.name == other.name and one.equals(other)


@dataclass(frozen=True, slots=True)
class Concatenated:
    """A sequence of frames with the same columns, or of Series with the same name and dtype, stored concatenated.

    Parameters
    ----------
    data
        The concatenated object. Its index is that of the parts, or a default one if their indexes are ranges.
    ends
        The row at which each part ends.
    ranges
        Start, stop and step of the index of each part, if the indexes are ranges.
    name
        The name of these ranges.
    """

    data: Any
    ends: np.ndarray[Any, Any]
    ranges: np.ndarray[Any, Any] | None
    name: Any

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Any:
        chop: Any = (SeriesSplitter if isinstance(self.data, pd.Series) else FrameSplitter)._chop
        start = 0
        for number, end in enumerate(self.ends.tolist()):
            one = chop(None, self.data, slice(start, end), False)
            if self.ranges is not None:
                one.index = pd.RangeIndex(*self.ranges[number].tolist(), name=self.name)
            yield one
            start = end


def concatenated(results: list[Any]) -> Concatenated | None:
    """Results as a :class:`Concatenated`; None if they are not all frames, or all Series, that can be split again."""
    if len(results) < 2 or type(results[0]) not in (pd.DataFrame, pd.Series):
        return None
    first = results[0]
    index = first.index
    if type(index) not in (pd.Index, pd.RangeIndex):
        return None
    for one in results:
        if type(one) is not type(first) or not _has_same_columns(one, first) or not _has_same_kind(one.index, index):
            return None
    ends = np.cumsum([len(one) for one in results])
    ranges = None
    if type(index) is pd.RangeIndex:
        ranges = np.array([(one.index.start, one.index.stop, one.index.step) for one in results])
    data = pd.concat(results, ignore_index=ranges is not None)
    if not _same_dtypes(data, first) or (ranges is None and not _has_same_kind(data.index, index)):
        return None
    return Concatenated(data, ends, ranges, index.name)


def _has_same_columns(one: Any, first: Any) -> bool:
    if one.attrs or not one._flags._allows_duplicate_labels:
        return False
    if isinstance(first, pd.Series):
        return _same_dtypes(one, first) and type(one.name) is type(first.name) and bool(one.name == first.name)
    columns = first.columns
    if one.columns is not columns and not (_same(one.columns, columns) and columns.is_unique):
        return False
    return columns.is_unique and _same_dtypes(one, first)


def _same_dtypes(one: Any, other: Any) -> bool:
    """Whether two Series, or two frames with the same columns, have the same dtypes; categories in another order are another dtype."""
    dtypes = ([one.dtype], [other.dtype]) if isinstance(one, pd.Series) else (one.dtypes, other.dtypes)
    return all(map(same_dtype, *dtypes))


def _has_same_kind(one: pd.Index, other: pd.Index) -> bool:
    return type(one) is type(other) and one.dtype == other.dtype and one.name == other.name


def pack_objects(results: list[Any]) -> pa.Table:
    """Results as a table of one row, with pandas objects of one shape in a compact form.

    Raises
    ------
    Exception
        Any error of pickling.
    """
    together = stacked(results) or concatenated(results)
    return pack(results) if together is None else to_table(("values", Values(None, False, together)))
