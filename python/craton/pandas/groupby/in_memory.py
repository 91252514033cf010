"""Group-bys and resamplers of data in memory that pandas computes at once, because a plan would take longer.

pandas is fast with one key that is an array, a category, or intervals of sorted times: it needs no hash table, or it makes one
in the same pass. Such a group-by stays an object of pandas; its methods are not counted, and return Craton's objects.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd

from craton.config import options
from craton.pandas.core.cheap_calls import is_in_memory
from craton.pandas.core.counterparts import as_craton, counterpart_of, reduce_by_counterpart
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.native import Native, getattr_static, wrapped
from craton.pandas.core.routing import plain_pandas
from craton.pandas.groupby.keys import with_frame_columns

#: The shortest list that is taken for a list of values: pandas decides this by the number of rows.
_VALUES = 100
_SAMPLE = 1000


def group_in_memory(obj: Any, by: Any, level: Any, parameters: dict[str, Any]) -> Any:
    """A group-by of pandas, if pandas is fast for this key and the data are in memory; otherwise ``None``."""
    if level is not None or not options.small_rows or not is_in_memory(obj):
        return None
    if isinstance(by, pd.Series) and not is_in_memory(by):
        return None
    if not _is_fast_key(obj, by, parameters):
        return None
    if isinstance(by, pd.Grouper) and not is_sorted(obj, by.key, sampled=True):
        return None
    if isinstance(obj, pd.DataFrame):
        by = with_frame_columns(obj, by)
    with plain_pandas():
        return _uncounted(type(obj)._stands_for.groupby(obj, by, **parameters))


def resample_in_memory(obj: Any, arguments: dict[str, Any]) -> Any:
    """As :func:`group_in_memory`, for ``resample``."""
    if arguments.get("level") is not None or not options.small_rows or not is_in_memory(obj):
        return None
    if not is_sorted(obj, arguments.get("on"), sampled=True):
        return None
    with plain_pandas():
        return _uncounted(type(obj)._stands_for.resample(obj, **arguments))


def _is_fast_key(obj: Any, by: Any, parameters: dict[str, Any]) -> bool:
    """Whether pandas is fast for a key, unless it is a Grouper of times that are not sorted."""
    if isinstance(by, (np.ndarray, pd.Index, pd.api.extensions.ExtensionArray)):
        return True
    if isinstance(by, list):
        return len(by) > _VALUES
    if isinstance(by, pd.Grouper):
        return by.freq is not None and by.level is None
    if isinstance(by, pd.Series):
        dtype = by.dtype
    elif isinstance(by, str) and isinstance(obj, pd.DataFrame) and obj.columns.is_unique and by in obj.columns:
        with plain_pandas():
            dtype = obj.dtypes[by]
    else:
        return False
    return dtype == OBJECT or (isinstance(dtype, pd.CategoricalDtype) and parameters.get("observed", True) is False)


def is_sorted(obj: Any, key: Any, sampled: bool = False) -> bool:
    """Whether times in a column, or in the row labels, are sorted; with ``sampled``, whether about a thousand of them are."""
    with plain_pandas():
        if key is None:
            times: Any = obj.index
        elif isinstance(obj, pd.DataFrame) and obj.columns.is_unique and key in obj.columns:
            times = obj[key]
        else:
            return False
        if sampled:  # pandas checks all of them
            times = times[:: max(len(times) // _SAMPLE, 1)]
        return isinstance(times.dtype, (np.dtype, pd.DatetimeTZDtype)) and bool(times.is_monotonic_increasing)


def _uncounted(made: Any) -> Any:
    """A group-by or resampler of pandas as one whose methods are not counted."""
    theirs = type(made)
    if theirs not in _classes:
        _classes[theirs] = _uncounted_class(theirs)
    made.__class__ = _classes[theirs]
    return made


#: For each class of pandas, the subclass whose methods are not counted.
_classes: dict[type, Any] = {}


def _in_pandas(entry: Native, _: str) -> Callable[..., Any]:
    """The route by which all calls run in plain pandas."""

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with plain_pandas():
            return as_craton(entry.theirs(self, *args, **kwargs))

    return wrapper


def _uncounted_class(theirs: Any) -> Any:
    members: dict[str, Any] = {
        "__doc__": theirs.__doc__,
        "__module__": theirs.__module__,
        "__qualname__": theirs.__qualname__,
        "__reduce_ex__": reduce_by_counterpart(theirs),
        "__getitem__": _selecting(theirs.__getitem__),
    }
    for name in dir(theirs):
        attribute = getattr_static(theirs, name)
        if not name.startswith("_") and name not in ("pipe", "apply") and isinstance(attribute, FunctionType):
            members[name] = wrapped(f"{theirs.__name__}.{name}", attribute, route=_in_pandas)
    return type(theirs.__name__, (counterpart_of(theirs),), members)


def _selecting(getitem: Callable[..., Any]) -> Callable[..., Any]:
    def __getitem__(self: Any, key: Any) -> Any:
        with plain_pandas():
            return _uncounted(getitem(self, key))

    return __getitem__
