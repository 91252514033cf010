"""The lazy objects that live: what a program may still compute with."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from craton.plan.expr import Expr
from craton.plan.operators import Operator


class Live(Protocol):
    """What a lazy object stands for: values over the rows of a plan."""

    @property
    def base(self) -> Operator:
        """The plan of the rows."""

    @property
    def exprs(self) -> Sequence[Expr]:
        """The values, labels too."""


_objects: dict[int, weakref.ref[Any]] = {}


def register(obj: Any) -> None:
    """Note a lazy object, for as long as it lives: what it stands for is its attribute ``_view``, or it is not lazy any more."""
    key = id(obj)
    _objects[key] = weakref.ref(obj, lambda _: _objects.pop(key, None))


def live_views() -> Iterator[Live]:
    """What all objects that live and are lazy still stand for."""
    for reference in list(_objects.values()):
        obj = reference()
        view = obj.__dict__.get("_view") if obj is not None else None
        if view is not None:
            yield view
