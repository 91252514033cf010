"""Reductions to a scalar or one value a column: sum, mean, quantile, describe, agg, nunique, value_counts."""

from __future__ import annotations


class FrameReductions:
    """Methods of DataFrame."""


class SeriesReductions:
    """Methods of Series."""
