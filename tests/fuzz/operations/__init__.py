"""The operations of all families. Importing this package registers them."""

from tests.fuzz.building import OPERATIONS
from tests.fuzz.operations import (
    alignment,
    carried,
    expressions,
    frame_methods,
    frame_rows,
    group_functions,
    group_keys,
    groups,
    lists_and_dummies,
    relational,
    reshaping,
    series_methods,
    situations,
    statistics,
    text_and_time,
    values_of_columns,
    windows,
)

__all__ = [
    "OPERATIONS",
    "alignment",
    "carried",
    "expressions",
    "frame_methods",
    "frame_rows",
    "group_functions",
    "group_keys",
    "groups",
    "lists_and_dummies",
    "relational",
    "reshaping",
    "series_methods",
    "situations",
    "statistics",
    "text_and_time",
    "values_of_columns",
    "windows",
]
