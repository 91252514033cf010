"""Whole-table methods: merge, join, sort, index to column and back, duplicates, melt."""

from __future__ import annotations


class FrameRelational:
    """Methods of DataFrame."""


class SeriesRelational:
    """Methods of Series."""
