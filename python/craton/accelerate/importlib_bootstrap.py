"""The functions that replace ``builtins.__import__`` and ``importlib.import_module`` while Craton is installed.

The name of this file matters. Python counts no frames of files with ``importlib`` and ``_bootstrap`` in their names when it looks for
the line that a warning is about. So a warning that a module gives while it is imported names the line of the import statement.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from craton import callers

__all__ = ["make_import", "make_import_module"]

#: Modules of libraries that import pandas on behalf of the program, and hand it the module:
#: ``nw.get_native_namespace(frame) is pd``.
_ON_BEHALF = frozenset({"narwhals._utils"})


def make_import(installation: Any, is_active: Callable[[Any], bool]) -> Callable[..., ModuleType]:
    """A function in place of ``builtins.__import__``.

    Parameters
    ----------
    installation
        Has the function that was there before, and Craton's counterparts of pandas' modules.
    is_active
        Whether an installation has not been undone.
    """
    before, is_user = installation.import_before, callers.is_user

    def __import__(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        module = before(name, globals, locals, fromlist, level)
        if level or name[:6] != "pandas" or name[6:7] not in ("", "."):
            return module
        importer = sys._getframe(1).f_globals if globals is None else globals
        if not is_active(installation) or not is_user(importer):
            return module
        installation.give_to(importer)
        if name == "pandas" or not fromlist:  # both "import pandas" and "import pandas.x" bind the top
            return installation.counterparts.front_end
        return installation.counterparts.view(module, fromlist)

    return __import__


def make_import_module(installation: Any, is_active: Callable[[Any], bool]) -> Callable[..., ModuleType]:
    """A function in place of ``importlib.import_module``; for the parameters see :func:`make_import`."""
    before, is_user = installation.import_module_before, callers.is_user

    def import_module(name: str, package: str | None = None) -> ModuleType:
        module = before(name, package)
        if name != "pandas" or not is_active(installation):
            return module
        importer = sys._getframe(1).f_globals
        if is_user(importer):
            installation.give_to(importer)
        elif importer.get("__name__") not in _ON_BEHALF:
            return module
        return installation.counterparts.front_end

    import_module.__doc__ = before.__doc__
    import_module.__module__, import_module.__qualname__ = before.__module__, before.__qualname__  # for pickle
    return import_module
