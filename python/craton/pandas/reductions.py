"""Reductions: sum, mean, min, max, count, nunique and their kin, on Series and DataFrame."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.lazy import view
from craton.pandas.native import native
from craton.pandas.statistics import compute

REDUCTIONS = ("sum", "prod", "mean", "median", "min", "max", "var", "std", "sem", "count", "nunique", "any", "all")


@lru_cache(maxsize=256)
def _signature(base: type, name: str) -> inspect.Signature:
    return inspect.signature(getattr(base, name))


def arguments(base: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments by name, those at their defaults left out.

    Raises
    ------
    Unsupported
        If they don't fit the signature: pandas words the error.
    """
    signature = _signature(base, name)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise Unsupported(str(error)) from error
    named = dict(list(bound.arguments.items())[1:])
    named |= named.pop("kwargs", {}) if name in ("eval", "query") else {}
    if named.pop("kwargs", None) or named.pop("args", None):
        raise Unsupported("extra arguments")
    return {
        key: value
        for key, value in named.items()
        if not (value is signature.parameters[key].default or _same(value, signature.parameters[key].default))
    }


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and isinstance(value, (bool, int, str)) and value == default


def checked(named: dict[str, Any]) -> dict[str, Any]:
    """Options of a reduction along the rows.

    Raises
    ------
    Unsupported
        If one is of a kind that pandas refuses, or asks for another axis.
    """
    if named.pop("axis", 0) not in (0, "index", "rows"):
        raise Unsupported("another axis")
    for key in ("skipna", "numeric_only", "bool_only", "dropna"):
        if key in named and not isinstance(named[key], bool):
            raise Unsupported(f"{key}={named[key]!r}")
    least = named.get("min_count", 0)
    if isinstance(least, bool) or not isinstance(least, int):
        raise Unsupported(f"min_count={least!r}")
    return named


def _series_reduction(name: str) -> Callable[..., Any]:
    def reduction(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = checked(arguments(pd.Series, name, args, kwargs))
        if named.pop("numeric_only", False) or named.pop("bool_only", False):
            raise Unsupported("a restriction to numbers")
        held = view(self)
        return compute(held, [(name, held.values[0], named)])[0]

    reduction.__name__ = name
    return native(pd.Series, name)(reduction)


class FrameReductions:
    """Methods of DataFrame."""


class SeriesReductions:
    """Methods of Series."""


for _name in REDUCTIONS:
    setattr(SeriesReductions, _name, _series_reduction(_name))
