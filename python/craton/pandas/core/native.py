"""Dispatch of pandas calls: to a native implementation, or to pandas' own code.

A native method reads views and returns a lazy object. If it raises :class:`~craton.errors.Unsupported`, the call falls back:
pandas' own method runs on the materialised object, and the call is counted. Methods of small objects in memory, and calls that
pandas makes inside its own methods, run in pandas directly.

Every native implementation is an entry (:class:`Native`) of :data:`REGISTRY`. :func:`native` registers methods and operators,
:func:`native_property` properties, :func:`native_function` functions of the module, :func:`wrapped` members of accessors and
group-bys, and :func:`never_refused` members that never fall back. A :data:`Route` decides for each call whether pandas' own code
runs uncounted instead.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import pandas as pd

from craton import events, fallbacks, forks
from craton.errors import Unsupported
from craton.kernel.interrupts import InterruptGuard
from craton.pandas.core import numpy_errors
from craton.pandas.core.cheap_calls import is_cheap, runs_in_pandas, with_shared_columns
from craton.pandas.core.counterparts import CounterpartProperty, as_craton
from craton.pandas.core.function_keys import called_once
from craton.pandas.core.routing import PANDAS_OBJECTS, inside_pandas, plain_pandas, stays_in_pandas
from craton.pandas.core.stack import IN_PLACE, METHOD_LIMIT, SET_LIMIT, SETTING_ITEM, assigns, warn_of_chaining
from craton.refusals import Reason, Refusal
from craton.tracebacks import shorten

# -- entries of the registry ------------------------------------------------------------------------------------------


class Native:
    """One method, operator, property or function of pandas that Craton replaces.

    Parameters
    ----------
    label
        Its name for the user: ``"DataFrame.merge"``.
    theirs
        Pandas' own implementation.
    function
        The native implementation, which raises :class:`~craton.errors.Unsupported` for calls that it refuses. With ``None``,
        every call falls back.
    fallback
        The function for refused calls, if it is not ``theirs``: where pandas needs other arguments or another state.
    calls
        An implementation that calls a Python function of the user. It is tried first, for objects of every size.
    named
        Returns the label of one call from the object and the arguments, where labels differ between calls.
    key
        Whether the first argument is a key, in which functions are called at most once
        (:class:`~craton.pandas.core.function_keys.CallOnce`).
    """

    __slots__ = (
        "_is_cheap",
        "_uses_numpy_errstate",
        "calls",
        "fallback",
        "function",
        "key",
        "label",
        "named",
        "theirs",
    )

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
        self._is_cheap = is_cheap(label) and self.planned
        self._uses_numpy_errstate = label.rpartition(".")[2] in numpy_errors.METHODS
        if self.planned or label not in REGISTRY:
            REGISTRY[label] = self

    @property
    def planned(self) -> bool:
        """Whether there is a native implementation."""
        return self.function is not None or self.calls is not None

    def run(self, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: Reason | None = None) -> Any:
        """Run the native implementation; if it refuses, or if a reason is given, run pandas' own and count the fallback."""
        try:
            with InterruptGuard():
                return self._run(obj, args, kwargs, reason)
        except Exception as error:
            shorten(error)
            raise

    def _run(self, obj: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: Reason | None) -> Any:
        if forks.kernel_lost():
            return self.run_in_pandas(Reason(Refusal.FORKED), obj, args, kwargs)
        if self.key and args:
            args = (called_once(args[0]), *args[1:])
        if self._is_cheap and runs_in_pandas(self.label, obj, args, kwargs):
            with plain_pandas():
                return with_shared_columns(self.label, as_craton(self.fallback(obj, *args, **kwargs)), obj)
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
        """Run ``calls``; return :data:`NOT_HANDLED` if it refuses. An event is emitted if the object is planned."""
        started = time.perf_counter()
        try:
            with InterruptGuard():
                # The result is not stored in a variable, because as_craton makes a new object if there is another reference.
                result = as_craton(self.calls(obj, *args, **kwargs))  # type: ignore[misc]
        except Unsupported:
            return NOT_HANDLED
        except Exception as error:
            shorten(error)
            raise
        if events.active and not stays(obj):
            self._report_call(obj, args, started, result, None)
        return result

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


#: All entries, by label.
REGISTRY: dict[str, Native] = {}

NOT_HANDLED: Any = object()


def count_fallback(label: str, reason: Reason, emit: bool = False) -> None:
    """Count a call that runs in pandas; with ``emit``, also emit its event, which :meth:`Native.run` does otherwise."""
    fallbacks.count(label, reason)
    if emit and events.active:
        events.emit("call", name=label, native=False, reason=str(reason), seconds=0.0, rows=None)


def _is_one_shot_iterator(arg: Any) -> bool:
    """Whether an argument is an iterator that can be read only once, so that pandas could not read it after a refusal."""
    return isinstance(arg, Iterator) and not hasattr(arg, "read") and not hasattr(arg, "write")


def known_rows(result: Any) -> int | None:
    """The number of rows of a result; None if it is not known without running a plan."""
    if isinstance(result, (pd.DataFrame, pd.Series)):
        view = result.__dict__.get("_view")
        if view is not None:
            return view.rows  # type: ignore[no-any-return]
        return len(result)
    return None


# -- decorators of implementations ------------------------------------------------------------------------------------

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
    """Decorate the native implementation of a method or operator of a pandas class. With ``None``, every call falls back.

    Parameters
    ----------
    base
        The pandas class that has the method, from which signature, docstring and fallback come.
    name
        The method's name, by default the function's.
    label
        The label of the entry, by default the class and the name.
    theirs
        Pandas' own implementation, by default the attribute of the class.
    **parameters
        As for :func:`wrapped`.
    """

    def decorate(function: Implementation) -> Any:
        method = name or function.__name__  # type: ignore[union-attr]
        own = getattr(base, method) if theirs is None else theirs
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
    """A method that replaces one of pandas', with its signature and docstring.

    Parameters
    ----------
    label, theirs, function
        As for :class:`Native`.
    method
        The method's name. It decides whether the wrapper counts references to warn of chained assignments, as pandas does.
    like
        A function with the signature and docstring, if ``theirs`` does not have them.
    route
        Decides for each call whether pandas' own method runs, uncounted, or the entry; by default :func:`by_object`.
    **parameters
        As for :class:`Native`.
    """
    entry = Native(label, theirs, function, **parameters)
    shown = like or theirs
    named_as(shown, function)
    named_as(shown, entry.calls)
    return _with_signature_of((route or by_object())(entry, method), shown, entry)


def named_as(theirs: Any, function: Implementation) -> None:
    """Give a function the qualified name of pandas' own, which Python's errors show if arguments do not fit."""
    name = getattr(theirs, "__qualname__", None)
    if name is not None and isinstance(function, FunctionType):
        function.__qualname__ = name


# -- routes: which calls run in plain pandas --------------------------------------------------------------------------

#: Makes the replacement of a pandas method from the entry and the method's name.
Route = Callable[[Native, str], Callable[..., Any]]


def by_object(stays: Callable[[Any], bool] = stays_in_pandas) -> Route:
    """The route by which calls on objects for which ``stays`` is true run in plain pandas."""

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
    """The route of methods that call a Python function of the user: ``calls`` is tried for objects of every size."""
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
    """The route of methods that assign in place: it counts the references to the object to warn of chained assignments."""
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
    """The route by which no call runs in plain pandas: for accessors and indexers that small objects in memory never get."""
    run = entry.run

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, args, kwargs)

    return wrapper


def by_operands(entry: Native, _: str) -> Callable[..., Any]:
    """The route of binary operators: calls whose operands all stay in pandas run there."""
    run, theirs = entry.run, entry.theirs

    def wrapper(self: Any, other: Any) -> Any:
        if stays_in_pandas(self) and (not isinstance(other, PANDAS_OBJECTS) or stays_in_pandas(other)):
            return as_craton(theirs(self, other))
        return run(self, (other,), _NO_NAMES)

    return wrapper


def by_reflected_operands(entry: Native, method: str) -> Callable[..., Any]:
    """The route of reflected operators (``__radd__``), which Python calls first for an object of pandas' own class on the left.

    pandas aligns the right operand with the left one, so the operator of the left operand's counterpart is called.
    """
    wrapper, forward = by_operands(entry, method), f"__{method[3:]}"

    def reflected(self: Any, other: Any) -> Any:
        if any(type(other) is cls for cls in PANDAS_OBJECTS) and isinstance(self, type(other)):
            return getattr(as_craton(other), forward)(self)
        return wrapper(self, other)

    return reflected


def by_arguments(stays: Callable[..., bool]) -> Route:
    """The route by which calls run in plain pandas if ``stays`` is true for the object and the arguments."""

    def route(entry: Native, _: str) -> Callable[..., Any]:
        run, theirs = entry.run, entry.theirs

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            if stays(self, *args, **kwargs):
                return as_craton(theirs(self, *args, **kwargs))
            return run(self, args, kwargs)

        return wrapper

    return route


def by_callback(call: Callable[..., Any]) -> Route:
    """The route in which ``call`` decides: it is called with the entry, the object and the arguments."""

    def route(entry: Native, _: str) -> Callable[..., Any]:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return call(entry, self, args, kwargs)

        return wrapper

    return route


def _with_signature_of(wrapper: Any, like: Any, entry: Native) -> Any:
    """Give a wrapper the signature and docstring of pandas' function, and attach its entry."""
    functools.update_wrapper(wrapper, like)
    wrapper.__craton_native__ = entry
    code = getattr(like, "__code__", None)
    if code is not None and "axis" in code.co_varnames:  # pandas inspects the wrapper's signature for it
        wrapper.__signature__ = _SignatureOf(like)
    return wrapper


class _SignatureOf(inspect.Signature):
    """The signature of a function, which is read when it is first needed: reading those of all methods takes milliseconds."""

    __slots__ = ("_like",)

    def __init__(self, like: Callable[..., Any]) -> None:
        self._like = like

    def __getattr__(self, name: str) -> Any:  # for slots that are not filled
        if name not in inspect.Signature.__slots__:
            raise AttributeError(name)
        read = inspect.signature(self._like)
        for slot in inspect.Signature.__slots__:
            setattr(self, slot, getattr(read, slot))
        return getattr(self, name)

    def replace(self, **changes: Any) -> Any:  # type: ignore[override]
        return inspect.signature(self._like).replace(**changes)

    __replace__ = replace  # type: ignore[assignment]  # of Python 3.13

    def __repr__(self) -> str:
        return f"<Signature {self}>"

    def __reduce__(self) -> Any:
        return inspect.signature(self._like).__reduce__()


def native_property(
    base: type,
    name: str | None = None,
    *,
    label: str | None = None,
    read: Callable[[Any], Any] | None = None,
    write: Callable[[Any, Any], None] | None = None,
    stays: Callable[[Any], bool] | None = stays_in_pandas,
) -> Decorator:
    """Decorate the native implementation of a property of a pandas class, which can be set and deleted as pandas' own.

    Parameters
    ----------
    base, name, label
        As for :func:`native`.
    read, write
        Pandas' getter and setter, by default those of the class's attribute.
    stays
        Whether the property of an object is read in plain pandas. With ``None`` it never is.
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
    """Register a function that never falls back, so that its calls are not counted.

    Parameters
    ----------
    label, theirs, function
        As for :class:`Native`.
    planned
        Whether the function is a native implementation; if not, it is a wrapper of pandas' own.
    """
    if not planned:
        like: Any = theirs.fget if isinstance(theirs, property) else theirs
        functools.update_wrapper(function, like)
    named_as(theirs, function)
    function.__craton_native__ = Native(label, theirs, function if planned else None)
    return function


def never_refused(base: type, *names: str, planned: bool = True) -> Callable[[type], type]:
    """Decorate a class: register its members of these names, by default all public ones, with :func:`mark_never_refused`."""

    def decorate(cls: type) -> type:
        for name in names or [name for name in vars(cls) if not name.startswith("_")]:
            member, theirs = vars(cls)[name], getattr_static(base, name)
            function = member.fget if isinstance(member, property) else member
            mark_never_refused(f"{base.__name__}.{name}", theirs, function, planned)
            if isinstance(member, property):
                member = CounterpartProperty(name, member)
                setattr(cls, name, member)
            member.__doc__ = theirs.__doc__
        return cls

    return decorate


def native_function(
    theirs: Callable[..., Any],
    *,
    prepare: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None,
    stays: Callable[..., bool] | None = None,
    elsewhere: Callable[..., bool] | None = None,
    convert: bool = True,
) -> Decorator:
    """Decorate the native implementation of a function of the pandas module. With ``None``, every call falls back.

    Parameters
    ----------
    theirs
        Pandas' own function.
    prepare
        Returns new arguments for a call.
    stays
        Whether a call with these arguments runs in plain pandas, uncounted; by default, if pandas itself makes the call.
    elsewhere
        Whether a call with these arguments runs in another process, if this one was forked and cannot use the kernel.
    convert
        Whether results of calls that run in plain pandas are converted to Craton's classes.
    """

    def decorate(function: Implementation) -> Any:
        label = theirs.__name__
        entry = Native(label, _drop_object(theirs), None if function is None else _drop_object(function))

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if prepare is not None:
                args, kwargs = prepare(*args, **kwargs)
            if inside_pandas() if stays is None else stays(*args, **kwargs):
                result = theirs(*args, **kwargs)
                return as_craton(result) if convert else result
            if elsewhere is not None and forks.kernel_lost() and elsewhere(*args, **kwargs):
                from craton.engine.kernel_process import call_in_kernel_process as in_its_process

                return in_its_process(_call_function_by_name, label, args, kwargs)
            return entry.run(None, args, kwargs)

        _with_signature_of(wrapper, theirs, entry)
        wrapper.__module__ = "craton.pandas"  # pickle finds the function there
        return wrapper

    return decorate


def _call_function_by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of ``craton.pandas`` by name; runs in another process."""
    return getattr(sys.modules["craton.pandas"], name)(*args, **kwargs)


def is_file_pattern(*args: Any, **_: Any) -> bool:
    """Whether a reader's first argument is a glob pattern, which pandas does not support."""
    path = args[0] if args else None
    return isinstance(path, str) and not {"*", "?", "["}.isdisjoint(path) and not os.path.exists(path)


def getattr_static(owner: type, name: str) -> Any:
    """A class attribute as it is stored, without calling descriptors."""
    for cls in owner.__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name]
    raise AttributeError(name)


def _drop_object(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *args, **kwargs: function(*args, **kwargs)
