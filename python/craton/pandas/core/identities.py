"""Identities of objects' content, from the digests of their plans.

They show whether a column was taken from a frame, and whether a frame is unchanged.

Row labels of Arrow floating dtypes have identities as well, because NaN does not equal NaN in them. pandas aligns two objects without
a lookup of labels if their indexes are equal. An Index with such a NaN equals only itself and its views, which share its identity
(``Index.is_``). So two objects whose plans give them the same labels get Index objects with the same identity. Indexes of other
dtypes are equal if their labels are equal, and need no identity.
"""

from __future__ import annotations

import weakref
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd

from craton.pandas.core.align import source_rows
from craton.pandas.core.view import View
from craton.plan.expr import Expr
from craton.plan.node import Node
from craton.plan.operators import Attach, Scan
from craton.records import dataclass

__all__ = ["Identity", "identity", "remember_identity", "with_identity"]


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

#: The identities of labels: by the source or operator that has the rows, then by the labels' expressions.
_known: WeakKeyDictionary[Node, dict[tuple[Expr, ...], object]] = WeakKeyDictionary()


def with_identity(view: View, index: pd.Index) -> pd.Index:
    """Give the index of a view the identity of other indexes of the same rows and labels, and return it."""
    if _unequal_to_itself(view):
        rows, labels = _rows_and_labels(view)
        identity = _known.setdefault(rows, {}).setdefault(labels, object())
        index._id = identity  # type: ignore[attr-defined]
    return index


def remember_identity(view: View, index: pd.Index) -> None:
    """Record the identity of an index in memory, for later indexes of the view that scans it."""
    if _unequal_to_itself(view):
        rows, labels = _rows_and_labels(view)
        _known.setdefault(rows, {})[labels] = index._id  # type: ignore[attr-defined]


def _unequal_to_itself(view: View) -> bool:
    return any(isinstance(value.dtype, pd.ArrowDtype) and value.dtype.kind == "f" for value in view.index.values)


def _rows_and_labels(view: View) -> tuple[Node, tuple[Expr, ...]]:
    rows, labels = source_rows(view)
    return (rows.source if isinstance(rows, Scan) and rows.predicate is None else rows), labels
