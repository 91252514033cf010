"""From plans to what the kernel runs."""

from craton.lower import (
    functions_aggregate,
    functions_cells,
    functions_core,
    functions_dates,
    functions_strings,
    functions_windows,
)
from craton.lower.whole import lower

__all__ = [
    "functions_aggregate",
    "functions_cells",
    "functions_core",
    "functions_dates",
    "functions_strings",
    "functions_windows",
    "lower",
]
