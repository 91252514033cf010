"""How a method runs as a plan, and what happens when it can't.

A native method takes views and returns a lazy object, or raises :class:`~craton.errors.Unsupported`; then pandas' own
method runs on the materialised object, which is what inheritance gives, and the call is counted. Small in-memory
objects, and everything that pandas calls inside its own methods, go to pandas directly.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from craton import events, fallbacks, forks
from craton.config import options
from craton.errors import Unsupported
from craton.pandas.counterparts import crafted
from craton.pandas.stack import IN_PLACE, METHOD_LIMIT, SET_LIMIT, SETTING_ITEM, assigns, warn_of_chaining
from craton.refusals import Reason, Refusal

_state = threading.local()


def inside_pandas() -> bool:
    """Whether a pandas method is running that a native one fell back to."""
    return bool(getattr(_state, "depth", False))


class plain_pandas:
    """A block in which nothing is planned: pandas' own methods run as they are."""

    def __enter__(self) -> None:
        _state.depth = getattr(_state, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        _state.depth -= 1


def is_lazy(obj: Any) -> bool:
    """Whether an object holds a plan that has not been run.

    In a process whose kernel was lost in a fork, plans are not continued but run, elsewhere, by whoever looks.
    """
    return "_view" in obj.__dict__ and not _run_in_fork(obj)


def _run_in_fork(obj: Any) -> bool:
    return forks.kernel_lost() and obj._mgr is not None


def stays_in_pandas(obj: Any) -> bool:
    """Whether an object's methods run in plain pandas: small and in memory, or called by pandas itself."""
    state = obj.__dict__
    if "_view" in state:
        return _run_in_fork(obj)
    manager = state.get("_mgr")
    if manager is None or inside_pandas() or forks.kernel_lost():
        return True
    small = options.small_rows
    return bool(small) and len(manager.axes[-1]) <= small


def native(
    base: type, name: str | None = None, fallback: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the native implementation of a method of a pandas class.

    Parameters
    ----------
    base
        The pandas class that has the method, for the signature, the docstring and the fallback.
    name
        The method's name, if it is not the function's.
    fallback
        What is called on refusal, where pandas' method must get other arguments than the user's.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        method = name or function.__name__
        theirs = getattr(base, method)
        refused = fallback or theirs
        label = f"{base.__name__}.{method}"

        if assigns(method):
            in_place = method in IN_PLACE
            limit = SET_LIMIT if method == SETTING_ITEM else METHOD_LIMIT

            @functools.wraps(theirs)
            def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
                if sys.getrefcount(self) <= limit and (not in_place or kwargs.get("inplace") is True):
                    warn_of_chaining(self, method)
                if stays_in_pandas(self):
                    return crafted(theirs(self, *args, **kwargs))
                return dispatch(label, function, refused, self, args, kwargs)

        else:

            @functools.wraps(theirs)
            def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
                if stays_in_pandas(self):
                    return crafted(theirs(self, *args, **kwargs))
                return dispatch(label, function, refused, self, args, kwargs)

        wrapper.__craton_native__ = function  # type: ignore[attr-defined]
        if "axis" in theirs.__code__.co_varnames:  # pandas asks for it, and asks the outermost function only
            wrapper.__signature__ = inspect.signature(theirs)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def native_property(base: type, name: str | None = None) -> Callable[[Callable[[Any], Any]], property]:
    """Decorate the native implementation of a property of a pandas class; settable and deletable as pandas' own."""

    def decorate(function: Callable[[Any], Any]) -> property:
        attribute = name or function.__name__
        descriptor = getattr_static(base, attribute)
        label = f"{base.__name__}.{attribute}"

        def pandas_get(self: Any) -> Any:
            return descriptor.__get__(self, type(self))

        def getter(self: Any) -> Any:
            if stays_in_pandas(self):
                return crafted(pandas_get(self))
            return dispatch(label, function, pandas_get, self, (), {})

        def setter(self: Any, value: Any) -> None:
            descriptor.__set__(self, value)

        getter.__doc__ = getattr(descriptor, "__doc__", None)
        getter.__craton_native__ = function  # type: ignore[attr-defined]
        return property(getter, setter if hasattr(descriptor, "__set__") else None)

    return decorate


def getattr_static(owner: type, name: str) -> Any:
    """A class attribute as it is stored, descriptors not called."""
    for cls in owner.__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name]
    raise AttributeError(name)


def dispatch(
    label: str,
    function: Callable[..., Any],
    fallback: Callable[..., Any],
    self: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run the native implementation, or pandas' own if it refuses; count and report which."""
    if forks.kernel_lost():
        return _in_pandas(label, Reason(Refusal.FORKED), fallback, self, args, kwargs)
    if any(map(_read_once, args)) or any(map(_read_once, kwargs.values())):
        function = _refuse_iterator
    if not events.active:
        try:
            return function(self, *args, **kwargs)
        except Unsupported as refusal:
            reason = refusal.reason
        return _in_pandas(label, reason, fallback, self, args, kwargs)
    started = time.perf_counter()
    refused: Reason | None = None
    try:
        result = function(self, *args, **kwargs)
    except Unsupported as refusal:
        refused = refusal.reason
    if refused is not None:
        result = _in_pandas(label, refused, fallback, self, args, kwargs)
    events.emit(
        "call",
        name=label,
        native=refused is None,
        reason=None if refused is None else str(refused),
        seconds=time.perf_counter() - started,
        rows=known_rows(result),
        started=started,
    )
    return result


def _read_once(arg: Any) -> bool:
    """Whether an argument is an iterator over values: whoever reads it first leaves nothing to others."""
    return isinstance(arg, Iterator) and not hasattr(arg, "read") and not hasattr(arg, "write")


def _refuse_iterator(*_: Any, **__: Any) -> Any:
    raise Unsupported(Refusal.ITERATOR)


def _in_pandas(
    label: str, reason: Reason, fallback: Callable[..., Any], self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    fallbacks.count(label, reason)
    with plain_pandas():
        return crafted(fallback(self, *args, **kwargs))


def known_rows(result: Any) -> int | None:
    """The rows of a result, where they are known without running anything."""
    if isinstance(result, (pd.DataFrame, pd.Series)):
        view = result.__dict__.get("_view")
        if view is not None:
            return view.rows  # type: ignore[no-any-return]
        return len(result)
    return None


def reader(base: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the native implementation of one of pandas' top-level functions that return frames."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        label = base.__name__

        @functools.wraps(base)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if inside_pandas():
                return crafted(base(*args, **kwargs))
            if forks.kernel_lost() and args and _is_pattern(args[0]):
                from craton.pandas.kernel_process import read_elsewhere

                return read_elsewhere(label, args, kwargs)
            return dispatch(label, _ignoring_self(function), _ignoring_self(base), None, args, kwargs)

        wrapper.__craton_native__ = function  # type: ignore[attr-defined]
        wrapper.__module__ = "craton.pandas"  # where it is pickled from
        return wrapper

    return decorate


def _is_pattern(path: Any) -> bool:
    return isinstance(path, str) and not {"*", "?", "["}.isdisjoint(path) and not os.path.exists(path)


def _ignoring_self(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *args, **kwargs: function(*args, **kwargs)
