"""The methods of DataFrame and Series that call Python functions: what does that is imported when one is first called."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.calling import calling
from craton.pandas.cells import SeriesCells


def _apply_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.calling_rows import apply_frame

    return apply_frame(self, *args, **kwargs)


def _map_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.calling_cells import map_frame

    return map_frame(self, *args, **kwargs)


def _transform_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.calling_cells import transform_frame

    return transform_frame(self, *args, **kwargs)


def _apply_series(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.calling_cells import apply_series

    return apply_series(self, *args, **kwargs)


def _map_series(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.calling_cells import map_series

    return map_series(self, *args, **kwargs)


def _transform_series(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.calling_cells import transform_series

    return transform_series(self, *args, **kwargs)


class FrameCalls:
    """Methods of DataFrame."""

    apply = calling(pd.DataFrame, "apply", _apply_frame)
    map = calling(pd.DataFrame, "map", _map_frame)
    transform = calling(pd.DataFrame, "transform", _transform_frame)


class SeriesCalls:
    """Methods of Series."""

    apply = calling(pd.Series, "apply", _apply_series)
    map = calling(pd.Series, "map", _map_series, SeriesCells.map)
    transform = calling(pd.Series, "transform", _transform_series)
