"""Methods whose value depends on neighbouring rows: cumsum, shift, diff, rank."""

from __future__ import annotations


class FrameWindows:
    """Methods of DataFrame."""


class SeriesWindows:
    """Methods of Series."""
