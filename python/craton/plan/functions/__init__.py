"""The functions that plans can call, one module for each family.

Null semantics are those of Polars: arithmetic and comparisons return null if an operand is null, and aggregates skip nulls.
Where pandas differs, the front end says so in the plan (``fill_null``).
"""

from craton.plan.functions import (
    aggregates,
    arithmetic,
    dates,
    distinct,
    elementwise,
    exact,
    extremes,
    interpolation,
    intervals,
    lists,
    logic,
    moments,
    moving,
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
    "dates",
    "distinct",
    "elementwise",
    "exact",
    "extremes",
    "interpolation",
    "intervals",
    "lists",
    "logic",
    "moments",
    "moving",
    "neighbours",
    "order_statistics",
    "picks",
    "ranks",
    "running",
    "strings",
]
