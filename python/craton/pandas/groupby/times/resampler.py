"""The base of the classes of resamplers, which are subclasses of pandas' own: methods that are not native run on pandas' resampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from craton.errors import Unsupported
from craton.pandas.core.native import by_object, getattr_static, native_property, wrapped
from craton.pandas.core.routing import inside_pandas
from craton.refusals import Refusal

__all__ = ["NativeResampler", "arguments_of", "resampler_class"]


class NativeResampler:
    """What a resampler is beside its native methods: pandas' own resampler, which is made when it is needed."""

    def _make(self) -> Any:
        """Make pandas' own resampler."""
        raise NotImplementedError

    def _pandas_resampler(self) -> Any:
        """Pandas' own resampler of what was resampled, as it was then."""
        own = self.__dict__
        if "_made" not in own:
            own["_made"] = self._make()
        return own["_made"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pandas_resampler(), name)

    def __reduce__(self) -> Any:
        return self._pandas_resampler().__reduce__()

    def __str__(self) -> str:
        return str(self._pandas_resampler())


def arguments_of(
    theirs: Callable[..., Any], resampler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call of pandas' method by name, without the resampler.

    Raises
    ------
    Unsupported
        If it has no such parameters; pandas then raises its own error.
    """
    try:
        bound = signature(theirs).bind(resampler, *args, **kwargs).arguments
    except TypeError as error:
        raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    given = {key: item for key, item in bound.items() if key != "self"}
    return given | given.pop("kwargs", {})


def resampler_class(base: type, pandas_class: type, native: Mapping[str, Callable[..., Any]]) -> Any:
    """A subclass of a class of pandas' resamplers: native methods, and methods of pandas' own resampler, counted as fallbacks.

    Parameters
    ----------
    base
        The subclass of :class:`NativeResampler`.
    pandas_class
        Pandas' class.
    native
        The native methods by name.
    """
    members: dict[str, Any] = {"__module__": "pandas.api.typing"}
    public = [name for name in dir(pandas_class) if not name.startswith("_")]
    for name in (*public, "__getitem__", "__iter__", "__len__"):
        attribute = getattr_static(pandas_class, name)
        if callable(attribute):
            members[name] = _method(f"{pandas_class.__name__}.{name}", attribute, native.get(name))
        elif attribute is not None:
            members[name] = _property(pandas_class, name)
    return type(pandas_class.__name__, (base, pandas_class), members)


def _stays(_: Any) -> bool:
    return inside_pandas()


def _method(label: str, theirs: Callable[..., Any], function: Callable[..., Any] | None) -> Any:
    def in_pandas(self: Any, *args: Any, **kwargs: Any) -> Any:
        return theirs(self._pandas_resampler(), *args, **kwargs)

    return wrapped(label, theirs, function, fallback=in_pandas, route=by_object(_stays))


def _property(pandas_class: type, name: str) -> Any:
    def read(resampler: Any) -> Any:
        return getattr(resampler._pandas_resampler(), name)

    return native_property(pandas_class, name, read=read, stays=_stays)(None)
