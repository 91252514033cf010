"""What ``Series.str`` and ``Series.dt`` have in common: members that run as a plan, and pandas' own for the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd

from craton.pandas.dtypes import cached_by_dtype
from craton.pandas.lazy import lazy, view
from craton.pandas.native import dispatch, plain_pandas
from craton.pandas.view import Value, View


class LazyAccessor:
    """The state of an accessor of a Series that is planned: the Series, and pandas' accessor once something needs it.

    Mixed into a subclass of pandas' accessor class, so that ``isinstance`` holds; pandas' ``__init__`` does not run.
    """

    def __init__(self: Any, series: Any) -> None:
        object.__setattr__(self, "_series", series)
        object.__setattr__(self, "_own", None)
        self._freeze()

    def _pandas(self: Any) -> Any:
        """Pandas' accessor of the materialised Series."""
        if self._own is None:
            object.__setattr__(self, "_own", self._pandas_accessor(self._series))
        return self._own

    def __getattr__(self: Any, name: str) -> Any:
        if name.startswith("__") or name in ("_series", "_own"):
            raise AttributeError(name)
        with plain_pandas():
            return getattr(self._pandas(), name)

    def __dir__(self: Any) -> list[str]:
        return sorted(set(dir(type(self))))

    @property
    def _held(self: Any) -> tuple[View, Value]:
        held = view(self._series)
        return held, held.values[0]

    def _series_of(self: Any, held: View, value: Value) -> Any:
        """A Series with the name of the accessor's, of another value."""
        return lazy(type(self._series), held.series(value, self._series.name), self._series)


def member(accessor: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an accessor: native, or on refusal pandas' own."""
    label = f"Series.{accessor}.{name}"

    def fallback(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._pandas(), name)(*args, **kwargs)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return dispatch(label, function, fallback, self, args, kwargs)

    method.__name__ = name
    method.__craton_native__ = function  # type: ignore[attr-defined]
    return method


def member_property(accessor: str, name: str, function: Callable[[Any], Any], doc: str | None) -> property:
    """A property of an accessor: native, or on refusal pandas' own."""
    label = f"Series.{accessor}.{name}"

    def fallback(self: Any) -> Any:
        return getattr(self._pandas(), name)

    def getter(self: Any) -> Any:
        return dispatch(label, function, fallback, self, (), {})

    def setter(self: Any, value: Any) -> None:
        setattr(self._pandas(), name, value)  # pandas words the error

    getter.__craton_native__ = function  # type: ignore[attr-defined]
    return property(getter, setter, doc=doc)


def document(method: Any, original: Any) -> Any:
    """Give a method the signature and docstring of pandas' own."""
    return functools.wraps(original)(method)


@cached_by_dtype
def empty_series(dtype: Any) -> pd.Series:
    """An empty Series of a dtype, to ask pandas for results without data."""
    return pd.Series([], dtype=dtype)


@cached_by_dtype
def sample_series(dtype: Any) -> pd.Series:
    """A Series of one short string, or one category, to ask pandas for results where it looks at the values."""
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Series(pd.Categorical.from_codes([0] if len(dtype.categories) else [-1], dtype=dtype))
    return pd.Series(["a"], dtype=dtype)
