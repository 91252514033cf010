"""Rows that pandas chooses by their labels alone: xs, drop, filter, sample, at_time and between_time; and conversion of labels.

pandas' own method runs on a Series of row positions with the row labels; the plan selects the rows at these positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from craton.errors import Unsupported
from craton.pandas.core.deprecations import pop_inplace
from craton.pandas.core.execute import count_rows, materialise
from craton.pandas.core.lazy import finished, lazy, refuse_unique_labels_flag, view
from craton.pandas.core.native import native
from craton.pandas.core.routing import is_lazy, plain_pandas
from craton.pandas.core.view import IndexSpec, View
from craton.pandas.indexing.frame_columns import chosen_columns
from craton.pandas.indexing.indexers import count_query, rows_selected, single_row
from craton.pandas.indexing.rows import by_label, labelled, row_labels, rows_of, taken
from craton.pandas.reductions.reductions import arguments
from craton.pandas.values.gathering import refuse_object_labels
from craton.refusals import Refusal

_ROWS = (None, 0, "index", "rows")


def chosen_rows(held: View, choose: Callable[[pd.Series], pd.Series]) -> View:
    """The rows that a method of pandas keeps of a Series of row positions."""
    labels = row_labels(held)
    with plain_pandas():
        found = choose(pd.Series(np.arange(len(labels)), index=labels))
    rows = rows_of(held, found, len(labels))
    names = tuple(found.index.names)  # `filter(items=…)` drops the name
    return rows if rows.index.names == names else replace(rows, index=replace(rows.index, names=names))


def dropped_rows(held: View, **named: Any) -> View:
    """``drop`` of rows by label; the arguments are those of :meth:`pandas.Series.drop`."""
    return chosen_rows(held, lambda rows: rows.drop(**named))


def renamed_rows(held: View, mapper: Any, **named: Any) -> View:
    """``rename`` of row labels by a mapping; the arguments are those of :meth:`pandas.Series.rename`."""
    if not isinstance(mapper, dict):
        raise Unsupported(Refusal.RENAMING_ROWS)
    labels = row_labels(held)
    with plain_pandas():
        found = pd.Series(np.arange(len(labels)), index=labels).rename(index=mapper, **named).index
    refuse_object_labels(found)
    return labelled(held, found)


def _with_converted_labels(method: str) -> Callable[..., Any]:
    """A native method that converts the row labels, such as ``tz_convert``; pandas converts those of a Series of row positions."""

    def converted(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, method, args, kwargs)
        if named.get("axis", 0) not in _ROWS or named.pop("axis", 0) is None:
            raise Unsupported(Refusal.COLUMN_AXIS)
        if "copy" in named:
            raise Unsupported(Refusal.WARNING_OF_PANDAS, "copy")
        held = view(self)
        labels = row_labels(held)
        if isinstance(labels, pd.MultiIndex) or not held.values:
            raise Unsupported(Refusal.INDEX_LEVEL, repr(named.get("level")))
        with plain_pandas():
            found = getattr(pd.Series(np.arange(len(labels)), index=labels), method)(**named).index
        return lazy(type(self), labelled(held, found), self)

    converted.__name__ = method
    return converted


def _xs(self: Any, key: Any, axis: Any = 0, level: Any = None, drop_level: Any = True) -> Any:
    of_columns = isinstance(self, pd.DataFrame) and axis in (1, "columns")
    if (axis not in (0, "index") and not of_columns) or not isinstance(drop_level, bool):
        raise Unsupported(Refusal.PARAMETERS, "axis and drop_level")
    held = view(self)
    refuse_unique_labels_flag(self)

    def choose(rows: Any) -> Any:
        return rows.xs(key, level=level, drop_level=drop_level)

    if of_columns:
        return chosen_columns(self, held, lambda frame: frame.xs(key, axis=1, level=level, drop_level=drop_level))
    if held.index.kind == "multi":
        count_query(self)
    found = by_label(held, key, self.index, rows_selected(self, choose))
    if isinstance(found, int):
        if held.index.kind != "multi" and not is_lazy(self):
            raise Unsupported(Refusal.ONE_ROW)  # pandas reads the row from memory
        return single_row(self, found, lambda few: few.iloc[0], slice(None))
    return lazy(type(self), found, self)


def _sample(self: Any, *args: Any, **kwargs: Any) -> Any:
    named = arguments(pd.DataFrame, "sample", args, kwargs)
    if named.pop("axis", None) not in _ROWS:
        raise Unsupported(Refusal.COLUMN_AXIS)
    again = named.pop("ignore_index", False)
    held = view(self)
    weights = named.get("weights")
    if isinstance(weights, str) and isinstance(self, pd.DataFrame) and len(held.positions(weights)) == 1:
        column = replace(held.take(held.positions(weights)), index=IndexSpec())
        named["weights"] = materialise(column)[0][0]
    elif weights is not None and not isinstance(weights, (pd.Series, np.ndarray, list)):
        raise Unsupported(Refusal.PARAMETER, "weights")
    aligned = isinstance(weights, pd.Series)
    rows = pd.Series(np.arange(count_rows(held)), index=row_labels(held) if aligned else None)
    with plain_pandas():
        positions = rows.sample(**named).to_numpy()
    result = taken(held, positions)
    return lazy(type(self), replace(result, index=IndexSpec()) if again else result, self)


def _at_times(method: str) -> Callable[..., Any]:
    """The native ``at_time`` or ``between_time``."""

    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.DataFrame, method, args, kwargs)
        if named.pop("axis", None) not in _ROWS:
            raise Unsupported(Refusal.COLUMN_AXIS)
        return lazy(type(self), chosen_rows(view(self), lambda rows: getattr(rows, method)(**named)), self)

    chosen.__name__ = method
    return chosen


class FrameRows:
    """Methods of DataFrame."""

    xs = native(pd.DataFrame, "xs")(_xs)
    sample = native(pd.DataFrame, "sample")(_sample)
    at_time = native(pd.DataFrame, "at_time")(_at_times("at_time"))
    between_time = native(pd.DataFrame, "between_time")(_at_times("between_time"))
    tz_localize = native(pd.DataFrame, "tz_localize")(_with_converted_labels("tz_localize"))
    tz_convert = native(pd.DataFrame, "tz_convert")(_with_converted_labels("tz_convert"))
    to_period = native(pd.DataFrame, "to_period")(_with_converted_labels("to_period"))
    to_timestamp = native(pd.DataFrame, "to_timestamp")(_with_converted_labels("to_timestamp"))


class SeriesRows:
    """Methods of Series."""

    xs = native(pd.Series, "xs")(_xs)
    sample = native(pd.Series, "sample")(_sample)
    at_time = native(pd.Series, "at_time")(_at_times("at_time"))
    between_time = native(pd.Series, "between_time")(_at_times("between_time"))
    tz_localize = native(pd.Series, "tz_localize")(_with_converted_labels("tz_localize"))
    tz_convert = native(pd.Series, "tz_convert")(_with_converted_labels("tz_convert"))
    to_period = native(pd.Series, "to_period")(_with_converted_labels("to_period"))
    to_timestamp = native(pd.Series, "to_timestamp")(_with_converted_labels("to_timestamp"))

    @native(pd.Series)
    def drop(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.Series, "drop", args, kwargs)
        refuse_unique_labels_flag(self)
        if named.pop("axis", 0) not in _ROWS or named.pop("columns", None) is not None:
            raise Unsupported(Refusal.COLUMN_AXIS)
        given = {name: value for name, value in named.items() if name != "inplace"}
        result = dropped_rows(view(self), **given)
        return finished(self, result, pop_inplace(self, named, "drop"))

    @native(pd.Series)
    def filter(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = arguments(pd.Series, "filter", args, kwargs)
        if named.pop("axis", None) not in _ROWS or named.keys() - {"items", "like", "regex"}:
            raise Unsupported(Refusal.ROWS_BY_LABEL)
        return lazy(type(self), chosen_rows(view(self), lambda rows: rows.filter(**named)), self)


__all__ = ["FrameRows", "SeriesRows", "chosen_rows", "dropped_rows", "renamed_rows"]
