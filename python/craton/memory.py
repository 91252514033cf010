"""Drops the remembered results of plans."""

from __future__ import annotations


def clear_memory() -> None:
    """Drop the remembered results of plans."""
    from craton.engine.result_cache import results

    results.clear()
