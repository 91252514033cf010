"""Every operation: importing this registers those of all families."""

from tests.fuzz import (
    frame_operations,
    group_operations,
    relational_operations,
    series_operations,
    situations,
    text_and_time_operations,
)
from tests.fuzz.building import OPERATIONS

__all__ = [
    "OPERATIONS",
    "frame_operations",
    "group_operations",
    "relational_operations",
    "series_operations",
    "situations",
    "text_and_time_operations",
]
