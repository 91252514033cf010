"""What can be asked of a Series without computing it: name, dtype, length, index."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from craton.pandas.axes import current, row_axis
from craton.pandas.execute import count_rows
from craton.pandas.frame_facts import set_row_labels
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
            held: View = current(self.__dict__)
            self.__dict__["_view"] = replace(held, labels=name_index(value))

    @property
    def index(self: Any) -> pd.Index:
        """The row labels; computed when somebody looks at them, and nothing else with them."""
        if is_lazy(self):
            return row_axis(self.__dict__)
        return _index.__get__(self, type(self))

    @index.setter
    def index(self: Any, labels: Any) -> None:
        if is_lazy(self) and set_row_labels(self, labels):
            return
        _ = self._mgr
        _index.__set__(self, labels)

    @property
    def axes(self: Any) -> list[pd.Index]:
        """The row labels, in a list."""
        return [self.index]

    def keys(self: Any) -> pd.Index:
        """The row labels."""
        return self.index  # type: ignore[no-any-return]

    def __len__(self: Any) -> int:
        if is_lazy(self):
            return count_rows(self.__dict__["_view"])
        return len(self._mgr.axes[0])

    @property
    def shape(self: Any) -> tuple[int]:
        """The number of rows."""
        return (len(self),)

    @property
    def size(self: Any) -> int:
        """The number of rows."""
        return len(self)

    @property
    def ndim(self: Any) -> int:
        """1."""
        return 1

    @property
    def empty(self: Any) -> bool:
        """Whether there is no row."""
        if is_lazy(self):
            held: View = self.__dict__["_view"]
            return (held.rows if held.rows is not None else len(self.head(1))) == 0
        return len(self) == 0

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

    def __contains__(self: Any, key: Any) -> bool:
        return key in self.index

    def copy(self: Any, deep: bool = True) -> Any:
        """A copy; of a plan, at no cost."""
        if is_lazy(self):
            return lazy(type(self), current(self.__dict__), self)
        return pd.Series.copy(self, deep)
