"""Python functions in worker processes: what ``apply``, ``map`` and their like run on, and what users call themselves.

``craton.map(fn, items)`` calls a function for each of some items; ``craton.remote.spawn(fn, …)`` makes one call and returns
a :class:`Future`. Both use the workers of the session, or of a hidden local one that is started when it is first needed.

A function is called by workers as if it were called here: its exceptions arrive with their class and their traceback, what
it prints and warns of is said here in order, closures and local classes travel by value. What cannot be called elsewhere
unnoticed is called here (:mod:`craton.remote.captured`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.remote.items import map
    from craton.remote.spawning import Future, spawn

_MODULES = {"Future": "spawning", "map": "items", "spawn": "spawning"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'craton.remote' has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"craton.remote.{_MODULES[name]}"), name)
    return found


__all__ = ["Future", "map", "spawn"]
