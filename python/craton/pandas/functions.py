"""pandas' top-level functions that give frames or columns, and are not native: counted, and with Craton's results."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.counterparts import crafted
from craton.pandas.native import reader, stays_in_pandas
from craton.pandas.query import variables

_GIVING = frozenset(
    [
        "crosstab",
        "cut",
        "eval",
        "factorize",
        "from_dummies",
        "get_dummies",
        "json_normalize",
        "lreshape",
        "merge_asof",
        "merge_ordered",
        "pivot",
        "pivot_table",
        "qcut",
        "to_datetime",
        "to_numeric",
        "to_timedelta",
        "unique",
        "wide_to_long",
    ]
)


def function(name: str) -> Callable[..., Any] | None:
    """Pandas' function of that name, wrapped; None where there is none, or nothing to wrap."""
    theirs = getattr(pd, name, None)
    if not isinstance(theirs, FunctionType) or not (name in _GIVING or name.startswith("read_")):
        return None
    counted = reader(theirs)(_refuse)

    @functools.wraps(theirs)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if name == "eval":
            with contextlib.suppress(TypeError):  # pandas words it
                args, kwargs = (), _with_variables(theirs, args, kwargs)
        if name.startswith("read_") or any(_planned(value) for value in (*args, *kwargs.values())):
            return counted(*args, **kwargs)
        return crafted(theirs(*args, **kwargs))

    wrapper.__module__ = "craton.pandas"  # where it is pickled from
    return wrapper


def _with_variables(theirs: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``eval`` with the caller's variables, which pandas would look for by counting frames."""
    named = dict(inspect.signature(theirs).bind(*args, **kwargs).arguments)
    return {**named, "local_dict": variables(dict(named)), "global_dict": {}}


def _planned(value: Any) -> bool:
    return isinstance(value, (pd.DataFrame, pd.Series)) and not stays_in_pandas(value)


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Unsupported("not native")
