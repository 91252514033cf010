"""Registers ``craton.pandas`` with libraries that recognise pandas by the name of its module."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from craton.imported import when_imported

__all__ = ["register_module"]


def register_module() -> None:
    """Make narwhals accept ``craton.pandas`` as pandas: ``nw.from_dict(data, backend=pd)``."""
    when_imported("narwhals._utils", _register_with_narwhals)


def _register_with_narwhals(module: ModuleType) -> None:
    # narwhals has no public way to name a module that is pandas. Where this table is missing, backend="pandas" still works.
    names: Any = getattr(module, "_MODULE_NAME_TO_IMPLEMENTATION", None)
    if isinstance(names, dict) and "pandas" in names:
        names["craton.pandas"] = names["pandas"]
