"""The common base of ``Series.str`` and ``Series.dt``: members that become part of the plan, and pandas' own for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native_property, never_in_pandas, wrapped
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import Value, View


class LazyAccessor:
    """An accessor of a lazy Series. It creates pandas' own accessor when a call needs it.

    It is mixed into subclasses of pandas' accessor classes, so that ``isinstance`` checks pass; pandas' ``__init__`` does not run.
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
        """A Series of another column, with the name of the accessor's Series."""
        return lazy(type(self._series), held.series(value, self._series.name), self._series)


def member(accessor: str, name: str, function: Callable[..., Any] | None, like: Callable[..., Any]) -> Any:
    """A method of an accessor: native, or pandas' own if the native one refuses."""

    def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._pandas(), name)(*args, **kwargs)

    return wrapped(f"Series.{accessor}.{name}", theirs, function, like=like, route=never_in_pandas)


def member_property(accessor: str, name: str, function: Callable[[Any], Any], base: type) -> Any:
    """A property of an accessor: native, or pandas' own if the native one refuses."""

    def read(self: Any) -> Any:
        return getattr(self._pandas(), name)

    def write(self: Any, value: Any) -> None:
        setattr(self._pandas(), name, value)  # raises pandas' error

    label = f"Series.{accessor}.{name}"
    return native_property(base, name, label=label, read=read, write=write, stays=None)(function)
