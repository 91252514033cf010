"""The current attributes of the program's modules and classes, for workers that import these modules themselves.

An importable function is pickled by name, and so are the modules that it names. A worker imports them, and would miss what the
program has changed since the import, such as ``settings.rate = 3``. So the attributes of the user's modules that a function reads
are sent with it, and set in the worker before the function is called.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from craton.callers import is_user

__all__ = ["HeldAttribute", "class_attributes", "importable", "module_attributes", "process_identity", "set_attributes"]

_TOKEN = os.urandom(8)

HeldAttribute = tuple[str, str, str, Any]
"""An attribute: the module's name, the class's qualified name or ``""``, the attribute's name, and its value."""


def module_attributes(names: Iterable[str], values: dict[str, Any]) -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Yield the attributes of the user's modules, and of their submodules, that code names.

    Parameters
    ----------
    names
        All names in the code.
    values
        The globals and the enclosing variables that the code names.
    """
    names = list(names)
    imported = [sys.modules[name] for name in names if name not in values and name in sys.modules]
    waiting = [value for value in [*values.values(), *imported] if isinstance(value, types.ModuleType)]
    seen: set[int] = set()
    while waiting:
        module = waiting.pop()
        if id(module) in seen or module.__name__ == "__main__" or not is_user(vars(module)):
            continue
        seen.add(id(module))
        for name in names:
            if name in vars(module):
                value = vars(module)[name]
                if isinstance(value, types.ModuleType):
                    waiting.append(value)
                else:
                    yield module, name, value


def class_attributes(cls: type) -> list[tuple[str, Any]]:
    """Return the names and values of a class's attributes, without functions and descriptors."""
    return [
        (name, value)
        for name, value in vars(cls).items()
        if not (name.startswith("__") or callable(value) or hasattr(value, "__get__"))
    ]


def importable(one: Any) -> bool:
    """Return whether a worker can import a function or class by its module and qualified name."""
    module = sys.modules.get(one.__module__ or "")
    if module is None or one.__module__ == "__main__":
        return False
    found: Any = module
    for name in one.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is one


def process_identity() -> tuple[bytes, int]:
    """Return an identifier of this process that is unique among all machines and forked processes."""
    return _TOKEN, os.getpid()


def set_attributes(held: Iterable[HeldAttribute], program: tuple[bytes, int]) -> None:
    """Set attributes of modules and classes in a worker; does nothing in the process `program`, which they come from."""
    if program == process_identity():
        return
    for module, path, name, value in held:
        with contextlib.suppress(
            ImportError
        ):  # a module pickled by value, or missing: then the call fails with the error
            owner: Any = importlib.import_module(module)
            setattr(functools.reduce(getattr, path.split("."), owner) if path else owner, name, value)
