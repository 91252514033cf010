"""Properties of a DataFrame that do not need its columns' values: labels, dtypes, length, index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.indexes.api import ensure_index

from craton import locks
from craton.errors import Unsupported
from craton.pandas.core.axes import column_axis, current_view, keep_row_axis, row_axis
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.execute import count_rows
from craton.pandas.core.lazy import lazy, replace_state
from craton.pandas.core.native import never_refused
from craton.pandas.core.routing import is_lazy
from craton.pandas.indexing.rows import relabelled

_columns = pd.DataFrame.__dict__["columns"]
_index = pd.DataFrame.__dict__["index"]
_column_labels, _row_labels = _columns.__get__, _index.__get__
_empty = pd.DataFrame.__mro__[1].__dict__["empty"]


def set_row_labels(obj: Any, labels: Any) -> bool:
    """Set the row labels of a lazy object in its plan; return False, and change nothing, where a plan cannot."""
    held = current_view(obj.__dict__)
    if held is None:
        return False
    try:
        new = relabelled(held, labels)
    except Unsupported:
        return False
    replace_state(obj, new)
    if isinstance(labels, pd.Index):
        keep_row_axis(obj.__dict__, new, labels)
    return True


@never_refused(pd.DataFrame)
class FrameMetadata:
    """Properties of DataFrame."""

    @property
    def columns(self: Any) -> pd.Index:
        state = self.__dict__
        if "_mgr" in state:  # read very often, by pandas as well
            return state["_mgr"].axes[0]
        if "_view" in state and is_lazy(self) and (found := column_axis(state)) is not None:
            return found
        return _column_labels(self)

    @columns.setter
    def columns(self: Any, labels: Any) -> None:
        state = self.__dict__
        if "_view" not in state:  # it has been computed
            _columns.__set__(self, labels)
            return
        with locks.objects.hold(id(state)):
            held = current_view(state)
            if held is not None:
                new = ensure_index(labels)
                if len(new) != len(held.values):
                    raise ValueError(
                        f"Length mismatch: Expected axis has {len(held.values)} elements, "
                        f"new values have {len(new)} elements"
                    )
                state["_view"] = replace(held, labels=new.view())
                state["_column_axis"] = (state["_view"].labels, new)
                return
        _columns.__set__(self, labels)

    @property
    def index(self: Any) -> pd.Index:
        """The row labels. They are computed, without the columns, when their values are first read."""
        state = self.__dict__
        if "_mgr" in state:
            return state["_mgr"].axes[1]
        if "_view" in state and is_lazy(self) and (found := row_axis(state)) is not None:
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
        return [self.index, self.columns]

    def __len__(self: Any) -> int:
        held = current_view(self.__dict__)
        if held is not None:
            return count_rows(held)
        return len(self._mgr.axes[1])

    @property
    def shape(self: Any) -> tuple[int, int]:
        held = current_view(self.__dict__)
        if held is not None:
            return count_rows(held), len(held.values)
        manager = self._mgr
        return len(manager.axes[1]), len(manager.axes[0])

    @property
    def size(self: Any) -> int:
        rows, columns = self.shape
        return rows * columns

    @property
    def ndim(self: Any) -> int:
        return 2

    @property
    def empty(self: Any) -> bool:
        held = current_view(self.__dict__)
        if held is not None:
            return not held.values or (held.rows if held.rows is not None else len(self.head(1))) == 0
        return bool(_empty.__get__(self, type(self)))

    @property
    def dtypes(self: Any) -> pd.Series:
        held = current_view(self.__dict__)
        if held is not None and all(value.definite for value in held.values):
            data = np.empty(len(held.values), dtype=object)
            data[:] = [value.dtype for value in held.values]
            return series_class()(data, index=self.columns, dtype=object)
        return pd.DataFrame.dtypes.fget(self)  # type: ignore[attr-defined]

    def __contains__(self: Any, key: Any) -> bool:
        return key in self.columns

    def __iter__(self: Any) -> Iterator[Any]:
        return iter(self.columns)

    def keys(self: Any) -> pd.Index:
        return self.columns  # type: ignore[no-any-return]

    def copy(self: Any, deep: bool = True) -> Any:
        """A copy. Of a lazy frame, it shares the plan and copies no data."""
        held = current_view(self.__dict__)
        if held is not None:
            return lazy(type(self), held, self)
        return pd.DataFrame.copy(self, deep)
