"""Frozen dataclasses and enumerations whose definition takes a fraction of the time of the standard library's.

The standard library generates and compiles six functions for every frozen dataclass, which was a third of Craton's import time.
Here only the initialiser is compiled; all other methods are shared by the classes. The fields are collected here too, since the
standard library looks for features that no class here has. The initialiser writes to the slots directly, which also makes
instances faster to create. Otherwise the classes behave as the standard library's: :func:`dataclasses.fields`
and :func:`dataclasses.replace` accept them, and errors are the same.

Likewise, :class:`enum.Enum` takes 20 microseconds for each member, which is too much for an enumeration of several hundred texts.
:class:`Enumeration` takes half a microsecond.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

__all__ = ["Enumeration", "dataclass"]

_MISSING = dataclasses.MISSING


if TYPE_CHECKING:
    # Type checkers recognise these by their names.
    from dataclasses import dataclass as dataclass
    from enum import Enum as Enumeration

else:

    def dataclass(*, frozen: bool, slots: bool, eq: bool = True, repr: bool = True) -> Callable[[type], type]:
        """Decorate a class as :func:`dataclasses.dataclass` does.

        Parameters
        ----------
        frozen, slots
            Must be True; they are arguments so that the class shows them.
        eq, repr
            As in the standard library.
        """
        if not (frozen and slots):
            raise TypeError("pass frozen=True and slots=True; use dataclasses.dataclass for other classes")

        def decorate(written: type) -> type:
            names = vars(written)
            comparable, printable = eq and "__eq__" not in names, repr and "__repr__" not in names
            hashable = eq and names.get("__hash__") is None
            cls = _with_slots(written)
            fields = dataclasses.fields(cls)
            cls.__init__ = _initialiser(cls, fields)
            cls.__setattr__, cls.__delattr__ = _setattr, _delattr
            if "__reduce__" not in names:
                cls.__getstate__, cls.__setstate__ = _getstate, _setstate
            if printable:
                cls.__repr__ = _repr
            key = _key([field.name for field in fields if field.compare])
            if comparable:
                cls.__eq__ = _equality(key)
            if hashable:
                cls.__hash__ = _hashing(key)
            return cls

        return decorate

    class _EnumerationType(type):
        """The class of enumerations. Iteration gives the members in the order of their definition."""

        def __new__(metacls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
            values = {key: value for key, value in namespace.items() if bases and not key.startswith("_")}
            cls = super().__new__(metacls, name, bases, {"__slots__": (), **namespace})
            members = {}
            for key, value in values.items():
                member = members[key] = object.__new__(cls)
                _set_name(member, key)
                _set_value(member, value)
                type.__setattr__(cls, key, member)
            type.__setattr__(cls, "__members__", MappingProxyType(members))
            return cls

        def __iter__(cls) -> Iterator[Any]:
            return iter(cls.__members__.values())

        def __len__(cls) -> int:
            return len(cls.__members__)

        def __getitem__(cls, name: str) -> Any:
            return cls.__members__[name]

        def __call__(cls, value: Any) -> Any:
            for member in cls:
                if member.value == value:
                    return member
            raise ValueError(f"{value!r} is not a valid {cls.__qualname__}")

        def __setattr__(cls, name: str, value: Any) -> None:
            raise AttributeError(f"cannot assign to {name!r} of an enumeration")

        def __delattr__(cls, name: str) -> None:
            raise AttributeError(f"cannot delete {name!r} of an enumeration")

    class Enumeration(metaclass=_EnumerationType):
        """An enumeration: each public attribute of a subclass becomes its member, with that name and value.

        Values are different constants; methods, aliases and the other features of :class:`enum.Enum` are not supported.
        """

        __slots__ = ("_name", "_value")
        __members__: Mapping[str, Any]

        name = property(operator.attrgetter("_name"))
        value = property(operator.attrgetter("_value"))

        def __repr__(self) -> str:
            return f"<{self}: {self._value!r}>"

        def __str__(self) -> str:
            return f"{type(self).__name__}.{self._name}"

        def __reduce__(self) -> tuple[Any, ...]:
            return getattr, (type(self), self._name)

        def __copy__(self) -> Any:
            return self

        def __deepcopy__(self, _: Any) -> Any:
            return self

        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError(f"cannot assign to {name!r} of a member of an enumeration")

    _set_name, _set_value = Enumeration._name.__set__, Enumeration._value.__set__


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Standard:
    """A dataclass of the standard library, from which the attributes are copied that it sets on its classes and fields."""

    field: Any


_KIND = dataclasses.fields(_Standard)[0]._field_type  # type: ignore[attr-defined]


def _with_slots(written: type) -> Any:
    """The class with slots for its own fields, and with the attributes that the standard library sets on dataclasses."""
    namespace = dict(vars(written))
    fields: dict[str, Any] = {}
    for base in reversed(written.__mro__[1:]):
        fields |= vars(base).get("__dataclass_fields__", {})
    own = []
    for name, annotation in written.__annotations__.items():
        if annotation.startswith("ClassVar"):
            continue
        default = namespace.pop(name, _MISSING)
        field = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        field.name, field.type, field._field_type = name, annotation, _KIND  # type: ignore[union-attr]
        if name not in fields:
            own.append(name)
        fields[name] = field
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace |= {
        "__slots__": tuple(own),
        "__match_args__": tuple(fields),
        "__dataclass_fields__": fields,
        "__dataclass_params__": vars(_Standard)["__dataclass_params__"],
    }
    return type(written)(written.__name__, written.__bases__, namespace)


def _initialiser(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """Return an ``__init__`` that takes the fields in their order or by name and sets their slots."""
    known: dict[str, Any] = {"_missing": _MISSING}
    parameters, lines = ["self"], []
    for field in fields:
        name = field.name
        known[f"_set_{name}"] = getattr(cls, name).__set__
        value = name
        if field.default_factory is not _MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif field.default is not _MISSING:
            known[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f"    _set_{name}(self, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()\n")
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(lines) or '    pass'}", known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return made


def _setattr(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _key(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    return (
        operator.attrgetter(*names) if len(names) > 1 else lambda self: tuple([getattr(self, name) for name in names])
    )


def _equality(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _hashing(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(key(self))

    return __hash__
