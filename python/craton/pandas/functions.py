"""pandas' top-level functions that give frames or columns, and are not native: counted, and with Craton's results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.native import reader

_GIVING = frozenset(
    "crosstab cut eval factorize from_dummies get_dummies json_normalize lreshape merge_asof merge_ordered pivot "
    "pivot_table qcut to_datetime to_numeric to_timedelta unique wide_to_long".split()
)


def function(name: str) -> Callable[..., Any] | None:
    """pandas' function of that name, wrapped; None where there is none, or nothing to wrap."""
    theirs = getattr(pd, name, None)
    if not isinstance(theirs, FunctionType) or not (name in _GIVING or name.startswith("read_")):
        return None
    return functools.wraps(theirs)(reader(theirs)(_refuse))


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Unsupported("not native")
