"""Craton's classes in pandas' place: what counts as an instance of them, how they are pickled, and how an object that
pandas made itself becomes one.

pandas often builds a result with its own ``DataFrame`` or ``Series`` and not with the class of the object that it was
asked of (``Series.str.extract``, ``concat`` inside ``apply``, everything at the top level), and libraries hand back
frames of their own making. Such an object is as good as one of Craton's to ``isinstance``; and where it is the result
of a call that went through Craton, it is made one of Craton's, so that what follows is planned again.
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd

_counterparts: dict[type, Any] = {}
"""For each class of pandas' Craton's own, or a function that makes it when it is first needed."""


#: Modules, of libraries or of those that carry a copy, that ask where a class is imported from to pickle it by its name.
_PICKLERS = ("cloudpickle", "cloudpickle_fast")


class _Module(str):
    """The ``__module__`` of the metaclass, and the descriptor that gives its classes theirs.

    A class says ``pandas``, as users and libraries expect. cloudpickle would look there, find pandas' class, and pickle this
    one by value: it is told where the class really is.
    """

    __slots__ = ()

    def __get__(self, cls: Any, _owner: Any = None) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if "_stands_for" in cls.__dict__ and asking.rpartition(".")[2] in _PICKLERS:
            return "craton.pandas"
        return _MODULE.__get__(cls)

    def __set__(self, cls: Any, name: str) -> None:
        _MODULE.__set__(cls, name)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return str, (str(self),)  # the metaclass is pickled by the names of its module and its own: of plain text


_MODULE: Any = type.__dict__["__module__"]


class Counterpart(type):
    """The metaclass of a class that stands for one of pandas': instances of that one are its instances, too.

    That holds for the class itself. A subclass that a user makes is an ordinary class.
    """

    _stands_for: type

    __module__ = _Module(__name__)

    def __instancecheck__(cls, instance: Any) -> bool:
        theirs = cls.__dict__.get("_stands_for")
        return isinstance(instance, cls._stands_for) if theirs is not None else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        theirs = cls.__dict__.get("_stands_for")
        return issubclass(subclass, theirs) if theirs is not None else type.__subclasscheck__(cls, subclass)

    def __setattr__(cls, name: str, value: Any) -> None:
        """Set an attribute, and one that the user adds (``pd.DataFrame.method = function``) on pandas' class as well.

        A user's function is called with frames of pandas', and libraries return them: they are to have her methods, too.
        """
        added = _is_user_attribute(cls, name, sys._getframe(1).f_globals.get("__name__", ""))
        super().__setattr__(name, value)
        if added:
            setattr(cls._stands_for, name, value)

    def __delattr__(cls, name: str) -> None:
        """Remove an attribute, and on pandas' class one that was set there together with it."""
        theirs = vars(cls._stands_for) if "_stands_for" in cls.__dict__ else {}
        together = name in theirs and name in cls.__dict__ and theirs[name] is cls.__dict__[name]
        super().__delattr__(name)
        if together:
            delattr(cls._stands_for, name)


def _is_user_attribute(cls: Any, name: str, setter: Any) -> bool:
    """Whether an attribute that is about to be set is one that neither pandas nor Craton has, or that was set as such before."""
    if "_stands_for" not in cls.__dict__ or (isinstance(setter, str) and setter.partition(".")[0] == "craton"):
        return False
    theirs = cls._stands_for
    if name in cls.__dict__:
        return name in theirs.__dict__ and theirs.__dict__[name] is cls.__dict__[name]
    return not any(name in base.__dict__ for base in cls.__mro__)


def _unpickle_class(theirs: type) -> type:
    importlib.import_module("craton.pandas")  # registers the classes, in a process that has not used it yet

    return counterpart_of(theirs)


def _reduce_class(cls: Any) -> Any:
    # The class tells pandas' module as its own, as users expect, so that pickling it by name would find pandas' class.
    return (_unpickle_class, (cls._stands_for,)) if "_stands_for" in cls.__dict__ else cls.__qualname__


copyreg.pickle(Counterpart, _reduce_class)  # type: ignore[arg-type]


def reduce_by_counterpart(theirs: type) -> Callable[[Any, Any], Any]:
    """The ``__reduce_ex__`` of a class that stands for one of pandas': its objects are pickled by the name of that one."""

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        made: Any = theirs.__reduce_ex__(self, protocol)  # type: ignore[call-arg]
        ours = type(self).__dict__.get("__reduce_ex__") is __reduce_ex__  # else it is a class of the user's
        if not ours or made[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return made
        return _unpickle_object, (theirs, *made[1][1:]), *made[2:]

    return __reduce_ex__


def _unpickle_object(theirs: type, *args: Any) -> Any:
    importlib.import_module("craton.pandas")  # registers the classes, in a process that has not used it yet

    cls: Any = counterpart_of(theirs) if theirs in _counterparts else theirs
    return cls.__new__(cls, *args)


def counterpart_of(theirs: type) -> type:
    """Craton's class in the place of one of pandas'."""
    ours = _counterparts[theirs]
    if not isinstance(ours, type):
        ours = _counterparts[theirs] = ours()
    return ours


def frame_class() -> Any:
    """DataFrame, for the modules that it is made of."""
    return counterpart_of(pd.DataFrame)


def series_class() -> Any:
    """Series, for the modules that it is made of."""
    return counterpart_of(pd.Series)


def own_class(cls: type) -> type:
    """Craton's class in the place of one of pandas'; any other as it is."""
    return counterpart_of(cls) if cls in _counterparts else cls


def plannable(cls: type) -> bool:
    """Whether objects of a class are planned: pandas' own and Craton's.

    A subclass that a user or a library made is not: its results have to be of that class, and carry what it adds.
    """
    return cls in _counterparts or "_stands_for" in cls.__dict__


def register(ours: type | Callable[[], type], theirs: type) -> None:
    """Make a class, or what makes it, the counterpart of one of pandas'."""
    _counterparts[theirs] = ours


def as_craton(result: Any) -> Any:
    """A result of pandas' as one of Craton's objects that shares its data; anything else, and those, as it is.

    An object that nobody else holds is given the other class; one that somebody holds is left alone.
    """
    theirs = type(result)
    if theirs not in _counterparts:
        return result
    ours: Any = _counterparts[theirs]
    if not isinstance(ours, type):
        ours = counterpart_of(theirs)
    if sys.getrefcount(result) <= 2 or not hasattr(result, "_mgr"):
        result.__class__ = ours
        return result
    return ours(result).__finalize__(result)


def as_pandas(obj: Any) -> Any:
    """The object with the same data that is pandas' own, on which nothing is planned."""
    theirs = pd.Series if isinstance(obj, pd.Series) else pd.DataFrame
    manager = obj._mgr.copy(deep=False)
    manager.axes = list(obj._mgr.axes)  # the very labels: those of results are them
    made: Any = theirs._from_mgr(manager, manager.axes)  # type: ignore[attr-defined]
    if isinstance(obj, pd.Series):
        object.__setattr__(made, "_name", obj._name)  # type: ignore[attr-defined]
    if obj._attrs or not obj._flags._allows_duplicate_labels:
        made = made.__finalize__(obj)
    return made
