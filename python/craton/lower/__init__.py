"""From plans to what the kernel runs. What lowers a plan is imported when the first one runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.lower.whole import lower

_MODULES = (
    "functions_aggregate",
    "functions_cells",
    "functions_core",
    "functions_dates",
    "functions_strings",
    "functions_windows",
)


def __getattr__(name: str) -> Any:
    if name != "lower":
        raise AttributeError(f"module 'craton.lower' has no attribute {name!r}")
    import importlib

    for module in _MODULES:
        importlib.import_module(f"craton.lower.{module}")
    from craton.lower import whole

    globals()["lower"] = whole.lower
    return whole.lower


__all__ = ["lower"]
