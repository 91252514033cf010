"""Merges whose matches pandas finds: it merges the key columns, each with its row positions; a plan joins the other columns.

So the matches, ties, row labels, checks of order and errors are pandas' own, and of large tables only the keys are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_hashable

from craton.engine import keep_rows
from craton.errors import Unsupported
from craton.pandas.core import stand_ins
from craton.pandas.core.array_conversion import from_array
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.execute import materialise, resolved
from craton.pandas.core.lazy import view
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import IndexSpec, Value, View, as_frame
from craton.pandas.reshape.merges.merge_keys import as_list
from craton.pandas.reshape.relational_calls import check_operands
from craton.pandas.values.gathering import as_positions, beside
from craton.plan.expr import roots
from craton.refusals import Refusal

_LEFT, _RIGHT = "\0left row", "\0right row"

Merge = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]


def views_of(left: Any, right: Any) -> tuple[View, View]:
    """The views of two tables; a named Series counts as a frame with one column."""
    check_operands(left, right)
    views = []
    for obj in (left, right):
        if isinstance(obj, pd.Series):
            if obj.name is None:
                raise Unsupported(Refusal.SERIES_UNNAMED)
            views.append(resolved(as_frame(view(obj), obj.name)))
        else:
            views.append(resolved(view(obj)))
        if isinstance(views[-1].labels, pd.MultiIndex) or not views[-1].labels.is_unique:
            raise Unsupported(Refusal.DUPLICATE_LABELS)
    return views[0], views[1]


def key_labels(*given: Any) -> list[Hashable]:
    """The column labels of key arguments."""
    found: list[Hashable] = []
    for argument in given:
        for label in as_list(argument) or []:
            if not is_hashable(label) or not isinstance(label, (str, int)) or isinstance(label, bool):
                raise Unsupported(Refusal.MERGE_KEY_ARRAY)
            found.append(label)
    return found


def _keys(held: View, labels: Sequence[Hashable], indexed: bool, row: str) -> pd.DataFrame:
    """The key columns of a table, with the numbers of its rows."""
    keys = held.take(list(dict.fromkeys(held.position(label) for label in labels)))
    arrays, index = materialise(keys if indexed else replace(keys, index=IndexSpec()))
    frame = pd.DataFrame(dict(enumerate(arrays)), index=index, copy=False)
    frame.columns = keys.labels
    frame[row] = np.arange(len(index))
    return frame


def _result_labels(left: View, right: View, call: Merge) -> pd.Index:
    """The column labels of a merge, which pandas finds for tables without rows."""
    frames = []
    for held in (left, right):
        empty = stand_ins.frame_like(replace(held, values=(), labels=held.labels[:0])).iloc[:0]
        arrays = {i: stand_ins.column(value.dtype).array for i, value in enumerate(held.values)}
        frame = pd.DataFrame(arrays, index=empty.index, copy=False)
        frame.columns = held.labels
        frames.append(frame)
    return stand_ins.probe(call, *frames, warned=True).columns  # type: ignore[no-any-return]


def merged_by_position(
    left: View,
    right: View,
    keys: tuple[Sequence[Hashable], Sequence[Hashable]],
    indexed: bool,
    call: Merge,
    computed: Sequence[Hashable],
) -> View:
    """A merge whose matches pandas finds.

    Parameters
    ----------
    left, right
        The tables.
    keys
        The labels of the key columns of each, in pairs.
    indexed
        Whether the row labels of a table are a key.
    call
        The merge of two frames of pandas.
    computed
        The labels of key columns that have values of both tables in the result.
    """
    sides = ((left, keys[0]), (right, keys[1]))
    if any(len(held.positions(label)) != 1 for held, labels in sides for label in labels):
        raise Unsupported(Refusal.COLUMN_UNKNOWN)  # or a level of the row labels
    if computed and any(
        held.values[held.position(label)].dtype == OBJECT for held, labels in sides for label in labels
    ):
        raise Unsupported(Refusal.OBJECTS)  # pandas infers the dtype of such a key from all columns
    labels = _result_labels(left, right, call)
    shared = [one for one, other in zip(*keys, strict=False) if one == other]
    dropped = {right.position(label) for label in shared}
    kept = [i for i in range(len(right.values)) if i not in dropped]
    if len(labels) != len(left.values) + len(kept):
        raise Unsupported(Refusal.MERGE_KEY_LABELS)
    for held in (left, right):
        read = held.values if not indexed else (*held.values, *held.index.values)
        keep_rows(held.base, {name for value in read for name in roots(value.read)})
    with plain_pandas():
        found = call(_keys(left, keys[0], indexed, _LEFT), _keys(right, keys[1], indexed, _RIGHT))
    places = {len(left.values) + kept.index(i): label for label in keys[1] if (i := right.position(label)) in kept}
    places |= {left.position(label): label for label in keys[0]}
    places = {i: label for i, label in places.items() if label in computed}
    if any(label not in found.columns for label in places.values()):
        raise Unsupported(Refusal.MERGE_KEY_LABELS)
    arrays = [found[label]._values for label in places.values()]
    if any(array.dtype == OBJECT for array in arrays):
        raise Unsupported(Refusal.OBJECTS)
    columns = [from_array(f"__key{i}__", array) for i, array in enumerate(arrays)]
    parts = [
        (replace(left, index=IndexSpec()), as_positions(found[_LEFT])),
        (right.take(kept), as_positions(found[_RIGHT])),
    ]
    index = found.index if indexed else pd.RangeIndex(len(found))
    joined, (ours, theirs), exprs = beside(parts, index, [column for column, _, _ in columns])
    made = {
        place: Value(expr, array.dtype, nulls, nans)
        for place, expr, array, (_, nulls, nans) in zip(places, exprs, arrays, columns, strict=True)
    }
    values = [made[i] if i in made else ours.filled(i) for i in range(len(left.values))]
    values += [made[place] if (place := len(values) + i) in made else theirs.filled(i) for i in range(len(kept))]
    return joined.with_values(values, labels)
