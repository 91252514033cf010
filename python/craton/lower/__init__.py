"""Lowers plans to Polars queries. The implementation is imported when the first plan runs, to keep start-up short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from craton.lower.single_node import lower


def __getattr__(name: str) -> Any:
    if name != "lower":
        raise AttributeError(f"module 'craton.lower' has no attribute {name!r}")
    from craton.lower import single_node

    globals()["lower"] = single_node.lower
    return single_node.lower


__all__ = ["lower"]
