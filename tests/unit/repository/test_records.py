"""Craton's frozen dataclasses and enumerations behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from typing import Any

import pytest

from craton.records import Enumeration, dataclass


class Base:
    """A base class with ``__post_init__`` and its own hash."""

    __slots__ = ("__weakref__", "built")

    def __post_init__(self) -> None:
        object.__setattr__(self, "built", True)


@dataclass(frozen=True, slots=True)
class Point:
    """A dataclass made by Craton's decorator."""

    x: int
    y: Any = 2
    others: list[int] = dataclasses.field(default_factory=list, compare=False)
    secret: str = dataclasses.field(default="s", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """The same dataclass, made by the standard library's decorator."""

    x: int
    y: Any = 2
    others: list[int] = dataclasses.field(default_factory=list, compare=False)
    secret: str = dataclasses.field(default="s", repr=False)


@dataclass(frozen=True, slots=True)
class Further(Point):
    """A subclass with an additional field."""

    z: int = 3


@dataclass(frozen=True, slots=True)
class Single:
    """A dataclass with one field."""

    x: float


@dataclass(frozen=True, slots=True)
class Empty:
    """A dataclass without fields."""


@dataclass(frozen=True, slots=True, eq=False)
class Known(Base):
    """A dataclass that inherits its comparison and defines its own ``__repr__``."""

    name: str

    def __repr__(self) -> str:
        return self.name


@pytest.mark.parametrize("cls", [Point, Theirs])
def test_as_the_standard_librarys(cls: Any) -> None:
    one, same, other = cls(1), cls(x=1, others=[5]), cls(1, 3)
    assert (one == same, one == other, one != other, hash(one) == hash(same)) == (True, False, True, True)
    assert one != Single(1.0)
    assert one.__eq__(3) is NotImplemented
    assert repr(same) == f"{cls.__name__}(x=1, y=2, others=[5])"
    assert cls(1).others is not cls(1).others  # each instance has its own list
    assert dataclasses.replace(one, y=7) == cls(1, 7)
    assert [field.name for field in dataclasses.fields(cls)] == list(cls.__match_args__) == list(cls.__slots__)
    assert dataclasses.asdict(one) == {"x": 1, "y": 2, "others": [], "secret": "s"}
    for copied in (pickle.loads(pickle.dumps(same)), copy.copy(same), copy.deepcopy(same)):
        assert copied == same
        assert copied.others == [5]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    with pytest.raises(
        (dataclasses.FrozenInstanceError, TypeError)
    ):  # with slots, the standard library raises TypeError
        one.new = 2
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, [], "s", 5), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_the_same_errors(arguments: tuple[Any, Any]) -> None:
    told = []
    for cls in (Point, Theirs):
        with pytest.raises(TypeError) as raised:
            cls(*arguments[0], **arguments[1])
        told.append(str(raised.value).replace("Theirs", "Point"))
    assert told[0] == told[1]


def test_parameters_are_named_alike() -> None:
    ours, theirs = (list(inspect.signature(cls).parameters) for cls in (Point, Theirs))
    assert ours == theirs


def test_subclasses() -> None:
    one = Further(1, z=9)
    assert repr(one) == "Further(x=1, y=2, others=[], z=9)"
    assert one != Point(1)
    assert one == Further(1, 2, [3], "s", 9)
    assert one != Further(1)
    assert pickle.loads(pickle.dumps(one)) == one
    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"
    assert hash(Empty()) == hash(())


def test_one_field_is_compared_as_a_tuple() -> None:
    nan = float("nan")
    assert Single(nan) == Single(nan)
    assert Single(nan) != Single(float("nan"))
    assert hash(Single(1.0)) == hash((1.0,))


def test_what_the_class_defines_itself_stays() -> None:
    one = Known("a")
    assert repr(one) == "a"
    assert one.built
    assert one != Known("a")
    assert one == one
    assert hash(one) != hash(Known("a"))


def test_shown_within_itself() -> None:
    one = Point(1, others=[])
    one.others.append(one)  # type: ignore[arg-type]
    assert repr(one) == "Point(x=1, y=2, others=[...])"


def test_only_what_it_is_for() -> None:
    with pytest.raises(TypeError, match="pass frozen=True and slots=True"):
        dataclass(frozen=False, slots=True)(Empty)  # type: ignore[call-overload]


def test_start_up_compiles_no_others() -> None:
    """``import craton.pandas`` creates no dataclass of the standard library, each of which takes half a millisecond or more."""
    code = (
        "import pandas, polars, dataclasses\n"
        "made, theirs = [], dataclasses._process_class\n"
        "def noted(cls, init, repr, eq, order, unsafe_hash, frozen, *rest, **named):\n"
        "    if frozen: made.append(cls.__qualname__)\n"
        "    return theirs(cls, init, repr, eq, order, unsafe_hash, frozen, *rest, **named)\n"
        "dataclasses._process_class = noted\n"
        "import craton.pandas\n"
        "print(made)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


class Colour(Enumeration):
    """An enumeration made by Craton's base class."""

    RED = "red"
    DARK_BLUE = "dark blue"

    _not_a_member = 1


def test_an_enumeration_has_its_members_by_name_value_and_order() -> None:
    assert [(member.name, member.value) for member in Colour] == [("RED", "red"), ("DARK_BLUE", "dark blue")]
    assert len(Colour) == 2
    assert list(Colour.__members__) == ["RED", "DARK_BLUE"]
    assert Colour["RED"] is Colour("red") is Colour.RED
    assert isinstance(Colour.RED, Colour)
    assert repr(Colour.RED) == "<Colour.RED: 'red'>"
    assert str(Colour.RED) == "Colour.RED"
    assert Colour.RED != Colour.DARK_BLUE
    assert {Colour.RED: 1}[Colour.RED] == 1


def test_members_of_an_enumeration_are_single_objects() -> None:
    for same in (copy.copy, copy.deepcopy, lambda member: pickle.loads(pickle.dumps(member))):
        assert same(Colour.DARK_BLUE) is Colour.DARK_BLUE


def test_an_enumeration_cannot_be_changed() -> None:
    for change in (
        lambda: setattr(Colour, "RED", "green"),
        lambda: setattr(Colour, "GREEN", "green"),
        lambda: delattr(Colour, "RED"),
        lambda: setattr(Colour.RED, "value", "green"),
        lambda: setattr(Colour.RED, "shade", 1),
    ):
        with pytest.raises(AttributeError):
            change()
    with pytest.raises(ValueError, match="'green' is not a valid Colour"):
        Colour("green")
    with pytest.raises(KeyError):
        Colour["GREEN"]
