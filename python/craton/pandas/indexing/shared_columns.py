"""Columns and single items of objects in memory, selected without a plan: a column shares the frame's memory, so nothing is copied.

A later call may extend a plan over the result. It then reads the scan of the frame
(:class:`~craton.pandas.core.scanning.SharedColumns`), as if the columns had been selected in the plan.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas._libs.lib import maybe_indices_to_slice

from craton.config import options
from craton.pandas.core.counterparts import as_craton, frame_class, plannable, series_class
from craton.pandas.core.native import Native
from craton.pandas.core.routing import plain_pandas, stays_in_pandas
from craton.pandas.core.scanning import share_columns

__all__ = ["cell_in_memory", "columns_in_memory", "is_item_in_memory", "select_columns", "select_item"]

_LABELS = (str, int, np.int64)


def select_columns(entry: Native, obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The route of ``df[key]``: labels of columns of a frame in memory are selected by pandas, other keys by the entry."""
    if stays_in_pandas(obj):
        held = _column(obj, args[0]) if len(args) == 1 and type(args[0]) is str else None
        return as_craton(entry.theirs(obj, *args, **kwargs)) if held is None else held
    found = columns_in_memory(obj, args[0]) if len(args) == 1 and not kwargs else None
    return entry.run(obj, args, kwargs) if found is None else found


def columns_in_memory(frame: Any, key: Any) -> Any:
    """The columns with some labels, as views of a frame's memory; None for other keys and for frames for which pandas makes copies.

    Parameters
    ----------
    frame
        The frame.
    key
        The key of ``df[key]``: a string or a list of strings.
    """
    state = frame.__dict__
    manager = state.get("_mgr")
    if manager is None or "_view" in state or not options.small_rows or not plannable(type(frame)):
        return None
    labels = manager.axes[0]
    if type(labels) is not pd.Index or not labels.is_unique:
        return None
    if type(key) is str:
        column = _column(frame, key)
        if column is not None:
            return share_columns(column, frame)
        if key not in labels:
            return None
        with plain_pandas():
            return share_columns(pd.DataFrame.__getitem__(frame, key), frame)
    # A frame that a plan has computed has one block for each column, unlike in pandas, which some methods depend on.
    if type(key) is not list or not key or "_origin" in state or not all(type(one) is str for one in key):
        return None
    try:
        places = [labels.get_loc(one) for one in key]
    except KeyError:
        return None
    if not _are_views(manager, np.array(places)):
        return None
    with plain_pandas():
        return share_columns(pd.DataFrame.take(frame, places, axis=1), frame)


def _column(frame: Any, key: str) -> Any:
    """A column of a frame in memory without attributes, as pandas makes it; None if pandas must select it."""
    state = frame.__dict__
    manager = state.get("_mgr")
    if manager is None or type(frame) is not frame_class() or state.get("_attrs"):
        return None
    if not frame._flags._allows_duplicate_labels:
        return None
    labels = manager.axes[0]
    try:
        place = labels.get_loc(key) if type(labels) is pd.Index else None
    except KeyError:
        return None
    if type(place) is not int:
        return None
    made = manager.iget(place)
    series = series_class()._from_mgr(made, made.axes)
    # An array of texts would make an equal text anew.
    values = labels._data
    object.__setattr__(series, "_name", values[place] if type(values) is np.ndarray else key)
    return series


def select_item(entry: Native, obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The route of ``series[key]``: a label of a row of a series in memory is selected by pandas, other keys by the entry."""
    if stays_in_pandas(obj):
        return as_craton(entry.theirs(obj, *args, **kwargs))
    if len(args) == 1 and not kwargs and type(args[0]) in _LABELS and _is_held(obj):
        with plain_pandas():
            return as_craton(entry.theirs(obj, *args))
    return entry.run(obj, args, kwargs)


def _is_held(obj: Any) -> bool:
    """Whether an object is in memory, and calls on it may run in pandas."""
    state = obj.__dict__
    return "_view" not in state and "_mgr" in state and options.small_rows > 0 and plannable(type(obj))


def is_item_in_memory(obj: Any, key: Any) -> bool:
    """Whether the key of ``loc`` or ``iloc`` selects a row, a range of rows, or a cell, and the object is in memory.

    Such keys are used in loops, so no more is decided than this.
    """
    if type(key) is tuple:
        found = len(key) == 2 and type(key[0]) in _LABELS and type(key[1]) in _LABELS
    elif type(key) is slice:
        found = not (key.start is None and key.stop is None and key.step is None)
    else:
        found = type(key) in _LABELS
    return found and _is_held(obj)


def cell_in_memory(frame: Any, key: Any) -> tuple[Any, Any] | None:
    """The position of ``frame.loc[row, column]`` of a frame in memory; None if pandas must look it up."""
    if type(key) is not tuple or len(key) != 2 or type(key[1]) is not str:
        return None
    index, labels = frame._mgr.axes[::-1]
    if type(labels) is not pd.Index or not labels.is_unique:
        return None
    if type(index) is not pd.RangeIndex and (type(index) is not pd.Index or not index.is_unique):
        return None
    try:
        return index.get_loc(key[0]), labels.get_loc(key[1])
    except KeyError:
        return None


def _are_views(manager: Any, places: np.ndarray[Any, Any]) -> bool:
    """Whether pandas takes the columns at some places from each block as a slice, which copies nothing."""
    if len(manager.blocks) == 1:
        return False
    numbers, rows = manager.blknos[places], manager.blklocs[places]
    for number, count in enumerate(np.bincount(numbers)):
        if count > 1 and not isinstance(maybe_indices_to_slice(rows[numbers == number], int(rows.max()) + 1), slice):
            return False
    return True
