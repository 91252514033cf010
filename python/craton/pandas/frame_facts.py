"""What can be asked of a DataFrame without computing it: labels, dtypes, length, index."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.execute import count_rows, materialise
from craton.pandas.lazy import lazy
from craton.pandas.lazy_index import lazy_index
from craton.pandas.native import is_lazy
from craton.pandas.view import View

_columns = pd.DataFrame.__dict__["columns"]
_index = pd.DataFrame.__dict__["index"]
_series_index = pd.Series.__dict__["index"]


def index_of(held: View) -> pd.Index:
    """The row labels alone."""
    if held.index.kind == "default":
        return pd.RangeIndex(count_rows(held), name=held.index.names[0])
    index = lazy_index(held)
    return materialise(View(held.base, (), held.labels[:0], held.index, held.rows))[1] if index is None else index


class FrameFacts:
    """Facts about a lazy DataFrame."""

    @property
    def columns(self: Any) -> pd.Index:
        """The column labels."""
        if is_lazy(self):
            return self.__dict__["_view"].labels
        return _columns.__get__(self, type(self))

    @columns.setter
    def columns(self: Any, labels: Any) -> None:
        if is_lazy(self):
            held: View = self.__dict__["_view"]
            new = pd.Index(labels) if not isinstance(labels, pd.Index) else labels
            if len(new) != len(held.values):
                raise ValueError(
                    f"Length mismatch: Expected axis has {len(held.values)} elements, new values have {len(new)} elements"
                )
            self.__dict__["_view"] = View(held.base, held.values, new, held.index, held.rows)
            return
        _columns.__set__(self, labels)

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
        return len(self._mgr.axes[1])

    @property
    def shape(self: Any) -> tuple[int, int]:
        """Rows and columns."""
        if is_lazy(self):
            return count_rows(self.__dict__["_view"]), len(self.__dict__["_view"].values)
        manager = self._mgr
        return len(manager.axes[1]), len(manager.axes[0])

    @property
    def dtypes(self: Any) -> pd.Series:
        """The dtype of each column."""
        if is_lazy(self):
            held: View = self.__dict__["_view"]
            if all(value.definite for value in held.values):
                from craton.pandas.series import Series

                return Series([value.dtype for value in held.values], index=held.labels, dtype=object)
        return pd.DataFrame.dtypes.fget(self)  # type: ignore[attr-defined]

    def copy(self: Any, deep: bool = True) -> Any:
        """A copy; of a plan, at no cost."""
        if is_lazy(self):
            return lazy(type(self), self.__dict__["_view"], self)
        return pd.DataFrame.copy(self, deep)

