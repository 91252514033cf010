"""Identities of objects' content, from the digests of their plans.

They show whether a column was taken from a frame, and whether a frame is unchanged.

Row labels have identities as well (``Index.is_``): in pandas, the objects that are made from one frame share its Index. pandas takes
an Index that several of the objects to be joined share only once, which decides the dtype of labels of which none are left, and an
Index of Arrow's floats with NaN, which does not equal NaN there, equals only itself. So two objects whose plans give them the same
labels of the same rows get Index objects with the same identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd

from craton.pandas.core.align import source_rows
from craton.pandas.core.view import View
from craton.plan.node import Node
from craton.plan.operators import Attach, Distinct, Filter, Join, Operator, Project, RowNumber, Scan, Sort, Window
from craton.records import dataclass

__all__ = ["Identity", "identity", "remember_identity", "share_identities", "with_identity"]


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """The content of a view, without a reference to its plan, so that the plan can be freed after it has run.

    Parameters
    ----------
    base
        The digest of the base.
    columns, dtypes
        The digests of the columns' expressions over the base, and their dtypes; None where the dtype depends on the data.
    rows
        The digests and dtypes of the row labels. If those of two tables are equal, their labels are equal row by row.
    labels
        The column labels; for a Series, its name.
    index
        The other properties of the row labels: kind, names, frequency, and whether only consecutive rows keep the frequency.
    nodes
        Weak references to the base, without columns that are attached to it, and to the columns' expressions. Python makes one such
        object for each node, so that two references are the same object only if they refer to the same node.
    """

    base: bytes
    columns: tuple[bytes, ...]
    dtypes: tuple[Any, ...]
    rows: tuple[Any, ...]
    labels: pd.Index
    index: tuple[Any, ...]
    nodes: tuple[weakref.ref[Node], ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        mine, theirs = ((one.base, one.columns, one.dtypes, one.rows, one.index) for one in (self, other))
        return mine == theirs and self.labels.identical(other.labels)

    __hash__ = None  # type: ignore[assignment]

    def has_column(self, position: int, other: Identity) -> bool:
        """Whether the column at a position and the first column of ``other`` are the same node, not equal nodes of two calls."""
        known = self.dtypes[position] is not None and other.dtypes[0] is not None
        return (
            self.nodes[0] is other.nodes[0]
            and self.nodes[position + 1] is other.nodes[1]
            and (not known or self.dtypes[position] == other.dtypes[0])
        )


def identity(held: View) -> Identity:
    """The identity of a view."""
    index, rows = held.index, held.base
    while isinstance(rows, Attach):  # new labels and new columns leave the others in the same memory
        rows = rows.input
    return Identity(
        held.base.digest,
        tuple(value.read.digest for value in held.values),
        tuple(value.dtype if value.definite else None for value in held.values),
        tuple((value.read.digest, value.dtype) for value in index.values),
        held.labels.view(),  # a new object over the same labels, because users can rename their Index in place
        (index.kind, index.names, index.freq, index.consecutive_only),
        tuple(weakref.ref(node) for node in (rows, *(value.read for value in held.values))),
    )


# -- identities of row labels ------------------------------------------------------------------------------------------

#: The identities of labels: by the source or operator that has the rows, then by the labels over it.
_known: WeakKeyDictionary[Node, dict[tuple[Any, ...], object]] = WeakKeyDictionary()


def with_identity(view: View, index: pd.Index) -> pd.Index:
    """Give the index of a view the identity of other indexes of the same rows and labels, and return it."""
    rows, labels = _rows_and_labels(view)
    index._id = _known.setdefault(rows, {}).setdefault(labels, object())  # type: ignore[attr-defined]
    return index


def remember_identity(view: View, index: pd.Index) -> None:
    """Record the identity of an index in memory, for later indexes of the view that reads it, unless one is known of its rows."""
    rows, labels = _rows_and_labels(view)
    _known.setdefault(rows, {}).setdefault(labels, index._id)  # type: ignore[attr-defined]


def share_identities(views: Sequence[View], indexes: Sequence[pd.Index]) -> None:
    """Give equal indexes of several views one identity, where one view has all rows of another, by a selection, sort or left join.

    pandas returns the Index itself if a selection takes all rows, or a sort or join leaves them as they are. That depends on the
    data, so the plans do not show it.
    """
    chains = [_selected_from(view) for view in views]
    for number, index in enumerate(indexes):
        for before, other in enumerate(indexes[:number]):
            related = any(rows is chains[before][0] for rows in chains[number])
            related = related or any(rows is chains[number][0] for rows in chains[before])
            if related and index._id is not other._id and index.identical(other):  # type: ignore[attr-defined]
                index._id = other._id  # type: ignore[attr-defined]
                break


#: The operators whose result can be all rows of their first input, in order.
_SELECTING = (Attach, Distinct, Filter, Join, Project, RowNumber, Sort, Window)


def _selected_from(view: View) -> list[Node]:
    """The rows of a view, and those from which they were selected."""
    rows, _ = source_rows(view)
    chain: list[Node] = []
    while isinstance(rows, _SELECTING) and not (isinstance(rows, Join) and view.index.kind == "default"):
        if not isinstance(rows, (Attach, Project, RowNumber, Window)):
            chain.append(rows)
        rows = rows.inputs[0]
    return [*chain, _source_of(rows)]


def _source_of(rows: Operator) -> Node:
    return rows.source if isinstance(rows, Scan) and rows.predicate is None else rows


def _rows_and_labels(view: View) -> tuple[Node, tuple[Any, ...]]:
    """What has the rows of a view, and what its labels are: those of views with the same two are one Index in pandas."""
    rows, labels = source_rows(view)
    spec = view.index
    dtypes = tuple(value.dtype for value in spec.values)
    known = (labels, dtypes, spec.kind, spec.names)
    return _source_of(rows), known
