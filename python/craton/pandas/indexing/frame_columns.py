"""Columns of a DataFrame: selection by label and by mask, assignment, insertion, removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_hashable, is_list_like, is_scalar
from pandas.core import common

from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import series_class
from craton.pandas.core.function_keys import resolve_key
from craton.pandas.core.lazy import consolidated, lazy, refuse_unique_labels_flag, replace_state, view
from craton.pandas.core.native import by_callback, native, never_refused
from craton.pandas.core.routing import is_lazy
from craton.pandas.core.view import View, is_missing_label
from craton.pandas.indexing.rows import by_slice, is_mask, masked
from craton.pandas.indexing.shared_columns import select_columns
from craton.refusals import Refusal


def chosen_columns(obj: Any, held: View, choose: Callable[[pd.DataFrame], Any]) -> Any:
    """Select columns with pandas' own code: a lazy DataFrame, or a lazy Series for one column.

    Parameters
    ----------
    obj
        The frame.
    held
        The view to select from: the frame's, or one with other rows.
    choose
        The selection. It is called with a one-row stand-in whose values are the positions of the columns, and may raise
        pandas' errors.
    """
    found = choose(stand_ins.positions(held.labels))
    if isinstance(found, pd.DataFrame):
        return lazy(type(obj), replace(held.take(found.iloc[0].tolist()), labels=found.columns), obj)

    return lazy(series_class(), held.series(held.values[int(found.iloc[0])], found.name), obj)


def labelled_columns(obj: Any, held: View, key: Any) -> Any:
    """The columns with the labels of a list, without a stand-in; None for other keys than known strings of unlike columns."""
    if type(key) is not list or not key or not all(type(one) is str for one in key):
        return None
    if type(held.labels) is not pd.Index or not held.labels.is_unique:
        return None
    places = [place for one in key for place in held.positions(one)]
    return lazy(type(obj), held.take(places), obj) if len(places) == len(key) else None


def filter_rows(obj: Any, mask: Any) -> Any:
    """``obj[mask]`` for a boolean Series or as many booleans as there are rows."""
    held, predicate = masked(view(obj), mask)
    chosen = held.filtered(predicate)
    return lazy(type(obj), chosen.keep_frequency_if_consecutive() if isinstance(obj, pd.Series) else chosen, obj)


def with_blocks_of_pandas(obj: Any, value: Any) -> Any:
    """Consolidate a frame, and the values that pandas sets in it, as they would be in pandas; return the values."""
    consolidated(obj, True)
    return consolidated(value, False) if isinstance(value, pd.DataFrame) else value


def _set_in_blocks(obj: Any, key: Any, value: Any) -> None:
    """Pandas' own assignment, on a frame that is consolidated as in pandas.

    If the key is a boolean frame or a mask of rows, pandas sets values of several columns block by block, so the result depends on the
    blocks. A materialised frame has one block per column.
    """
    selector = common.apply_if_callable(key, obj)
    several = (
        isinstance(selector, slice)
        or getattr(selector, "ndim", 1) == 2
        or (not is_hashable(selector) and is_mask(selector))
    )
    if several and is_list_like(value):
        value = with_blocks_of_pandas(obj, value)
    pd.DataFrame.__setitem__(obj, key, value)


@never_refused(pd.DataFrame, "items")
class FrameColumns:
    """Column access of a lazy DataFrame."""

    @native(pd.DataFrame, key=True, route=by_callback(select_columns))
    def __getitem__(self: Any, key: Any) -> Any:
        if callable(key):
            return self[resolve_key(key, self)]
        held = view(self)
        if is_scalar(key) and not is_missing_label(key) and not isinstance(held.labels, pd.MultiIndex):
            found = held.positions(key)
            if len(found) == 1:
                return lazy(series_class(), held.series(held.values[found[0]], held.labels[found[0]]), self)
        if isinstance(key, slice):
            return lazy(type(self), by_slice(held, key), self)
        if isinstance(key, (pd.DataFrame, dict, set)):
            raise Unsupported(Refusal.KEY_TYPE, type(key).__name__)
        if not is_hashable(key) and is_mask(key):
            return filter_rows(self, key)
        if is_list_like(key) and common.is_bool_indexer(key):
            raise Unsupported(Refusal.MASK_OF_OBJECTS)
        found = labelled_columns(self, held, key)
        return chosen_columns(self, held, lambda frame: frame[key]) if found is None else found

    @native(pd.DataFrame, key=True, fallback=_set_in_blocks)
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        from craton.pandas.indexing.setting import assigned, set_by_position, set_where

        key = resolve_key(key, self)
        if isinstance(key, slice):
            if not all(bound is None or type(bound) is int for bound in (key.start, key.stop, key.step)):
                raise Unsupported(Refusal.ROWS_BY_LABEL)
            replace_state(self, set_by_position(self, key, slice(None), value))
        elif isinstance(key, (pd.DataFrame, dict, set)) or getattr(key, "ndim", 1) > 1:
            raise Unsupported(Refusal.KEY_TYPE, type(key).__name__)
        elif is_hashable(key):
            replace_state(self, assigned(view(self), key, _only_column(value)))
        elif not isinstance(key, (list, np.ndarray, pd.Series, pd.Index)):  # pandas treats other keys as one label
            raise Unsupported(Refusal.KEY_TYPE, type(key).__name__)
        elif is_mask(key):
            if is_list_like(value):
                raise Unsupported(Refusal.SET_ROWS_OF_ONE_BLOCK)
            held, predicate = masked(view(self), key)
            replace_state(self, set_where(self, held, list(range(len(held.values))), predicate, value))
        elif common.is_bool_indexer(key):
            raise Unsupported(Refusal.MASK_OF_OBJECTS)
        else:
            replace_state(self, _assigned_columns(view(self), list(key), value))

    def items(self: Any) -> Iterator[tuple[Any, Any]]:
        """Column labels and columns."""
        if not is_lazy(self):
            yield from pd.DataFrame.items(self)
            return

        held = view(self)
        for i, (label, value) in enumerate(zip(self.columns, held.values, strict=True)):
            yield label, lazy(series_class(), held.series(value, held.labels[i]), self)

    @native(pd.DataFrame)
    def __delitem__(self: Any, key: Any) -> None:
        held = view(self)
        kept = stand_ins.positions(held.labels)
        del kept[key]
        replace_state(self, _with_kept_columns(held, kept))

    @native(pd.DataFrame)
    def pop(self: Any, item: Any) -> Any:
        if not is_hashable(item):
            raise Unsupported(Refusal.KEY_TYPE, type(item).__name__)
        held = view(self)
        kept = stand_ins.positions(held.labels)
        kept.pop(item)
        result = self[item]
        replace_state(self, _with_kept_columns(held, kept))
        return result

    @native(pd.DataFrame)
    def insert(self: Any, loc: Any, column: Any, value: Any, allow_duplicates: Any = False) -> None:
        from craton.pandas.indexing.setting import column_for

        refuse_unique_labels_flag(self)
        held = view(self)
        if isinstance(held.labels, pd.MultiIndex) or not held.values or isinstance(value, pd.DataFrame):
            raise Unsupported(Refusal.INSERTION)
        frame = stand_ins.positions(held.labels)
        frame.insert(loc, column, -1, allow_duplicates)
        held, new = column_for(held, value)
        values = [new if i < 0 else held.values[i] for i in frame.iloc[0]]
        replace_state(self, held.with_values(values, frame.columns))


def _with_kept_columns(held: View, kept: pd.DataFrame) -> View:
    return held.with_values([held.values[i] for i in kept.iloc[0].tolist()], kept.columns)


def _only_column(value: Any) -> Any:
    if isinstance(value, pd.DataFrame):
        if value.shape[1] != 1:
            raise Unsupported(Refusal.COLUMNS_INTO_ONE)
        return value.iloc[:, 0]
    return value


def _assigned_columns(held: View, keys: list[Any], value: Any) -> View:
    """``df[[a, b]] = value``."""
    from craton.pandas.indexing.setting import assigned

    if not held.labels.is_unique or isinstance(held.labels, pd.MultiIndex):
        raise Unsupported(Refusal.DUPLICATE_LABELS)
    if isinstance(value, pd.DataFrame):
        if value.shape[1] != len(keys) or not value.columns.is_unique:
            raise Unsupported(Refusal.COLUMNS_SET_COUNT)
        parts = [value[label] for label in value.columns]
    elif not is_list_like(value):
        parts = [value] * len(keys)
    elif isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] == len(keys):
        parts = [value[:, i] for i in range(len(keys))]
    elif isinstance(value, (list, tuple)) and len(value) == len(keys) and all(is_scalar(item) for item in value):
        parts = list(value)
    else:
        raise Unsupported(Refusal.COLUMNS_FROM, type(value).__name__)
    if any(not is_hashable(key) for key in keys):
        raise Unsupported(Refusal.LABEL_NOT_HASHABLE)
    for key, part in zip(keys, parts, strict=True):
        held = assigned(held, key, part)
    return held
