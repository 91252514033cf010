"""``rolling``, ``expanding`` and ``ewm``, which make window objects.

The objects are of subclasses of pandas' classes. pandas' constructors check the arguments. For a planned frame they run on an empty
stand-in, because they would compute the row labels; the labels are then computed when pandas needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pandas._config import is_nan_na
from pandas.api.types import is_integer

from craton.errors import Unsupported
from craton.pandas.core.call_arguments import bound_arguments
from craton.pandas.core.counterparts import as_craton, plannable
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import Native, by_callback, wrapped
from craton.pandas.core.routing import is_lazy, plain_pandas, stays_in_pandas


class RowLabels:
    """The attribute ``_on``: the row labels of a planned frame at the time of the call, computed when pandas needs them."""

    def __get__(self, window: Any, owner: type | None = None) -> Any:
        if window is None or "_then" not in window.__dict__:
            raise AttributeError("_on")
        own = window.__dict__
        own["_on"] = own["_then"].index
        return own["_on"]


class Spacing:
    """The attribute ``_deltas``: the distances between the rows of an ``ewm`` without times."""

    def __get__(self, window: Any, owner: type | None = None) -> Any:
        if window is None:
            raise AttributeError("_deltas")
        own = window.__dict__
        own["_deltas"] = np.ones(max(len(own["obj"]) - 1, 0))
        return own["_deltas"]


#: Attributes of the subclasses of pandas' classes, besides their methods.
ATTRIBUTES: dict[str, Any] = {"_on": RowLabels(), "_deltas": Spacing()}


def make_window(entry: Native, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The window object of a frame or a series; its plan does not run unless the windows are of time."""
    if stays_in_pandas(obj) or not plannable(type(obj)) or not is_nan_na():
        return as_craton(entry.theirs(obj, *args, **kwargs))
    then = lazy(type(obj), view(obj), obj) if is_lazy(obj) else None
    if then is not None and _is_independent_of_data(entry, args, kwargs):
        made = entry.theirs(
            pd.DataFrame() if isinstance(obj, pd.DataFrame) else pd.Series(dtype=float), *args, **kwargs
        )
        made.obj = obj
        made.__dict__.pop("_on", None)
        made.__dict__.pop("_deltas", None)
    else:
        with plain_pandas():  # only the times are computed
            made = entry.theirs(obj, *args, **kwargs)
    if then is not None:
        made.__dict__["_then"] = then
    return as_craton(made)


def _is_independent_of_data(entry: Native, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether pandas checks the arguments of a call without reading the frame; arguments for which it raises may be among them."""
    kind = entry.label.rpartition(".")[2]
    try:
        named = bound_arguments(pd.DataFrame, kind, args, dict(kwargs))
    except Unsupported:
        return True
    if kind == "ewm":
        return named.get("times") is None
    return kind == "expanding" or (is_integer(named["window"]) and named.get("on") is None)


def _deferring(base: Any, name: str) -> Any:
    theirs = getattr(base, name)
    return wrapped(f"{base.__name__}.{name}", theirs, theirs, route=by_callback(make_window))


class FrameMoving:
    """Methods of DataFrame."""

    rolling = _deferring(pd.DataFrame, "rolling")
    expanding = _deferring(pd.DataFrame, "expanding")
    ewm = _deferring(pd.DataFrame, "ewm")


class SeriesMoving:
    """Methods of Series."""

    rolling = _deferring(pd.Series, "rolling")
    expanding = _deferring(pd.Series, "expanding")
    ewm = _deferring(pd.Series, "ewm")
