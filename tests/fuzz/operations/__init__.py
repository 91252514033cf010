"""The operations of all families. Importing this package registers them."""

from tests.fuzz.building import OPERATIONS
from tests.fuzz.operations import (
    expressions,
    frame_methods,
    frame_rows,
    groups,
    relational,
    series_methods,
    situations,
    text_and_time,
)

__all__ = [
    "OPERATIONS",
    "expressions",
    "frame_methods",
    "frame_rows",
    "groups",
    "relational",
    "series_methods",
    "situations",
    "text_and_time",
]
