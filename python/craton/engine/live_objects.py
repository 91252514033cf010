"""The registry of live lazy objects, from which a program can still compute results."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from craton.plan.expr import Expr
from craton.plan.operators import Operator


class LiveView(Protocol):
    """The view of a lazy object: expressions over the rows of a plan."""

    @property
    def base(self) -> Operator:
        """The plan of the rows."""

    @property
    def exprs(self) -> Sequence[Expr]:
        """The expressions of its columns and row labels."""


_objects: dict[int, weakref.ref[Any]] = {}


def register(obj: Any) -> None:
    """Register a lazy object, by a weak reference. Its attribute ``_view`` is its view, or None once it has been evaluated."""
    key = id(obj)
    _objects[key] = weakref.ref(obj, lambda _: _objects.pop(key, None))


def live_objects() -> Iterator[tuple[Any, LiveView]]:
    """All live objects that have not been evaluated, and their views."""
    for reference in list(_objects.values()):
        obj = reference()
        view = obj.__dict__.get("_view") if obj is not None else None
        if view is not None:
            yield obj, view


def live_views() -> Iterator[LiveView]:
    """The views of all live objects that have not been evaluated."""
    for _, view in live_objects():
        yield view
