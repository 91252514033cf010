"""Which calls run as plans, and what happens to those that can't.

A native method takes views and returns a lazy object, or raises :class:`~craton.errors.Unsupported`; then pandas' own
method runs on the materialised object, which is what inheritance gives, and the call is counted. Small in-memory
objects, and everything that pandas calls inside its own methods, go to pandas directly.

Whatever has a native implementation is an entry of :data:`REGISTRY` and is called by way of :class:`Native`. Methods and
operators are marked by :func:`native`, properties by :func:`native_property`, functions of the module by
:func:`native_function`, members of accessors and of group-bys by :func:`wrapped`, and what plans always answer by
:func:`never_refused`. A :data:`Route` decides for each call whether pandas' own code runs instead, uncounted.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd

from craton import events, fallbacks, forks
from craton.errors import Unsupported
from craton.kernel.interrupts import InterruptGuard
from craton.pandas.core import numpy_errors
from craton.pandas.core.counterparts import as_craton
from craton.pandas.core.function_keys import called_once
from craton.pandas.core.routing import inside_pandas, plain_pandas, stays_in_pandas
from craton.pandas.core.stack import IN_PLACE, METHOD_LIMIT, SET_LIMIT, SETTING_ITEM, assigns, warn_of_chaining
from craton.refusals import Reason, Refusal

# -- what is planned, and what is counted -----------------------------------------------------------------------------


class Native:
    """One call of pandas' that this package answers: by a plan, or by pandas' own code and a count.

    Parameters
    ----------
    label
        The call, as the user knows it: ``"DataFrame.merge"``.
    theirs
        Pandas' own.
    function
        The native implementation; raises :class:`~craton.errors.Unsupported` for what it does not do. ``None``: nothing
        is planned, and every call is counted.
    fallback
        What is called on refusal, where pandas' own must get other arguments than the user's, or other state.
    calls
        Tried before anything else, for objects of every size: what calls a Python function of the user's.
    named
        The label of one call, from the object and the arguments, where it is not always the same.
    key
        Whether the first argument is a key, of which functions are called once (:class:`Once`).
    """

    __slots__ = ("_uses_numpy_errstate", "calls", "fallback", "function", "key", "label", "named", "theirs")

    def __init__(
        self,
        label: str,
        theirs: Callable[..., Any],
        function: Callable[..., Any] | None = None,
        fallback: Callable[..., Any] | None = None,
        calls: Callable[..., Any] | None = None,
        named: Callable[..., str] | None = None,
        key: bool = False,
    ) -> None:
        self.label = label
        self.theirs = theirs
        self.function = function
        self.fallback = fallback or theirs
        self.calls = calls
        self.named = named
        self.key = key
        self._uses_numpy_errstate = label.rpartition(".")[2] in numpy_errors.METHODS
        if self.planned or label not in REGISTRY:
            REGISTRY[label] = self

    @property
    def planned(self) -> bool:
        """Whether there is a native implementation."""
        return self.function is not None or self.calls is not None

    def run(self, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: Reason | None = None) -> Any:
        """Run the native implementation, or pandas' own if it refuses, or if there is a reason to; count and report which."""
        with InterruptGuard():
            return self._run(obj, args, kwargs, reason)

    def _run(self, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: Reason | None) -> Any:
        if forks.kernel_lost():
            return self.run_in_pandas(Reason(Refusal.FORKED), obj, args, kwargs)
        if self.key and args:
            args = (called_once(args[0]), *args[1:])
        if any(map(_is_one_shot_iterator, args)) or any(map(_is_one_shot_iterator, kwargs.values())):
            reason = Reason(Refusal.ITERATOR)
        elif self.function is None:
            reason = Reason(Refusal.METHOD)
        elif self._uses_numpy_errstate and numpy_errors.reports_errors():
            reason = Reason(Refusal.NUMPY_ERRORS)
        if not events.active:
            if reason is None:
                try:
                    return self.function(obj, *args, **kwargs)  # type: ignore[misc]
                except Unsupported as refusal:
                    reason = refusal.reason
            return self.run_in_pandas(reason, obj, args, kwargs)
        started = time.perf_counter()
        if reason is None:
            try:
                result = self.function(obj, *args, **kwargs)  # type: ignore[misc]
            except Unsupported as refusal:
                reason = refusal.reason
        if reason is not None:
            result = self.run_in_pandas(reason, obj, args, kwargs)
        self._report_call(obj, args, started, result, reason)
        return result

    def try_call(self, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], stays: Callable[[Any], bool]) -> Any:
        """What calling a function of the user's gave, or :data:`NOT_HANDLED` if this is no such call; told if the object is planned."""
        started = time.perf_counter()
        try:
            with InterruptGuard():
                result = self.calls(obj, *args, **kwargs)  # type: ignore[misc]
        except Unsupported:
            return NOT_HANDLED
        if events.active and not stays(obj):
            self._report_call(obj, args, started, result, None)
        return as_craton(result)

    def run_in_pandas(self, reason: Reason, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Count the call, and run pandas' own code."""
        count_fallback(self._label_of_call(obj, args), reason)
        with plain_pandas():
            return as_craton(self.fallback(obj, *args, **kwargs))

    def _label_of_call(self, obj: Any, args: tuple[Any, ...]) -> str:
        return self.label if self.named is None else self.named(obj, *args)

    def _report_call(self, obj: Any, args: tuple[Any, ...], started: float, result: Any, reason: Reason | None) -> None:
        events.emit(
            "call",
            name=self._label_of_call(obj, args),
            native=reason is None,
            reason=None if reason is None else str(reason),
            seconds=time.perf_counter() - started,
            rows=known_rows(result),
            started=started,
        )


#: Every call that is planned or counted, by its label.
REGISTRY: dict[str, Native] = {}

NOT_HANDLED: Any = object()


def count_fallback(label: str, reason: Reason, told: bool = False) -> None:
    """Count a call that ran, or runs, in pandas; tell those who listen, where nobody else does."""
    fallbacks.count(label, reason)
    if told and events.active:
        events.emit("call", name=label, native=False, reason=str(reason), seconds=0.0, rows=None)


def _is_one_shot_iterator(arg: Any) -> bool:
    """Whether an argument is an iterator over values: whoever reads it first leaves nothing to others."""
    return isinstance(arg, Iterator) and not hasattr(arg, "read") and not hasattr(arg, "write")


def known_rows(result: Any) -> int | None:
    """The rows of a result, where they are known without running anything."""
    if isinstance(result, (pd.DataFrame, pd.Series)):
        view = result.__dict__.get("_view")
        if view is not None:
            return view.rows  # type: ignore[no-any-return]
        return len(result)
    return None


# -- how a call is marked ---------------------------------------------------------------------------------------------

_OBJECTS = (pd.DataFrame, pd.Series)
Implementation = Callable[..., Any] | None
_NO_NAMES: Mapping[str, Any] = {}
Decorator = Callable[[Implementation], Any]


def native(
    base: type,
    name: str | None = None,
    *,
    label: str | None = None,
    theirs: Callable[..., Any] | None = None,
    **parameters: Any,
) -> Decorator:
    """Decorate the native implementation of a method of a pandas class, or an operator; of ``None``, it is counted only.

    Parameters
    ----------
    base
        The pandas class that has the method, for the signature, the docstring and the fallback.
    name
        The method's name, if it is not the function's.
    label
        How it is shown, if not by the class and the name.
    theirs
        Pandas' own, if it is not the class's attribute.
    **parameters
        As of :func:`wrapped`.
    """

    def decorate(function: Implementation) -> Any:
        method = name or function.__name__  # type: ignore[union-attr]
        own = getattr(base, method) if theirs is None else theirs
        if function is not None and hasattr(own, "__qualname__"):
            function.__qualname__ = own.__qualname__  # Python names it where arguments are missing
        return wrapped(label or f"{base.__name__}.{method}", own, function, method=method, **parameters)

    return decorate


def wrapped(
    label: str,
    theirs: Callable[..., Any],
    function: Implementation = None,
    *,
    method: str = "",
    like: Callable[..., Any] | None = None,
    route: Route | None = None,
    **parameters: Any,
) -> Any:
    """A method in the place of one of pandas', with its signature and docstring.

    Parameters
    ----------
    label, theirs, function
        As of :class:`Native`.
    method
        The method's name, by which pandas' own counts references to warn of chained assignments.
    like
        What has the signature and docstring, if ``theirs`` has not.
    route
        Decides for each call whether pandas' own method runs, uncounted, or the native one; by default :func:`by_object`.
    **parameters
        As of :class:`Native`.
    """
    entry = Native(label, theirs, function, **parameters)
    return _with_signature_of((route or by_object())(entry, method), like or theirs, entry)


# -- which calls run in plain pandas ----------------------------------------------------------------------------------

#: Makes the function that is called in the place of a method of pandas, from its entry and the method's name.
Route = Callable[[Native, str], Callable[..., Any]]


def by_object(stays: Callable[[Any], bool] = stays_in_pandas) -> Route:
    """Calls on objects for which ``stays`` is true run in plain pandas."""

    def route(entry: Native, method: str) -> Callable[..., Any]:
        if entry.calls is not None:
            return _calling(entry, stays)
        if assigns(method):
            return _assigning(entry, stays, method)
        run, theirs = entry.run, entry.theirs

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if stays(self):
                return as_craton(theirs(self, *args, **kwargs))
            return run(self, args, kwargs)

        return wrapper

    return route


def _calling(entry: Native, stays: Callable[[Any], bool]) -> Callable[..., Any]:
    """The route of methods that call a Python function of the user's, for objects of every size."""
    run, theirs = entry.run, entry.theirs

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if inside_pandas():
            return as_craton(theirs(self, *args, **kwargs))
        result = entry.try_call(self, args, kwargs, stays)
        if result is not NOT_HANDLED:
            return result
        if stays(self):
            return as_craton(theirs(self, *args, **kwargs))
        return run(self, args, kwargs)

    return wrapper


def _assigning(entry: Native, stays: Callable[[Any], bool], method: str) -> Callable[..., Any]:
    """The route of methods that warn of chained assignments, by counting the references to the object."""
    run, theirs = entry.run, entry.theirs
    in_place = method in IN_PLACE
    limit = SET_LIMIT if method == SETTING_ITEM else METHOD_LIMIT

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if sys.getrefcount(self) <= limit and (not in_place or kwargs.get("inplace") is True):
            warn_of_chaining(self, method)
        if stays(self):
            return as_craton(theirs(self, *args, **kwargs))
        return run(self, args, kwargs)

    return wrapper


def never_in_pandas(entry: Native, _: str) -> Callable[..., Any]:
    """No call runs in plain pandas: small objects have no such method, or do not come here."""
    run = entry.run

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, args, kwargs)

    return wrapper


def by_operands(entry: Native, _: str) -> Callable[..., Any]:
    """The route of binary operators: calls on two operands that stay in pandas run there."""
    run, theirs = entry.run, entry.theirs

    def wrapper(self: Any, other: Any) -> Any:
        if stays_in_pandas(self) and (not isinstance(other, _OBJECTS) or stays_in_pandas(other)):
            return as_craton(theirs(self, other))
        return run(self, (other,), _NO_NAMES)

    return wrapper


def by_arguments(stays: Callable[..., bool]) -> Route:
    """Calls for which ``stays`` is true of the object and the arguments run in plain pandas (:func:`all_stay`)."""

    def route(entry: Native, _: str) -> Callable[..., Any]:
        run, theirs = entry.run, entry.theirs

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if stays(self, *args, **kwargs):
                return as_craton(theirs(self, *args, **kwargs))
            return run(self, args, kwargs)

        return wrapper

    return route


def by_callback(call: Callable[..., Any]) -> Route:
    """``call`` gets the entry, the object and the arguments, and decides."""

    def route(entry: Native, _: str) -> Callable[..., Any]:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return call(entry, self, args, kwargs)

        return wrapper

    return route


def _with_signature_of(wrapper: Any, like: Any, entry: Native) -> Any:
    """A wrapper with the signature and docstring of pandas' own, by which its entry is found."""
    functools.update_wrapper(wrapper, like)
    wrapper.__craton_native__ = entry
    code = getattr(like, "__code__", None)
    if code is not None and "axis" in code.co_varnames:  # pandas asks for it, and asks the outermost function only
        wrapper.__signature__ = inspect.signature(like)
    return wrapper


def native_property(
    base: type,
    name: str | None = None,
    *,
    label: str | None = None,
    read: Callable[[Any], Any] | None = None,
    write: Callable[[Any, Any], None] | None = None,
    stays: Callable[[Any], bool] | None = stays_in_pandas,
) -> Decorator:
    """Decorate the native implementation of a property of a pandas class; settable and deletable as pandas' own.

    Parameters
    ----------
    base, name, label
        As of :func:`native`.
    read, write
        Pandas' own, if not by the class's attribute.
    stays
        Whether an object's property is read in plain pandas; with ``None`` no object's is.
    """

    def decorate(function: Implementation) -> property:
        attribute = name or function.__name__  # type: ignore[union-attr]
        descriptor = getattr_static(base, attribute)

        def pandas_get(self: Any) -> Any:
            return descriptor.__get__(self, type(self))

        def pandas_set(self: Any, value: Any) -> None:
            descriptor.__set__(self, value)

        theirs = read or pandas_get
        entry = Native(label or f"{base.__name__}.{attribute}", theirs, function)

        def getter(self: Any) -> Any:
            if stays is not None and stays(self):
                return as_craton(theirs(self))
            return entry.run(self, (), {})

        getter.__doc__ = getattr(descriptor, "__doc__", None)
        getter.__craton_native__ = entry  # type: ignore[attr-defined]
        settable = hasattr(descriptor, "__set__")
        return property(getter, write or (pandas_set if settable else None), getattr(descriptor, "fdel", None))

    return decorate


def mark_never_refused(label: str, theirs: Any, function: Any, planned: bool = True) -> Any:
    """A function that a plan always answers: no call of it is refused, or counted.

    Parameters
    ----------
    label, theirs, function
        As of :class:`Native`.
    planned
        Whether it is a plan that answers; else this is pandas' own with something besides.
    """
    if not planned:
        like: Any = theirs.fget if isinstance(theirs, property) else theirs
        functools.update_wrapper(function, like)
    function.__craton_native__ = Native(label, theirs, function if planned else None)
    return function


def never_refused(base: type, *names: str, planned: bool = True) -> Callable[[type], type]:
    """Decorate a class of methods and properties that plans always answer: these names, or all that are public.

    See :func:`mark_never_refused`.
    """

    def decorate(cls: type) -> type:
        for name in names or [name for name in vars(cls) if not name.startswith("_")]:
            member = vars(cls)[name]
            function = member.fget if isinstance(member, property) else member
            mark_never_refused(f"{base.__name__}.{name}", getattr_static(base, name), function, planned)
        return cls

    return decorate


def native_function(
    theirs: Callable[..., Any],
    *,
    prepare: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None,
    stays: Callable[..., bool] | None = None,
    elsewhere: Callable[..., bool] | None = None,
    craft: bool = True,
) -> Decorator:
    """Decorate the native implementation of a function of the pandas module; of ``None``, it is counted only.

    Parameters
    ----------
    theirs
        Pandas' own.
    prepare
        Gives the arguments in the place of the call's.
    stays
        Whether a call runs in plain pandas and is not counted, by its arguments; by default, if pandas makes it.
    elsewhere
        Whether a call, by its arguments, runs in another process where this one has lost its kernel in a fork.
    craft
        Whether what pandas returns then becomes one of Craton's objects.
    """

    def decorate(function: Implementation) -> Any:
        label = theirs.__name__
        entry = Native(label, _drop_object(theirs), None if function is None else _drop_object(function))

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if prepare is not None:
                args, kwargs = prepare(*args, **kwargs)
            if inside_pandas() if stays is None else stays(*args, **kwargs):
                result = theirs(*args, **kwargs)
                return as_craton(result) if craft else result
            if elsewhere is not None and forks.kernel_lost() and elsewhere(*args, **kwargs):
                from craton.engine.kernel_process import call_in_kernel_process as in_its_process

                return in_its_process(_call_function_by_name, label, args, kwargs)
            return entry.run(None, args, kwargs)

        _with_signature_of(wrapper, theirs, entry)
        wrapper.__module__ = "craton.pandas"  # where it is pickled from
        return wrapper

    return decorate


def _call_function_by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What one of the functions gives in another process: pickled with its data."""
    return getattr(sys.modules["craton.pandas"], name)(*args, **kwargs)


def is_file_pattern(*args: Any, **_: Any) -> bool:
    """Whether a reader's first argument is a pattern, which pandas knows nothing of."""
    path = args[0] if args else None
    return isinstance(path, str) and not {"*", "?", "["}.isdisjoint(path) and not os.path.exists(path)


def getattr_static(owner: type, name: str) -> Any:
    """A class attribute as it is stored, descriptors not called."""
    for cls in owner.__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name]
    raise AttributeError(name)


def _drop_object(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *args, **kwargs: function(*args, **kwargs)
