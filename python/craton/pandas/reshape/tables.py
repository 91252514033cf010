"""The functions ``merge``, ``concat`` and ``melt``."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core.axes import keep_row_axis
from craton.pandas.core.counterparts import frame_class, series_class
from craton.pandas.core.lazy import lazy, view
from craton.pandas.core.native import native_function
from craton.pandas.core.routing import in_plain_pandas
from craton.pandas.core.view import View, as_frame
from craton.pandas.reshape.concatenation import ConcatInput, clean_inputs, concat_columns, concat_rows
from craton.pandas.reshape.merges.merging import merge as merge_views
from craton.pandas.reshape.relational import melted
from craton.pandas.reshape.relational_calls import check_operands
from craton.refusals import Refusal


def _iterators_to_lists(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Convert iterators to lists, because a call that falls back reads its arguments again."""
    held = tuple(list(item) if hasattr(item, "__next__") else item for item in args)
    return held, {key: list(item) if hasattr(item, "__next__") else item for key, item in kwargs.items()}


def refuse_subclasses(*objects: Any) -> None:
    """Refuse instances of subclasses: pandas would give the result their class."""
    if any(type(obj) not in (pd.DataFrame, pd.Series) for obj in objects):
        raise Unsupported(Refusal.SUBCLASS)


@native_function(pd.merge, stays=in_plain_pandas("left"), convert=False)
def merge(
    left: Any,
    right: Any,
    how: Any = "inner",
    on: Any = None,
    left_on: Any = None,
    right_on: Any = None,
    left_index: Any = False,
    right_index: Any = False,
    sort: Any = False,
    suffixes: Any = ("_x", "_y"),
    copy: Any = no_default,
    indicator: Any = False,
    validate: Any = None,
) -> Any:
    """Join two frames; see :func:`pandas.merge`."""
    if copy is not no_default:
        raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
    check_operands(left, right)
    refuse_subclasses(left)
    keys = (on, left_on, right_on, left_index, right_index)
    held = merge_views(_frame(left), _frame(right), how, *keys, sort, suffixes, indicator, validate)
    return lazy(frame_class(), held)


def _frame(obj: Any) -> View:
    """The view of an operand of a merge; a named Series counts as a frame with one column."""
    if not isinstance(obj, pd.Series):
        return view(obj)
    if obj.name is None:
        raise Unsupported(Refusal.SERIES_UNNAMED)
    return as_frame(view(obj), obj.name)


@native_function(pd.concat, prepare=_iterators_to_lists, stays=in_plain_pandas("objs"), convert=False)
def concat(
    objs: Any,
    *,
    axis: Any = 0,
    join: Any = "outer",
    ignore_index: Any = False,
    keys: Any = None,
    levels: Any = None,
    names: Any = None,
    verify_integrity: Any = False,
    sort: Any = no_default,
    copy: Any = no_default,
    union_categories: Any = False,
) -> Any:
    """Concatenate rows or columns of frames; see :func:`pandas.concat`."""
    if copy is not no_default or levels is not None or verify_integrity is not False or union_categories is not False:
        raise Unsupported(Refusal.PARAMETERS, "copy, levels, verify_integrity and union_categories")
    if not isinstance(ignore_index, bool) or join not in ("outer", "inner"):
        raise Unsupported(Refusal.PARAMETERS, "ignore_index and join")
    if ignore_index and keys is not None:  # pandas raises the error
        raise Unsupported(Refusal.CONCAT_KEYS_NUMBERED)
    items, labels = clean_inputs(objs, keys)
    if ignore_index and labels is not None:
        raise Unsupported(Refusal.CONCAT_KEYS_NUMBERED)
    check_operands(*items)
    refuse_subclasses(*items)
    inputs = [
        ConcatInput(view(item), True, item.name) if isinstance(item, pd.Series) else ConcatInput(view(item), False)
        for item in items
    ]
    only_series = all(item.series for item in inputs)
    if axis in (0, "index"):
        if sort is not no_default and not isinstance(sort, bool):
            raise Unsupported(Refusal.PARAMETER, f"sort={sort!r}")
        held = concat_rows(inputs, join, None if sort is no_default else sort, ignore_index, labels, names)
        return lazy(series_class() if only_series else frame_class(), held)
    if axis not in (1, "columns") or names is not None or (sort is not no_default and not isinstance(sort, bool)):
        raise Unsupported(Refusal.PARAMETERS, "axis, sort and names")
    held, same = concat_columns(inputs, join, None if sort is no_default else sort, ignore_index, labels)
    result = lazy(frame_class(), held)
    if same and held.index.names == inputs[0].view.index.names:
        keep_row_axis(result.__dict__, held, items[0].index)  # the same Index object, as in pandas
    return result


@native_function(pd.melt, stays=in_plain_pandas("frame"), convert=False)
def melt(
    frame: Any,
    id_vars: Any = None,
    value_vars: Any = None,
    var_name: Any = None,
    value_name: Any = "value",
    col_level: Any = None,
    ignore_index: Any = True,
) -> Any:
    """Turn columns into rows; see :func:`pandas.melt`."""
    return melted(frame, id_vars, value_vars, var_name, value_name, col_level, ignore_index)


__all__ = ["concat", "melt", "merge"]
