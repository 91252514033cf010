"""Optional libraries, used only once the process has imported them: before that no value can be of their classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_waiting: dict[str, Callable[[ModuleType], None]] = {}
"""Functions to call when modules are imported, by the modules' names."""


def imported_pandas() -> ModuleType | None:
    """Return pandas if it has been imported. Workers that compute tiles do not import it, because it takes 28 MB of memory.

    While another thread is importing pandas, this waits for it to finish, since the module lacks most of its names until then.
    """
    module = sys.modules.get("pandas")
    if module is not None and getattr(module.__spec__, "_initializing", False):
        import pandas

        return pandas
    return module


def when_imported(name: str, function: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if the module is loaded, otherwise right after its first import.

    Parameters
    ----------
    name : str
        The dotted name of the module, which need not be installed.
    function : callable
        Called with the module. It must not raise, because the import would fail.
    """
    if name in sys.modules:
        function(sys.modules[name])
        return
    _waiting[name] = function
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds modules by asking the other finders of ``sys.meta_path``, and makes their loaders call the waiting functions."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if finder is cls:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _call_after_loading(spec, name)
                return spec
        return None


def _call_after_loading(spec: ModuleSpec, name: str) -> None:
    loader: Any = spec.loader
    if loader is None:  # a namespace package
        return
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        if (function := _waiting.pop(name, None)) is not None:
            function(module)

    loader.exec_module = exec_module
