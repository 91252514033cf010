"""What is kept between runs, and how to drop it."""

from __future__ import annotations


def clear_memory() -> None:
    """Forget the results of plans that were run."""
    from craton.engine.results import results

    results.clear()
