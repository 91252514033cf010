"""``apply`` and ``transform`` with the name of a method, or with a function of NumPy for each element: calls of planned methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.lazy import view
from craton.pandas.reductions.reductions import REDUCTIONS
from craton.refusals import Refusal

__all__ = ["apply_frame_by_name", "apply_series_by_name", "transform_by_name"]

#: Methods that return an object with the same row labels.
_TRANSFORMS = frozenset(
    [
        "abs",
        "cumsum",
        "cumprod",
        "cummin",
        "cummax",
        "ffill",
        "bfill",
        "shift",
        "diff",
        "rank",
        "pct_change",
        "isna",
        "notna",
    ]
)


def transform_by_name(self: Any, func: Any, axis: Any = 0, *args: Any, **kwargs: Any) -> Any:
    """``transform`` with the name of a method, or with a function of NumPy.

    Raises
    ------
    Unsupported
        If `func` is anything else, or the axis is that of the columns.
    """
    if axis not in (0, "index"):
        raise Unsupported(Refusal.FUNCTION_OF_ROWS)
    if isinstance(func, str) and func in _TRANSFORMS:
        try:
            return getattr(self, func)(*args, **kwargs)
        except Exception as error:  # pandas raises another error for it
            raise Unsupported(Refusal.ERROR_OF_PANDAS, error) from error
    if args or kwargs:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    return _elements(self, func)


def apply_frame_by_name(self: Any, func: Any, axis: Any = 0, **kwargs: Any) -> Any:
    """``df.apply`` with the name of a reduction, or with a function of NumPy for each element.

    Raises
    ------
    Unsupported
        If `func` is anything else, or other parameters are given.
    """
    if kwargs:
        raise Unsupported(Refusal.ARGUMENTS_OF_FUNCTION)
    if isinstance(func, str) and func in REDUCTIONS and view(self).values:
        return getattr(self, func)(axis=axis)
    return _elements(self, func)


def apply_series_by_name(self: Any, func: str, **kwargs: Any) -> Any:
    """``series.apply`` with the name of a method.

    Raises
    ------
    Unsupported
        If it is not the name of a reduction, or of a method with one value per row; or with an axis.
    """
    if (func not in REDUCTIONS and func not in _TRANSFORMS) or "axis" in kwargs:
        raise Unsupported(Refusal.REDUCTION_FUNCTIONS)
    return getattr(self, func)(**kwargs)


def _elements(obj: Any, func: Any) -> Any:
    """A function of NumPy for each element of an object that has rows."""
    if not isinstance(func, np.ufunc) or (func.nin, func.nout) != (1, 1) or obj._attrs:
        raise Unsupported(Refusal.REDUCTION_FUNCTIONS)
    if isinstance(obj, pd.DataFrame) and not view(obj).values:
        raise Unsupported(Refusal.NO_COLUMNS)
    if not len(obj):
        raise Unsupported(Refusal.NO_ROWS)
    with np.errstate(all="ignore"):
        return func(obj)
