"""Row-wise methods that change cells: fillna, where, clip, isin, astype, replace, map and their kin."""

from __future__ import annotations


class FrameCells:
    """Methods of DataFrame."""


class SeriesCells:
    """Methods of Series."""
