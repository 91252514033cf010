"""``loc`` and ``iloc``: rows by label, mask or position, with columns beside them.

Column selectors are resolved by pandas itself on a template: a one-row frame whose values are the positions of the
columns (:func:`chosen_columns`). So every kind of selector means what it means in pandas, and errors are its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_list_like
from pandas.core.indexing import _iLocIndexer, _LocIndexer

from craton.errors import Unsupported
from craton.pandas.align import aligned
from craton.pandas.execute import count_rows
from craton.pandas.lazy import lazy, view
from craton.pandas.native import dispatch
from craton.pandas.view import View, condition
from craton.plan.expr import has_window
from craton.plan.operators import Slice


def template(labels: pd.Index) -> pd.DataFrame:
    """A frame of one row with the given columns; each holds its own position."""
    frame = pd.DataFrame(np.arange(len(labels)).reshape(1, -1))
    frame.columns = labels
    return frame


def chosen_columns(obj: Any, held: View, choose: Callable[[pd.DataFrame], Any]) -> Any:
    """What a choice of columns on the template means for a view: a lazy DataFrame, or a Series for one column.

    Parameters
    ----------
    obj
        The frame that the columns are of.
    held
        Its view, or one with other rows.
    choose
        Applied to the template; may raise as pandas does.
    """
    found = choose(template(held.labels))
    if isinstance(found, pd.DataFrame):
        return lazy(type(obj), replace(held.take(found.iloc[0].tolist()), labels=found.columns), obj)
    from craton.pandas.series import Series

    return lazy(Series, held.series(held.values[int(found.iloc[0])], found.name), obj)


def sliced(held: View, start: int | None, stop: int | None) -> View:
    """Rows by position, with the meaning of a Python slice."""
    begin = 0 if start is None else start
    if begin == 0 and stop is None:
        return held
    rows = held.rows
    if rows is None and stop is not None and (begin < 0 or stop < 0):
        rows = count_rows(held)
    view = held.numbered()
    if rows is not None:
        begin, end, _ = slice(start, stop).indices(rows)
        length = max(end - begin, 0)
        return _slice(view, begin, length, length)
    if stop is not None:
        return _slice(view, begin, max(stop - begin, 0), None)
    return _slice(view, begin, None if begin >= 0 else -begin, None)


def _slice(view: View, offset: int, length: int | None, rows: int | None) -> View:
    if any(has_window(value.expr) for value in (*view.values, *view.index.values)):
        view = view.sealed()
    return replace(view, base=Slice(view.base, offset, length), rows=rows)


class LocIndexer(_LocIndexer):  # type: ignore[misc]
    """``loc`` of a lazy object."""

    def __getitem__(self, key: Any) -> Any:
        if self.axis is not None:
            return super().__getitem__(key)
        label = f"{_base(self.obj)}.loc"
        return dispatch(label, _loc_get, _LocIndexer.__getitem__, self, (key,), {})


class ILocIndexer(_iLocIndexer):  # type: ignore[misc]
    """``iloc`` of a lazy object."""

    def __getitem__(self, key: Any) -> Any:
        if self.axis is not None:
            return super().__getitem__(key)
        label = f"{_base(self.obj)}.iloc"
        return dispatch(label, _iloc_get, _iLocIndexer.__getitem__, self, (key,), {})


def _base(obj: Any) -> str:
    return "DataFrame" if isinstance(obj, pd.DataFrame) else "Series"


def _split(obj: Any, key: Any) -> tuple[Any, Any]:
    """The row and the column part of a key; columns are ``slice(None)`` where it has none."""
    if not isinstance(key, tuple):
        return _called(obj, key), slice(None)
    if view(obj).index.kind == "multi" or isinstance(obj, pd.Series) or len(key) != 2:
        raise Unsupported("a key of several levels")
    return _called(obj, key[0]), _called(obj, key[1])


def _called(obj: Any, key: Any) -> Any:
    return key(obj) if callable(key) else key


def _everything(key: Any) -> bool:
    return isinstance(key, slice) and key == slice(None)


def _loc_get(self: LocIndexer, key: Any) -> Any:
    obj = self.obj
    rows, columns = _split(obj, key)
    held = _rows_by_label(view(obj), rows)
    if _everything(columns):
        return lazy(type(obj), held, obj)
    return chosen_columns(obj, held, lambda frame: frame.loc[:, columns])


def _rows_by_label(held: View, key: Any) -> View:
    if _everything(key):
        return held
    if isinstance(key, pd.Series) and key.dtype == bool:
        held, selector = aligned(held, view(key))
        return held.filtered(condition(selector.values[0]))
    raise Unsupported(f"rows by a {type(key).__name__}")


def _iloc_get(self: ILocIndexer, key: Any) -> Any:
    obj = self.obj
    rows, columns = _split(obj, key)
    held = view(obj)
    if not _everything(rows):
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise Unsupported(f"rows by a {type(rows).__name__}")
        if not all(bound is None or type(bound) is int for bound in (rows.start, rows.stop)):
            raise Unsupported("bounds that are no integers")
        held = sliced(held, rows.start, rows.stop)
    if _everything(columns):
        return lazy(type(obj), held, obj)
    if is_list_like(columns) and not isinstance(columns, (list, np.ndarray, pd.Index)):
        raise Unsupported(f"columns by a {type(columns).__name__}")
    return chosen_columns(obj, held, lambda frame: frame.iloc[:, columns])
