"""Replaces pandas by Craton in the user's code, and undoes that.

Code gets pandas in three ways: by the import statement (``builtins.__import__``), by ``importlib.import_module``,
and by a name that a module imported earlier. The first two are wrapped by functions that compare the beginning of the name
with ``pandas`` and return immediately if it differs; otherwise they determine whose code is importing. For the third,
the globals of the user's loaded modules are rebound once, so that ``craton.install()`` works anywhere in a script
or a notebook.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

from craton import callers, forks
from craton.accelerate import children
from craton.accelerate.counterparts import Counterparts
from craton.accelerate.importlib_bootstrap import make_import, make_import_module

__all__ = ["install", "installed", "rebind", "uninstall"]

_lock = forks.reentrant_lock()
_active: _Installation | None = None


class _Installation:
    """The two wrapped functions, and the state that is needed to undo the installation.

    The front end is loaded at the first import of pandas, so a program that never imports pandas does not
    load it.
    """

    def __init__(self) -> None:
        self.import_before: Callable[..., ModuleType] = builtins.__import__
        self.import_module_before: Callable[..., ModuleType] = importlib.import_module
        self.given: set[str] = set()
        """Names of the modules whose imports returned Craton."""
        self.rebound: set[tuple[str, str]] = set()
        """Pairs of module and name, for the names that were rebound from pandas to Craton."""
        self.import_hook = make_import(self, is_active)
        self.import_module_hook = make_import_module(self, is_active)

    @cached_property
    def counterparts(self) -> Counterparts:
        """The map from pandas' objects to Craton's."""
        front_end = self.import_module_before("craton.pandas")
        self.labels = self.import_module_before("craton.accelerate.labels").LabelMethods()
        return Counterparts(front_end)

    def give_to(self, importer: Mapping[str, Any]) -> None:
        """Record that a module gets Craton, so that `uninstall` can restore its names."""
        name = importer.get("__name__")
        if isinstance(name, str):
            self.given.add(name)

    def take_back(self) -> None:
        """Restore pandas' objects in every module that got Craton. Modules that import ``craton.pandas`` themselves keep it."""
        if "counterparts" not in vars(self):  # no module got Craton
            return
        self.labels.undo()
        names: dict[str, set[str] | None] = {}
        for module, name in self.rebound:
            names.setdefault(module, set()).add(name)  # type: ignore[union-attr]
        names |= dict.fromkeys(self.given)
        for module, which in names.items():
            namespace = getattr(sys.modules.get(module), "__dict__", None)
            if isinstance(namespace, dict):
                self.counterparts.replace(namespace, back=True, names=which)


def install(include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
    """Make imports of pandas in the user's code return ``craton.pandas``.

    Names that the user's modules imported from pandas before are rebound. Installed libraries keep pandas itself.
    Another call only changes `include` and `exclude`.

    Parameters
    ----------
    include
        Dotted names of installed modules or packages that get Craton, too.
    exclude
        Dotted names of the user's modules that keep pandas.

    Examples
    --------
    >>> import craton.accelerate
    >>> craton.accelerate.install()
    >>> import pandas as pd
    >>> pd.__name__
    'craton.pandas'
    >>> craton.accelerate.uninstall()
    >>> pd.__name__
    'pandas'
    """
    global _active
    include, exclude = tuple(include), tuple(exclude)
    with _lock:
        callers.configure(include, exclude)
        if _active is None:
            _active = _Installation()
            builtins.__import__ = _active.import_hook
            importlib.import_module = _active.import_module_hook
        children.prepare(install, include, exclude)
        if "pandas" in sys.modules:
            for module in list(sys.modules.values()):
                rebind(getattr(module, "__dict__", None))


def uninstall() -> None:
    """Undo `install`: all imports return pandas, and rebound names refer to pandas again.

    Existing frames keep Craton's class, and modules that imported ``craton.pandas`` by that name keep it.
    """
    global _active
    with _lock:
        if _active is None:
            return
        # If other code has wrapped the functions since, our wrapper stays in the chain, and does nothing.
        if builtins.__import__ is _active.import_hook:
            builtins.__import__ = _active.import_before
        if importlib.import_module is _active.import_module_hook:
            importlib.import_module = _active.import_module_before
        installation, _active = _active, None
        children.forget()
        installation.take_back()
        callers.configure()


def is_active(installation: _Installation) -> bool:
    """Whether an installation is the current one."""
    return installation is _active


def installed() -> bool:
    """Whether the user's imports of pandas currently return Craton."""
    return _active is not None


def rebind(namespace: Any) -> list[str]:
    """Replace pandas' objects by Craton's in the globals of one of the user's modules.

    Returns
    -------
    list of str
        The names that changed; empty if Craton is not installed or the module is a library.
    """
    if _active is None or not isinstance(namespace, dict) or not callers.is_user(namespace):
        return []
    changed = _active.counterparts.replace(namespace)
    _active.rebound |= {(str(namespace.get("__name__")), name) for name in changed}
    return changed
