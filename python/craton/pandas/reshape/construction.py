"""``DataFrame`` of a dict of columns: if these are planned and have the same rows, so is the frame."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.counterparts import frame_class
from craton.pandas.core.lazy import become_lazy, view
from craton.pandas.core.routing import inside_pandas, is_lazy
from craton.pandas.core.view import View

_pandas_init = pd.DataFrame.__init__


class FrameConstruction:
    """The constructor of DataFrame."""

    def __init__(
        self: Any, data: Any = None, index: Any = None, columns: Any = None, dtype: Any = None, copy: Any = None
    ) -> None:
        if type(data) is dict and index is None and columns is None and dtype is None and type(self) is frame_class():
            held = _side_by_side(data)
            if held is not None:
                become_lazy(self, held)
                return
        _pandas_init(self, data, index, columns, dtype, copy)

    __init__.__wrapped__ = _pandas_init  # type: ignore[attr-defined]  # for its signature


def _side_by_side(data: dict[Any, Any]) -> View | None:
    """The view of a frame with these columns; None unless they are Series, some of them lazy, with the same rows and row labels."""
    columns = list(data.values())
    if not all(isinstance(column, pd.Series) for column in columns) or not any(map(is_lazy, columns)):
        return None
    labels = list(data)
    if inside_pandas() or not (all(type(one) is str for one in labels) or all(type(one) is int for one in labels)):
        return None
    from craton.pandas.reshape.concatenation import ConcatInput, with_same_rows

    try:
        inputs = [ConcatInput(view(column), True) for column in columns]
        held = with_same_rows(inputs)
    except Unsupported:
        return None
    if held is None or any(one.view.index.names != held.index.names for one in inputs):
        return None
    return held.with_values(held.values, pd.Index(labels))
