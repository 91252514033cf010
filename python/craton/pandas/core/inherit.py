"""Wrappers of the methods that Craton's classes inherit: they run in pandas, are counted, and return Craton's objects.

Methods without a native implementation would work by inheritance alone. The wrapper counts the fallback, materialises the object
once instead of planning each step of pandas' code, and converts results of pandas' classes to Craton's
(:func:`~craton.pandas.core.counterparts.as_craton`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import pandas as pd
from pandas.core.accessor import Accessor

from craton.pandas.core.counterparts import as_craton, plannable, reduce_by_counterpart
from craton.pandas.core.native import by_object, getattr_static, native, wrapped
from craton.pandas.core.routing import inside_pandas, stays_in_pandas

#: Methods that are not wrapped: reading the data is no fallback, and methods that only pass the object on do not run its plan.
_LEFT_ALONE = frozenset(
    [
        "boxplot",
        "equals",
        "factorize",
        "get",
        "hist",
        "info",
        "item",
        "items",
        "iterrows",
        "itertuples",
        "keys",
        "memory_usage",
        "pipe",
        "searchsorted",
        "set_flags",
        "tolist",
    ]
)
#: Methods that only make a deferred object.
_DEFERRING = frozenset(["resample"])
#: Methods whose argument must be of exactly the object's class.
_OF_ONE_CLASS = frozenset(["compare"])
_SPECIAL = frozenset(
    f"__{name}__"
    for name in [
        "abs",
        "array_ufunc",
        "delitem",
        "divmod",
        "matmul",
        "neg",
        "pos",
        "rdivmod",
        "rmatmul",
        "round",
        "setitem",
    ]
)


def inherit(cls: type, base: type) -> None:
    """Wrap the methods that a class of Craton inherits unchanged from its pandas class.

    Parameters
    ----------
    cls
        Craton's class.
    base
        The pandas class whose counterpart it is.
    """
    for name in dir(base):
        method = getattr_static(base, name)
        if not isinstance(method, FunctionType) or getattr_static(cls, name) is not method:
            continue
        if name in _DEFERRING:
            setattr(cls, name, _wrap_deferring(method))
        elif name in _OF_ONE_CLASS:
            setattr(cls, name, native(base, name, theirs=_with_counterpart(method), like=method)(None))
        elif name in _SPECIAL or not (name.startswith("_") or name in _LEFT_ALONE or _is_export(name)):
            setattr(cls, name, native(base, name)(None))


def _is_export(name: str) -> bool:
    return name.startswith("to_") and name not in ("to_period", "to_timestamp")


def _with_counterpart(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that converts its arguments from pandas' class to Craton's, unless the object is of a subclass by a user."""

    def converting(self: Any, *args: Any, **kwargs: Any) -> Any:
        if plannable(type(self)):
            args = tuple(map(as_craton, args))
            kwargs = {name: as_craton(value) for name, value in kwargs.items()}
        return method(self, *args, **kwargs)

    converting.__doc__ = method.__doc__
    return converting


def _wrap_deferring(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that makes a deferred object: the result is converted to Craton's class, and the call is not counted."""
    return wrapped(method.__qualname__, method, route=by_object(lambda _: True))  # type: ignore[no-any-return]


# -- deferred objects and accessors -----------------------------------------------------------------------------------


def _object_of(holder: Any) -> Any:
    """The DataFrame or Series of a window, a resampler or an accessor."""
    state = holder.__dict__
    for name in ("obj", "_obj", "_parent", "_data"):
        if isinstance(state.get(name), (pd.DataFrame, pd.Series)):
            return state[name]
    return None


def _stays(holder: Any) -> bool:
    obj = _object_of(holder)
    return inside_pandas() or obj is None or stays_in_pandas(obj)


def _counted_property(label: str, attribute: Any) -> property:
    getter = wrapped(label, lambda self: attribute.__get__(self, type(self)), route=by_object(_stays))
    return property(getter, attribute.fset, attribute.fdel, attribute.__doc__)


def _labelled(called: Callable[..., Any], label: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: called(self, label, *args, **kwargs)


def counterpart(
    theirs: Any,
    prefix: str = "",
    properties: bool = False,
    calls: Mapping[str, Callable[..., Any]] | None = None,
    planned: Mapping[str, Callable[..., Any]] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    """A subclass of a pandas class whose methods are counted and return Craton's objects.

    Parameters
    ----------
    theirs
        The class of a window, a resampler or an accessor.
    prefix
        The prefix of its methods' labels, by default the name of the class.
    properties
        Whether its properties are wrapped, too, because they may return frames or columns.
    calls
        Replacements for methods that call a Python function, by name. They are called with the object, the label and the arguments.
    planned
        Native implementations of methods, by name.
    attributes
        Further attributes of the subclass.
    """
    members: dict[str, Any] = {
        "__doc__": theirs.__doc__,
        "__module__": theirs.__module__,
        "__qualname__": theirs.__qualname__,
        "__reduce_ex__": reduce_by_counterpart(theirs),
        **(attributes or {}),
    }
    for name in dir(theirs):
        attribute = getattr_static(theirs, name)
        label = f"{prefix or theirs.__name__}.{name}"
        if name.startswith("_") and name not in ("__getitem__", "__call__"):
            continue
        if name == "pipe":
            continue
        if calls is not None and name in calls:
            members[name] = wrapped(label, attribute, route=by_object(_stays), calls=_labelled(calls[name], label))
        elif isinstance(attribute, FunctionType):
            members[name] = wrapped(label, attribute, (planned or {}).get(name), route=by_object(_stays))
        elif isinstance(attribute, classmethod):
            members[name] = classmethod(_wrap_deferring(attribute.__func__))
        elif properties and isinstance(attribute, property):
            members[name] = _counted_property(label, attribute)
    return type(theirs.__name__, (theirs,), members)


class CountedAccessor(Accessor):  # type: ignore[misc]
    """A pandas accessor whose methods and properties are counted and return Craton's objects."""

    def __init__(self, name: str, base: type) -> None:
        self._name = name
        self._base = base

    @functools.cached_property
    def _theirs(self) -> Any:
        return getattr_static(self._base, self._name)._accessor

    @functools.cached_property
    def _accessor(self) -> Any:
        return counterpart(self._theirs, f"{self._base.__name__}.{self._name}", properties=True)

    def __get__(self, obj: Any, cls: Any) -> Any:
        return self._theirs if obj is None else self._accessor(obj)


__all__ = ["CountedAccessor", "counterpart", "inherit"]
