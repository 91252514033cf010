"""``reindex``, ``reindex_like`` and ``align``: rows and columns by the labels of another axis, with missing values for new labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import no_default

from craton.errors import Unsupported
from craton.pandas.core.dtypes import OBJECT
from craton.pandas.core.identities import remember_identity
from craton.pandas.core.routing import plain_pandas
from craton.pandas.core.view import View
from craton.pandas.values.gathering import (
    NO_ROW,
    Positions,
    aligned_positions,
    as_positions,
    beside,
    column_positions,
    columns_added,
    positions_by_label,
)
from craton.refusals import Refusal


def reindexed_rows(held: View, index: Any, fill: Any, framed: bool, **how: Any) -> tuple[View, pd.Index]:
    """The rows with the labels of an index, in its order.

    Parameters
    ----------
    held
        The rows to choose from.
    index
        The new labels.
    fill
        The value in rows for labels that `held` lacks.
    framed
        Whether the object is a frame.
    **how
        ``method``, ``limit`` and ``tolerance`` of :meth:`pandas.DataFrame.reindex`.

    Returns
    -------
    tuple of (View, Index)
        The view, and its row labels.
    """
    with plain_pandas():
        rows = positions_by_label(held)
        found = rows.reindex(index, fill_value=NO_ROW, **how)
    if found.index.is_(rows.index):  # the labels are those of the rows already
        return held, found.index
    chosen = rows_at(held, as_positions(found), found.index, fill, framed)
    remember_identity(chosen, found.index)  # pandas' result has the Index that was given
    return chosen, found.index


def rows_by_frequency(held: View, fill: Any, framed: bool, **how: Any) -> View:
    """``asfreq``: the rows at regular times from the first to the last row label.

    Parameters
    ----------
    held
        The rows.
    fill
        The value at times that no row has; None for the missing value.
    framed
        Whether the object is a frame.
    **how
        The other parameters of :meth:`pandas.DataFrame.asfreq`.
    """
    with plain_pandas():
        rows = positions_by_label(held)
        if isinstance(rows.index, pd.PeriodIndex):
            raise Unsupported(Refusal.OBJECT_LABELS)
        found = rows.asfreq(fill_value=NO_ROW, **how)
    positions = as_positions(found)
    if fill is None and not (framed and bool((positions < 0).any())):
        fill = no_default  # reindex of a series, and of a frame without new rows, take None as no value
    return rows_at(held, positions, found.index, fill, framed)


def rows_at(held: View, positions: Positions, index: pd.Index, fill: Any, framed: bool) -> View:
    """The rows at some positions with new labels; a position may be :data:`NO_ROW`."""
    joined, (rows,), _ = beside([(held, positions)], index)
    values = [rows.filled(i, fill, framed) for i in range(len(held.values))]
    return joined.with_values(values, held.labels)


def reindexed_columns(held: View, columns: Any, fill: Any) -> View:
    """The columns with some labels, in their order; those that are missing are filled."""
    with plain_pandas():
        found = column_positions(held).reindex(columns=columns, fill_value=NO_ROW)
    positions = found.iloc[0].tolist()
    return held.with_values(columns_added(held, found.columns, positions, fill), found.columns)


def reindexed(held: View, index: Any, columns: Any, fill: Any, how: dict[str, Any]) -> View:
    """``reindex`` of a frame along both axes, either of which may be None."""
    if columns is not None:
        if how:
            raise Unsupported(Refusal.PARAMETERS, "method, limit and tolerance")
        before = held
        held = reindexed_columns(held, columns, fill)
        several = len({value.dtype for value in before.values}) > 1
        # pandas takes rows and columns of one dtype at once, and the missing columns change the dtype of the others.
        if index is not None and not several and any(value not in before.values for value in held.values):
            raise Unsupported(Refusal.PARAMETERS, "index and columns")
        if index is not None and fill is not no_default:
            reindexed_rows(before, index, fill, True)  # columns that are dropped may not hold the value either
    return held if index is None else reindexed_rows(held, index, fill, True, **how)[0]


def aligned_pair(
    left: View, right: View, join: str, axes: Sequence[int], fill: Any, framed: tuple[bool, bool]
) -> tuple[View, View]:
    """``align`` of two objects.

    Parameters
    ----------
    join
        The join of the labels.
    axes
        The axes that are aligned.
    fill
        The value for new labels.
    framed
        For each object whether it is a frame.
    """
    filled = no_default if fill is None else fill
    views = [left, right]
    if 0 in axes:
        # pandas converts time zones only if it aligns series, or rows alone
        found = aligned_positions(left, right, join, framed, None if len(axes) == 2 else 0)
        for i, (positions, labels) in enumerate(found):
            if _changes(positions, len(labels), views[i], labels):
                if (
                    not framed[i] and views[i].values[0].dtype == OBJECT
                ):  # pandas makes a new Series, whose dtype it infers
                    raise Unsupported(Refusal.OBJECTS)
                views[i] = rows_at(views[i], positions, labels, filled, framed[i])
    if 1 in axes and all(framed):
        with plain_pandas():
            both = column_positions(left).align(column_positions(right), join=join, axis=1, fill_value=NO_ROW)
        for i, columns in enumerate(both):
            places = columns.iloc[0].tolist()
            views[i] = views[i].with_values(columns_added(views[i], columns.columns, places, filled), columns.columns)
    return views[0], views[1]


def _changes(positions: Positions, rows: int, held: View, index: pd.Index) -> bool:
    """Whether an alignment changes rows or labels."""
    return not (
        held.index.kind == "default"
        and held.rows == rows
        and isinstance(index, pd.RangeIndex)
        and index.name == held.index.names[0]
        and bool((positions == np.arange(rows)).all())
    )
