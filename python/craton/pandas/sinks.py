"""Arrow data in, files out: from_arrow; to_parquet, to_csv, to_feather, to_json."""

from __future__ import annotations

from typing import Any

from craton.pandas.memory_data import frame_from_arrow, series_from_arrow


class FrameSinks:
    """Methods of DataFrame."""

    @classmethod
    def from_arrow(cls, data: Any) -> Any:
        """See :meth:`pandas.DataFrame.from_arrow`."""
        return frame_from_arrow(cls, data)


class SeriesSinks:
    """Methods of Series."""

    @classmethod
    def from_arrow(cls, data: Any) -> Any:
        """See :meth:`pandas.Series.from_arrow`."""
        return series_from_arrow(cls, data)
