"""Python functions in worker processes: the parallel execution of ``apply`` and ``map``, ``craton.map`` and ``craton.remote.spawn``.

``craton.map(fn, items)`` calls a function for each item. ``craton.remote.spawn(fn, …)`` makes one call and returns a
:class:`Future`. Both use the workers of the session, or of a hidden local session that is started when it is first needed.

Functions behave as if they were called in this process: exceptions keep their class and traceback, printed text and warnings
appear here in order, and closures and local classes are pickled by value. A function for which a call in another process would
make a difference is called here (:mod:`craton.remote.captured`).
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
