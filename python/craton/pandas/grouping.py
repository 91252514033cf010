"""The entry to group-by and pivot tables."""

from __future__ import annotations


class FrameGrouping:
    """Methods of DataFrame."""


class SeriesGrouping:
    """Methods of Series."""
