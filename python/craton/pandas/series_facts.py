"""What can be asked of a Series without computing it: name, dtype, length, index."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.execute import count_rows
from craton.pandas.frame_facts import index_of
from craton.pandas.lazy import lazy
from craton.pandas.native import is_lazy
from craton.pandas.view import View, name_index

_index = pd.Series.__dict__["index"]
_name = pd.Series.__dict__["name"]


class SeriesFacts:
    """Facts about a lazy Series."""

    @property
    def name(self: Any) -> Any:
        """The name."""
        return self._name

    @name.setter
    def name(self: Any, value: Any) -> None:
        _name.__set__(self, value)
        if is_lazy(self):
            held: View = self.__dict__["_view"]
            self.__dict__["_view"] = View(held.base, held.values, name_index(value), held.index, held.rows)

    @property
    def index(self: Any) -> pd.Index:
        """The row labels; only they are computed."""
        if is_lazy(self):
            return index_of(self.__dict__["_view"])
        return _index.__get__(self, type(self))

    @index.setter
    def index(self: Any, labels: Any) -> None:
        _ = self._mgr
        _index.__set__(self, labels)

    def __len__(self: Any) -> int:
        if is_lazy(self):
            return count_rows(self.__dict__["_view"])
        return len(self._mgr.axes[0])

    @property
    def shape(self: Any) -> tuple[int]:
        """The number of rows."""
        return (len(self),)

    @property
    def dtype(self: Any) -> Any:
        """The dtype."""
        if is_lazy(self):
            (value,) = self.__dict__["_view"].values
            if value.definite:
                return value.dtype
        return self._mgr.dtype

    @property
    def dtypes(self: Any) -> Any:
        """The dtype."""
        return self.dtype

    def copy(self: Any, deep: bool = True) -> Any:
        """A copy; of a plan, at no cost."""
        if is_lazy(self):
            return lazy(type(self), self.__dict__["_view"], self)
        return pd.Series.copy(self, deep)
