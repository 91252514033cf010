"""Functions of steps, pickled for the processes that call them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle

from craton.callers import is_user
from craton.pipeline.runs.imports import Unknown

__all__ = ["pickled_by_value"]

#: cloudpickle's registry belongs to the whole process.
_registry = threading.Lock()


#: Modules that were looked at, by name, and whether they are the user's.
_seen: dict[str, tuple[Any, bool]] = {}


def _user_modules() -> dict[str, Any]:
    """The loaded modules of the user's program, without ``__main__``, which is pickled by value anyway."""
    found = {}
    for name, module in list(sys.modules.items()):
        before = _seen.get(name)
        if before is None or before[0] is not module:
            own = name != "__main__" and bool(getattr(module, "__file__", None)) and is_user(vars(module))
            before = _seen[name] = (module, own)
        if before[1]:
            found[name] = module
    return found


def pickled_by_value(function: Callable[..., Any]) -> bytes:
    """A function pickled with all functions and classes of the user's program that it refers to.

    The process that calls it may have another environment, which cannot import the user's modules.

    Raises
    ------
    Unknown
        If it cannot be pickled.
    """
    with _registry:
        known = cloudpickle.list_registry_pickle_by_value()
        modules = [module for name, module in _user_modules().items() if name not in known]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            made: bytes = cloudpickle.dumps(function)
        except Exception as error:
            raise Unknown(f"the function, or something that it refers to, cannot be pickled: {error}") from error
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)
    return made
