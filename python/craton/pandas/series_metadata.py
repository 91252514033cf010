"""Properties of a Series that do not need its values: name, dtype, length, index."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

from craton import locks
from craton.pandas.core.axes import computes_levels, current_view, row_axis
from craton.pandas.core.execute import count_rows
from craton.pandas.core.lazy import lazy
from craton.pandas.core.native import never_refused
from craton.pandas.core.routing import is_lazy
from craton.pandas.core.scanning import unshare
from craton.pandas.core.stack import pointing_at_user
from craton.pandas.core.view import name_index
from craton.pandas.frame_metadata import set_row_labels

_index = pd.Series.__dict__["index"]
_row_labels = _index.__get__
_name = pd.Series.__dict__["name"]
_array = pd.Series.__dict__["array"]
_values = pd.Series.__dict__["values"]


def _is_user_frame(frame: FrameType) -> bool:
    """Whether a stack frame runs code that is neither pandas' nor Craton's."""
    module = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] not in ("pandas", "craton") or module.startswith("pandas.tests")


@never_refused(pd.Series, "array", "values", "to_numpy", planned=False)
@never_refused(
    pd.Series, *["name", "index", "axes", "keys", "shape", "size", "ndim", "empty", "dtype", "dtypes", "copy"]
)
class SeriesMetadata:
    """Properties of Series."""

    @property
    def name(self: Any) -> Any:
        return self._name

    @name.setter
    def name(self: Any, value: Any) -> None:
        _name.__set__(self, value)
        state = self.__dict__
        if "_view" not in state:  # it has been computed
            return
        with locks.objects.hold(id(state)):
            held = current_view(state)
            if held is not None:
                state["_view"] = replace(held, labels=name_index(value))

    @property
    def index(self: Any) -> pd.Index:
        """The row labels. They are computed, without the values, when they are first read.

        If they have several levels, one run computes both, because a program that reads such labels mostly reads the values as well.
        """
        state = self.__dict__
        if "_mgr" in state:  # read very often, by pandas as well
            return state["_mgr"].axes[0]
        if "_view" in state and is_lazy(self) and not computes_levels(state) and (found := row_axis(state)) is not None:
            return found
        return _row_labels(self)

    @index.setter
    def index(self: Any, labels: Any) -> None:
        if is_lazy(self) and set_row_labels(self, labels):
            return
        _ = self._mgr
        _index.__set__(self, labels)

    @property
    def axes(self: Any) -> list[pd.Index]:
        return [self.index]

    def keys(self: Any) -> pd.Index:
        return self.index  # type: ignore[no-any-return]

    def __len__(self: Any) -> int:
        held = current_view(self.__dict__)
        if held is not None:
            return count_rows(held)
        return len(self._mgr.axes[0])

    @property
    def shape(self: Any) -> tuple[int]:
        return (len(self),)

    @property
    def size(self: Any) -> int:
        return len(self)

    @property
    def ndim(self: Any) -> int:
        return 1

    @property
    def empty(self: Any) -> bool:
        held = current_view(self.__dict__)
        if held is not None:
            return (held.rows if held.rows is not None else len(self.head(1))) == 0
        return len(self) == 0

    @property
    def dtype(self: Any) -> Any:
        state = self.__dict__
        if "_mgr" in state:
            return state["_mgr"].dtype
        held = current_view(state)
        if held is not None:
            (value,) = held.values
            if value.definite:
                return value.dtype
        return self._mgr.dtype

    @property
    def array(self: Any) -> Any:
        if _is_user_frame(sys._getframe(1)):
            unshare(self)
        return _array.__get__(self, type(self))

    @property
    def values(self: Any) -> Any:
        if _is_user_frame(sys._getframe(1)) and not isinstance(self.dtype, np.dtype):
            unshare(self)
        if isinstance(self.dtype, (pd.PeriodDtype, pd.IntervalDtype)):
            _ = self._mgr  # what computes it may warn of other things
            return pointing_at_user(lambda: _values.__get__(self, type(self)))
        return _values.__get__(self, type(self))

    def to_numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_user_frame(sys._getframe(1)) and not isinstance(self.dtype, np.dtype):
            unshare(self)
        return pd.Series.to_numpy(self, *args, **kwargs)

    @property
    def dtypes(self: Any) -> Any:
        return self.dtype

    def __contains__(self: Any, key: Any) -> bool:
        return key in self.index

    def copy(self: Any, deep: bool = True) -> Any:
        """A copy. Of a lazy Series, it shares the plan and copies no data."""
        held = current_view(self.__dict__)
        if held is not None:
            made = lazy(type(self), held, self)
            if deep:
                made.__dict__["_shares"] = []  # no longer a column of a frame
            return made
        return pd.Series.copy(self, deep)
