"""The lazy objects that live: what a program may still compute with."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from craton.pandas.core.view import View

_objects: dict[int, weakref.ref[Any]] = {}


def register(obj: Any) -> None:
    """Note a lazy object, for as long as it lives."""
    key = id(obj)
    _objects[key] = weakref.ref(obj, lambda _: _objects.pop(key, None))


def live_views() -> Iterator[View]:
    """The views of all objects that live and are lazy still."""
    for reference in list(_objects.values()):
        obj = reference()
        view = obj.__dict__.get("_view") if obj is not None else None
        if view is not None:
            yield view
