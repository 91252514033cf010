"""The methods of DataFrame and Series that call Python functions."""

from __future__ import annotations

import pandas as pd

from craton.pandas.calling import calling
from craton.pandas.calling_cells import apply_series, map_frame, map_series, transform_frame, transform_series
from craton.pandas.calling_rows import apply_frame
from craton.pandas.cells import SeriesCells


class FrameCalls:
    """Methods of DataFrame."""

    apply = calling(pd.DataFrame, "apply", apply_frame)
    map = calling(pd.DataFrame, "map", map_frame)
    transform = calling(pd.DataFrame, "transform", transform_frame)


class SeriesCalls:
    """Methods of Series."""

    apply = calling(pd.Series, "apply", apply_series)
    map = calling(pd.Series, "map", map_series, SeriesCells.map)
    transform = calling(pd.Series, "transform", transform_series)
