"""Selection of rows and columns: loc, iloc, head, tail, query, drop, rename, filter and their kin."""

from __future__ import annotations


class FrameSelection:
    """Methods of DataFrame."""


class SeriesSelection:
    """Methods of Series."""
