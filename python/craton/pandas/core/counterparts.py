"""Craton's counterparts of pandas' classes: ``isinstance``, equality, pickling, and conversion of pandas' objects.

pandas often builds a result with its own ``DataFrame`` or ``Series`` instead of the class of the object whose method was called
(``Series.str.extract``, ``concat`` inside ``apply``, every top-level function), and libraries return frames of pandas' classes.
``isinstance`` accepts such an object as one of Craton's. If it is the result of a call that went through Craton, it is converted
to Craton's class, so that later calls are planned again.
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd

_counterparts: dict[type, Any] = {}
"""Craton's class for each class of pandas, or a function that makes it when it is first needed."""


#: Modules that read ``__module__`` of a class to pickle the class by name; some libraries vendor a copy of them.
_PICKLERS = ("cloudpickle", "cloudpickle_fast")


class _Module(str):
    """The ``__module__`` of the metaclass, and the descriptor that returns the ``__module__`` of its classes.

    It is ``pandas`` for a class of Craton, as users and libraries expect. cloudpickle would find pandas' class there, and pickle
    Craton's class by value. So the descriptor returns the true module to cloudpickle.
    """

    __slots__ = ()

    def __get__(self, cls: Any, _owner: Any = None) -> Any:
        reader = sys._getframe(1).f_globals.get("__name__", "")
        if "_stands_for" in cls.__dict__ and reader.rpartition(".")[2] in _PICKLERS:
            return "craton.pandas"
        return _MODULE.__get__(cls)

    def __set__(self, cls: Any, name: str) -> None:
        _MODULE.__set__(cls, name)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return str, (str(self),)  # pickle stores the metaclass by module and name, which must be plain strings


_MODULE: Any = type.__dict__["__module__"]


#: Attributes that Python sets in each class.
_OF_EACH_CLASS = frozenset(
    f"__{name}__"
    for name in ["annotations", "dict", "doc", "firstlineno", "module", "qualname", "static_attributes", "weakref"]
)


class Counterpart(type):
    """The metaclass of a counterpart of a pandas class: it equals the pandas class, whose instances are its instances, too.

    Libraries look up the exact class of an object in a dictionary (pandera's checks), and compare it with ``==``
    (``pandas.testing``); both find pandas' class. This holds for the counterpart itself, not for users' subclasses of it,
    which are ordinary classes.
    """

    _stands_for: type

    __module__ = _Module(__name__)

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        """Make a class. A counterpart gets the attributes of its families of methods, and has only the pandas class as a base.

        Python looks an attribute up, and tests ``isinstance``, base by base; each of the twenty families would slow down every call
        on a small object.
        """
        theirs = namespace.get("_stands_for")
        if theirs is not None:
            for family in bases:
                if family is not theirs:
                    for cls in family.__mro__[:-1]:
                        for attribute in vars(cls).keys() - _OF_EACH_CLASS:
                            namespace.setdefault(attribute, vars(cls)[attribute])
            bases = (theirs,)
        return super().__new__(mcs, name, bases, namespace, **kwargs)

    def __eq__(cls, other: object) -> bool:
        return cls is other or (other is not None and cls.__dict__.get("_stands_for") is other)

    def __hash__(cls) -> int:
        return type.__hash__(cls.__dict__.get("_stands_for", cls))

    def __instancecheck__(cls, instance: Any) -> bool:
        theirs = cls.__dict__.get("_stands_for")
        return isinstance(instance, cls._stands_for) if theirs is not None else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        theirs = cls.__dict__.get("_stands_for")
        return issubclass(subclass, theirs) if theirs is not None else type.__subclasscheck__(cls, subclass)

    def __setattr__(cls, name: str, value: Any) -> None:
        """Set an attribute. One that the user adds (``pd.DataFrame.method = function``) is set on pandas' class as well.

        Frames of pandas' own class must have the user's methods, too: libraries return them, and functions are called with them.
        """
        added = _is_user_attribute(cls, name, sys._getframe(1).f_globals.get("__name__", ""))
        super().__setattr__(name, value)
        if added:
            setattr(cls._stands_for, name, value)

    def __delattr__(cls, name: str) -> None:
        """Remove an attribute, also from pandas' class if :meth:`__setattr__` set it there."""
        theirs = vars(cls._stands_for) if "_stands_for" in cls.__dict__ else {}
        together = name in theirs and name in cls.__dict__ and theirs[name] is cls.__dict__[name]
        super().__delattr__(name)
        if together:
            delattr(cls._stands_for, name)


class CounterpartProperty(property):
    """A property that equals pandas' own. IPython completes ``df.loc["`` only if ``loc`` is a property that it knows."""

    def __init__(self, name: str, ours: property) -> None:
        super().__init__(ours.fget, ours.fset, ours.fdel, ours.__doc__)
        # IPython compares with the property of either class.
        self._theirs = [getattr(cls, name, None) for cls in (pd.DataFrame, pd.Series)]

    def __eq__(self, other: object) -> bool:
        return self is other or (other is not None and any(other is theirs for theirs in self._theirs))

    __hash__ = property.__hash__


def _is_user_attribute(cls: Any, name: str, setter: Any) -> bool:
    """Whether an attribute that is about to be set is the user's own: neither pandas nor Craton has it, or the user set it before."""
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
    # Its __module__ is "pandas", as users expect, so pickling by name would find pandas' class.
    return (_unpickle_class, (cls._stands_for,)) if "_stands_for" in cls.__dict__ else cls.__qualname__


copyreg.pickle(Counterpart, _reduce_class)  # type: ignore[arg-type]


def reduce_by_counterpart(theirs: type) -> Callable[[Any, Any], Any]:
    """The ``__reduce_ex__`` of a counterpart: its objects are pickled with a reference to the pandas class."""

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        made: Any = theirs.__reduce_ex__(self, protocol)  # type: ignore[call-arg]
        ours = type(self).__dict__.get("__reduce_ex__") is __reduce_ex__  # else it is a user's subclass
        if not ours or made[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return made
        return _unpickle_object, (theirs, *made[1][1:]), *made[2:]

    return __reduce_ex__


def _unpickle_object(theirs: type, *args: Any) -> Any:
    importlib.import_module("craton.pandas")  # registers the classes, in a process that has not used it yet

    cls: Any = counterpart_of(theirs) if theirs in _counterparts else theirs
    return cls.__new__(cls, *args)


def counterpart_of(theirs: type) -> type:
    """Craton's class for a class of pandas."""
    ours = _counterparts[theirs]
    if not isinstance(ours, type):
        ours = _counterparts[theirs] = ours()
    return ours


def frame_class() -> Any:
    """Craton's DataFrame, for modules that cannot import it without a cycle."""
    return counterpart_of(pd.DataFrame)


def series_class() -> Any:
    """Craton's Series, for modules that cannot import it without a cycle."""
    return counterpart_of(pd.Series)


def counterpart_or_same(cls: type) -> type:
    """Craton's class for a class of pandas; any other class unchanged."""
    return counterpart_of(cls) if cls in _counterparts else cls


def plannable(cls: type) -> bool:
    """Whether objects of a class can be planned: pandas' own classes and Craton's.

    A subclass by a user or a library cannot: results must be of that class, with whatever it adds.
    """
    return "_stands_for" in cls.__dict__ or cls in _counterparts


def register(ours: type | Callable[[], type], theirs: type) -> None:
    """Register a class, or a function that makes it, as the counterpart of a pandas class."""
    _counterparts[theirs] = ours


def as_craton(result: Any) -> Any:
    """Convert an object of a pandas class to one of Craton's class that shares its data; return anything else unchanged.

    If nothing else refers to the object, its class is changed; otherwise a new object is made.
    """
    theirs = type(result)
    if type(theirs) is Counterpart:
        return result
    ours: Any = _counterparts.get(theirs)
    if ours is None or ours is theirs:
        return result
    if not isinstance(ours, type):
        ours = counterpart_of(theirs)
    if sys.getrefcount(result) <= 2 or not isinstance(result, (pd.DataFrame, pd.Series)):
        result.__class__ = ours
        return result
    return ours(result).__finalize__(result)


def as_pandas(obj: Any) -> Any:
    """An object of pandas' own class with the same data, whose calls are not planned."""
    theirs = pd.Series if isinstance(obj, pd.Series) else pd.DataFrame
    manager = obj._mgr.copy(deep=False)
    manager.axes = list(obj._mgr.axes)  # the same Index objects, because results of pandas' methods share them
    made: Any = theirs._from_mgr(manager, manager.axes)  # type: ignore[attr-defined]
    if isinstance(obj, pd.Series):
        object.__setattr__(made, "_name", obj._name)  # type: ignore[attr-defined]
    if obj._attrs or not obj._flags._allows_duplicate_labels:
        made = made.__finalize__(obj)
    return made
