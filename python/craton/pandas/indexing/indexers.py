"""``loc`` and ``iloc``: rows by label, mask or position, and optionally columns.

pandas itself resolves column selectors, on a one-row stand-in whose values are the positions of the columns
(:func:`chosen_columns`). So each kind of selector has pandas' meaning and raises pandas' errors.

Assignment to an object that is already materialised changes it in place. That costs no more than a plan, and the arrays stay
the same objects, as in pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_integer, is_iterator, is_list_like, is_scalar
from pandas.core.indexing import _iLocIndexer, _LocIndexer

from craton import warning_filters
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.counterparts import as_craton, series_class
from craton.pandas.core.function_keys import resolve_key
from craton.pandas.core.lazy import lazy, replace_state, view
from craton.pandas.core.native import never_in_pandas, wrapped
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.stack import INDEXER_LIMIT, SETTING_ITEM, warn_of_chaining
from craton.pandas.core.view import IndexSpec, View
from craton.pandas.indexing.frame_columns import chosen_columns, labelled_columns, with_blocks_of_pandas
from craton.pandas.indexing.rows import (
    bounds,
    by_label,
    is_full_slice,
    is_mask,
    masked,
    positions_of,
    sliced,
    sliced_with_step,
    taken,
)
from craton.pandas.indexing.shared_columns import cell_in_memory, is_item_in_memory
from craton.refusals import Refusal

#: The label of row positions in a frame.
_ROW = "\0row"
#: The number of single rows of one object that are each fetched by a query. The next access materialises the object.
MAX_ROW_QUERIES = 4
#: Of frames of at most so many rows, only one cell is fetched by a query.
MAX_CELL_ROWS = 20_000_000


class LocIndexer(_LocIndexer):  # type: ignore[misc]
    """``loc`` of a lazy object."""

    def __getitem__(self, key: Any) -> Any:
        obj = self.obj
        if self.axis is None and is_item_in_memory(obj, key):
            place = cell_in_memory(obj, key) if isinstance(obj, pd.DataFrame) else None
            with plain_pandas():
                return as_craton(super().__getitem__(key)) if place is None else obj._get_value(*place, takeable=True)
        return _get_by_label(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if sys.getrefcount(self.obj) <= INDEXER_LIMIT:
            warn_of_chaining(self.obj, SETTING_ITEM)
        obj = self.obj  # another reference, so that pandas does not warn a second time
        if is_lazy(obj):
            _set_by_label(self, key, value)
            return
        with plain_pandas():
            materialise_operands(*(key if isinstance(key, tuple) else (key,)), value)
            super().__setitem__(key, _in_blocks(obj, key, value))


class ILocIndexer(_iLocIndexer):  # type: ignore[misc]
    """``iloc`` of a lazy object."""

    def __getitem__(self, key: Any) -> Any:
        if self.axis is None and is_item_in_memory(self.obj, key):
            with plain_pandas():
                return as_craton(super().__getitem__(key))
        return _get_by_position(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if sys.getrefcount(self.obj) <= INDEXER_LIMIT:
            warn_of_chaining(self.obj, SETTING_ITEM)
        obj = self.obj
        if is_lazy(obj):
            _set_by_position(self, key, value)
            return
        with plain_pandas():
            materialise_operands(*(key if isinstance(key, tuple) else (key,)), value)
            super().__setitem__(key, _in_blocks(obj, key, value))


def _sets_several_columns(obj: Any, key: Any, value: Any) -> bool:
    """Whether several values are set in several columns. pandas sets them by position if the frame has a single block."""
    one = isinstance(key, tuple) and len(key) == 2 and is_scalar(key[1])
    return isinstance(obj, pd.DataFrame) and not one and is_list_like(value)


def _in_blocks(obj: Any, key: Any, value: Any) -> Any:
    """Consolidate a frame and the values if pandas sets them in several columns; return the values."""
    return with_blocks_of_pandas(obj, value) if _sets_several_columns(obj, key, value) else value


def _refuse_columns_of_one_block(obj: Any, key: Any, value: Any) -> None:
    if _sets_several_columns(obj, key, value):
        dtypes = {value.dtype for value in view(obj).values}
        if len(dtypes) == 1 and isinstance(dtypes.pop(), np.dtype):
            raise Unsupported(Refusal.SET_ROWS_OF_ONE_BLOCK)


def materialise_operands(*operands: Any) -> None:
    """Materialise the lazy objects among some operands, before pandas uses them."""
    for operand in operands:
        if isinstance(operand, (pd.DataFrame, pd.Series)):
            _ = operand._mgr


def _base(obj: Any) -> str:
    return "DataFrame" if isinstance(obj, pd.DataFrame) else "Series"


def _key_parts(self: Any, key: Any, levels: bool = False) -> tuple[Any, Any]:
    """The row part and the column part of a key; the column part is ``slice(None)`` if the key has none.

    With ``levels``, the row part may be a tuple of labels of a MultiIndex.
    """
    obj = self.obj
    if self.axis is not None:
        raise Unsupported(Refusal.LOC_OF_AXIS)
    if key is Ellipsis:
        raise Unsupported(Refusal.KEY_OF_PARTS)
    if not isinstance(key, tuple):
        return _evaluated_key(obj, key), slice(None)
    if any(part is Ellipsis for part in key):
        raise Unsupported(Refusal.KEY_OF_PARTS)
    if levels and isinstance(self, _LocIndexer) and view(obj).index.kind == "multi":
        return _key_parts_of_levels(obj, tuple(_evaluated_key(obj, part) for part in key))
    if isinstance(obj, pd.Series) or len(key) != 2:
        raise Unsupported(Refusal.KEY_OF_PARTS)
    if view(obj).index.kind == "multi" and isinstance(self, _LocIndexer):
        raise Unsupported(Refusal.KEY_OF_LEVELS)
    return _evaluated_key(obj, key[0]), _evaluated_key(obj, key[1])


def _key_parts_of_levels(obj: Any, key: tuple[Any, ...]) -> tuple[Any, Any]:
    """As :func:`_key_parts`, for row labels of several levels: scalars are labels of a row if there is such a row, as in pandas."""
    if isinstance(obj, pd.Series) or len(key) != 2:
        return key, slice(None)
    if any(is_list_like(part) or isinstance(part, slice) for part in key):
        return key
    if isinstance(view(obj).labels, pd.MultiIndex):
        raise Unsupported(Refusal.LABELS_OF_SEVERAL_LEVELS)
    try:
        with warning_filters.ignoring():
            obj.index.get_loc(key)
    except KeyError:
        return key
    return key, slice(None)


def rows_selected(obj: Any, choose: Callable[[Any], Any]) -> Callable[[pd.Series], Any]:
    """A selection from a Series of row positions as pandas selects from an object of the class of ``obj``."""

    def select(rows: pd.Series) -> Any:
        if isinstance(obj, pd.Series):
            return choose(rows)
        found = choose(rows.to_frame(_ROW))
        return found[_ROW] if isinstance(found, pd.DataFrame) else found.iloc[0]

    return select


def _evaluated_key(obj: Any, key: Any) -> Any:
    key = resolve_key(key, obj)
    if is_iterator(key):  # an iterator can be read only once, and pandas may need it after a refusal
        raise Unsupported(Refusal.ITERATOR)
    return key


def _columns(obj: Any, held: View, choose: Callable[[pd.DataFrame], Any], key: Any) -> Any:
    if is_full_slice(key):
        return lazy(type(obj), held, obj)
    return chosen_columns(obj, held, choose)


def _loc_get(self: LocIndexer, key: Any) -> Any:
    obj = self.obj
    rows, columns = _key_parts(self, key, levels=True)
    held = view(obj)
    if _is_the_object(held, key, rows, columns):
        return obj
    if not is_full_slice(columns) and labelled_columns(obj, held, columns) is None:
        _ = stand_ins.positions(held.labels).loc[:, columns]  # raises for unknown columns first, as pandas does
    if is_full_slice(rows):
        pass
    elif is_mask(rows):
        held, predicate = masked(held, rows)
        held = held.filtered(predicate)
    else:
        _refuse_key(held, rows)
        if held.index.kind != "multi":
            found = by_label(held, rows)
        else:
            count_query(obj)
            # A key of two parts without labels of columns may be the labels of one row.
            parts = isinstance(key, tuple) and len(key) == 2 and not (is_full_slice(columns) and is_scalar(key[1]))
            beside = parts and isinstance(obj, pd.DataFrame)
            chosen = (rows, slice(None)) if beside else rows
            found = by_label(held, rows, obj.index, rows_selected(obj, lambda few: few.loc[chosen]))
        if isinstance(found, int):
            if (place := _place_of_cell(obj, held, columns)) is not None:
                return _cell(obj, held, found, place)
            return single_row(
                obj, found, lambda few: few.iloc[0] if is_full_slice(columns) else few.loc[:, columns].iloc[0], columns
            )
        held = found
    chosen = labelled_columns(obj, held, columns)
    return _columns(obj, held, lambda frame: frame.loc[:, columns], columns) if chosen is None else chosen


def _is_the_object(held: View, key: Any, rows: Any, columns: Any) -> bool:
    """Whether the key is ``:, :`` and an axis is a MultiIndex: pandas then returns the object itself."""
    levels = held.index.kind == "multi" or isinstance(held.labels, pd.MultiIndex)
    return levels and isinstance(key, tuple) and len(key) == 2 and is_full_slice(rows) and is_full_slice(columns)


def _refuse_key(held: View, key: Any) -> None:
    if (
        isinstance(key, tuple) and held.index.kind != "multi"
    ):  # a Series of positions would treat the tuple's parts as several labels
        raise Unsupported(Refusal.KEY_OF_PARTS)
    if isinstance(key, (dict, set, frozenset, pd.DataFrame)) or (is_list_like(key) and not hasattr(key, "__len__")):
        raise Unsupported(Refusal.KEY_TYPE, type(key).__name__)


def _iloc_get(self: ILocIndexer, key: Any) -> Any:
    obj = self.obj
    rows, columns = _key_parts(self, key)
    held = view(obj)
    if _is_the_object(held, key, rows, columns):
        return obj
    if is_full_slice(rows):
        pass
    elif is_integer(rows):
        position = int(positions_of(held, [rows])[0])
        if isinstance(obj, pd.DataFrame) and is_integer(columns) and 0 <= columns < len(held.values):
            return _cell(obj, held, position, int(columns))
        return single_row(
            obj, position, lambda frame: frame.iloc[0] if is_full_slice(columns) else frame.iloc[0, columns], columns
        )
    elif isinstance(rows, slice) and rows.step in (None, 1):
        held = sliced(held, *bounds(rows))
    elif is_mask(rows):
        if isinstance(rows, pd.Series):
            raise Unsupported(Refusal.MASK_WITH_LABELS)
        held, predicate = masked(held, rows)
        held = held.filtered(predicate)
    elif isinstance(rows, slice):
        held = sliced_with_step(held, rows)
    elif isinstance(rows, (list, np.ndarray, pd.Index, range)):
        held = taken(held, positions_of(held, rows))
    else:
        raise Unsupported(Refusal.KEY_TYPE, type(rows).__name__)
    return _columns(obj, held, lambda frame: frame.iloc[:, columns], columns)


def exceeds_queries(obj: Any) -> bool:
    """Count a query for rows of one object by label. After :data:`MAX_ROW_QUERIES` of these, it is better materialised."""
    state = obj.__dict__
    queries = state["_row_queries"] = state.get("_row_queries", 0) + 1
    return bool(queries > MAX_ROW_QUERIES)


def count_query(obj: Any) -> None:
    """Count a query for rows by labels of several levels; the refusal materialises the object."""
    if exceeds_queries(obj):
        raise Unsupported(Refusal.KEY_OF_LEVELS)


def single_row(obj: Any, position: int, choose: Callable[[Any], Any], columns: Any) -> Any:
    """One row, fetched by a query. After :data:`MAX_ROW_QUERIES` of these, the refusal materialises the object instead."""
    if exceeds_queries(obj):
        raise Unsupported(Refusal.ONE_ROW)
    few = lazy(type(obj), sliced(view(obj), position, position + 1), obj)
    if isinstance(obj, pd.Series) and not is_full_slice(columns):
        raise Unsupported(Refusal.COLUMNS_OF_SERIES)
    with plain_pandas():
        _ = few._mgr
        return choose(few)


def _place_of_cell(obj: Any, held: View, column: Any) -> int | None:
    """The position of the column of one cell of a frame, given its label; None for other keys."""
    if not isinstance(obj, pd.DataFrame) or type(column) not in (str, int) or type(held.labels) is not pd.Index:
        return None
    places = held.positions(column)
    return places[0] if len(places) == 1 else None


def _cell(obj: Any, held: View, position: int, place: int) -> Any:
    """One cell. The first ones are fetched by queries of their column; then the column is evaluated, and kept with the frame."""
    state = obj.__dict__
    kept = state.get("_cell_columns")
    if kept is None or kept[0] is not held:  # the frame has been changed
        kept = state["_cell_columns"] = held, {}
    column = kept[1].get(place)
    if column is None:
        column = lazy(series_class(), replace(held.series(held.values[place], None), index=IndexSpec()))
        queries = state["_row_queries"] = state.get("_row_queries", 0) + 1
        if queries <= (1 if held.rows is not None and held.rows <= MAX_CELL_ROWS else MAX_ROW_QUERIES):
            column, position = lazy(series_class(), sliced(view(column), position, position + 1)), 0
        else:
            kept[1][place] = column
    with plain_pandas():
        _ = column._mgr
        return column.iloc[position]


def _loc_set(self: LocIndexer, key: Any, value: Any) -> None:
    from craton.pandas.indexing.setting import set_by_label

    _refuse_columns_of_one_block(self.obj, key, value)
    rows, columns = _key_parts(self, key)
    replace_state(self.obj, set_by_label(self.obj, rows, columns, value))


def _iloc_set(self: ILocIndexer, key: Any, value: Any) -> None:
    from craton.pandas.indexing.setting import set_by_position

    _refuse_columns_of_one_block(self.obj, key, value)
    rows, columns = _key_parts(self, key)
    replace_state(self.obj, set_by_position(self.obj, rows, columns, value))


def _native_item(indexer: type, method: str, accessor: str, function: Callable[..., Any]) -> Any:
    """A native ``__getitem__`` or ``__setitem__`` of an indexer."""

    def named(self: Any, *_: Any) -> str:
        return f"{_base(self.obj)}.{accessor}"

    theirs = getattr(indexer, method)

    def in_blocks(self: Any, key: Any, *value: Any) -> Any:
        return theirs(self, key, *(_in_blocks(self.obj, key, one) for one in value))

    label = f"{accessor} of an indexer"
    return wrapped(label, theirs, function, fallback=in_blocks, route=never_in_pandas, named=named, key=True)


_get_by_label = _native_item(_LocIndexer, "__getitem__", "loc", _loc_get)
_set_by_label = _native_item(_LocIndexer, "__setitem__", "loc =", _loc_set)
_get_by_position = _native_item(_iLocIndexer, "__getitem__", "iloc", _iloc_get)
_set_by_position = _native_item(_iLocIndexer, "__setitem__", "iloc =", _iloc_set)
