"""The functions of plans, one module a family: each function's record stands with its lowering, phases and strategy.

Null semantics are Polars': arithmetic and comparisons return null when an operand is null, aggregates skip nulls.
The front end asks for anything else explicitly (``fill_null``).
"""

from craton.plan.functions import (
    aggregates,
    arithmetic,
    cells,
    dates,
    distinct,
    exact,
    extremes,
    logic,
    moments,
    neighbours,
    order_statistics,
    picks,
    ranks,
    running,
    strings,
)

__all__ = [
    "aggregates",
    "arithmetic",
    "cells",
    "dates",
    "distinct",
    "exact",
    "extremes",
    "logic",
    "moments",
    "neighbours",
    "order_statistics",
    "picks",
    "ranks",
    "running",
    "strings",
]
