"""Columns of a DataFrame: selection by label and by mask, assignment."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.types import is_scalar

from craton.errors import Unsupported
from craton.pandas.align import aligned
from craton.pandas.lazy import lazy, replace_state, view
from craton.pandas.native import native
from craton.pandas.setting import assigned
from craton.pandas.view import condition


def filter_rows(obj: Any, mask: Any) -> Any:
    """``obj[mask]`` for a boolean Series."""
    held, selector = aligned(view(obj), view(mask))
    return lazy(type(obj), held.filtered(condition(selector.values[0])), obj)


class FrameColumns:
    """Column access of a lazy DataFrame."""

    @native(pd.DataFrame)
    def __getitem__(self: Any, key: Any) -> Any:
        held = view(self)
        if isinstance(key, pd.Series):
            if key.dtype == bool:
                return filter_rows(self, key)
            raise Unsupported("columns by a Series")
        if is_scalar(key):
            if isinstance(held.labels, pd.MultiIndex):
                raise Unsupported("MultiIndex columns")
            position = held.position(key)
            from craton.pandas.series import Series

            return lazy(Series, held.series(held.values[position], key), self)
        if isinstance(key, list) and all(is_scalar(label) for label in key) and not any(isinstance(k, bool) for k in key):
            positions = [position for label in key for position in held.positions(label) or _missing()]
            return lazy(type(self), held.take(positions), self)
        raise Unsupported(f"a key of type {type(key).__name__}")

    @native(pd.DataFrame)
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        replace_state(self, assigned(view(self), key, value))


def _missing() -> list[int]:
    raise Unsupported("an unknown column: pandas words the error")
