"""The methods of DataFrame and Series that call Python functions. Their implementation is imported at the first call."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.core.native import native
from craton.pandas.values.methods import planned_map


def _apply_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.rows import apply_frame

    return apply_frame(self, *args, **kwargs)


def _map_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.elementwise import map_frame

    return map_frame(self, *args, **kwargs)


def _transform_frame(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.elementwise import transform_frame

    return transform_frame(self, *args, **kwargs)


def _apply_series(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.elementwise import apply_series

    return apply_series(self, *args, **kwargs)


def _map_series(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.elementwise import map_series

    return map_series(self, *args, **kwargs)


def _transform_series(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.elementwise import transform_series

    return transform_series(self, *args, **kwargs)


def _planned_apply(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.named import apply_frame_by_name

    return apply_frame_by_name(self, *args, **kwargs)


def _planned_transform(self: Any, *args: Any, **kwargs: Any) -> Any:
    from craton.pandas.udf.named import transform_by_name

    return transform_by_name(self, *args, **kwargs)


class FrameCalls:
    """Methods of DataFrame."""

    apply = native(pd.DataFrame, "apply", calls=_apply_frame)(_planned_apply)
    map = native(pd.DataFrame, "map", calls=_map_frame)(None)
    transform = native(pd.DataFrame, "transform", calls=_transform_frame)(_planned_transform)


class SeriesCalls:
    """Methods of Series."""

    apply = native(pd.Series, "apply", calls=_apply_series)(None)
    map = native(pd.Series, "map", calls=_map_series)(planned_map)
    transform = native(pd.Series, "transform", calls=_transform_series)(_planned_transform)
