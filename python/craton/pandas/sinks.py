"""Writers: to_parquet, to_csv, to_feather."""

from __future__ import annotations


class FrameSinks:
    """Methods of DataFrame."""


class SeriesSinks:
    """Methods of Series."""
