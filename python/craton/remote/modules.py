"""What the program's modules and classes hold at present, for workers that import them anew.

A function that others could import is pickled by its name, and so is a module that it names. A worker imports it and has what the
module says, and not what the program made of it since (``settings.rate = 3``). So what a function reads of the user's modules
travels with it, and is set in the worker before the function is called.
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

__all__ = ["Held", "held_by", "importable", "members_named", "process", "put_back"]

_TOKEN = os.urandom(8)

Held = tuple[str, str, str, Any]
"""Of which module, of which class in it or of none (``""``), the name and the value of an attribute."""


def members_named(names: Iterable[str], values: dict[str, Any]) -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Attributes of the user's modules that code names, also of modules in modules.

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


def held_by(cls: type) -> list[tuple[str, Any]]:
    """The attributes of a class that are no functions and no descriptors."""
    return [
        (name, value)
        for name, value in vars(cls).items()
        if not (name.startswith("__") or callable(value) or hasattr(value, "__get__"))
    ]


def importable(one: Any) -> bool:
    """Whether a function or class is found by its names in a module that a worker imports."""
    module = sys.modules.get(one.__module__ or "")
    if module is None or one.__module__ == "__main__":
        return False
    found: Any = module
    for name in one.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is one


def process() -> tuple[bytes, int]:
    """What tells this process from all others, on other machines and forked ones too."""
    return _TOKEN, os.getpid()


def put_back(held: Iterable[Held], program: tuple[bytes, int]) -> None:
    """Set, in a worker, what the modules and classes of the program hold; not in the process of the program itself."""
    if program == process():
        return
    for module, path, name, value in held:
        with contextlib.suppress(ImportError):  # of a module that is pickled by value; else the function says so
            owner: Any = importlib.import_module(module)
            setattr(functools.reduce(getattr, path.split("."), owner) if path else owner, name, value)
