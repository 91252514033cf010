"""Identities of row labels that do not equal themselves.

In pandas, NaN among labels of an Arrow floating dtype equals nothing, so such an Index equals only itself and its views
(``Index.is_``), and only objects that have one of these are aligned without a search for the labels. Two objects that have the same
labels by their plans therefore get Index objects with one identity. Any other Index equals another with the same labels.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pandas as pd

from craton.pandas.core.align import source_rows
from craton.pandas.core.view import View
from craton.plan.expr import Expr
from craton.plan.node import Node
from craton.plan.operators import Scan

__all__ = ["remember_identity", "with_identity"]

#: Rows to the identities of their labels, by the labels' expressions. Rows are known by their source or operator.
_known: WeakKeyDictionary[Node, dict[tuple[Expr, ...], object]] = WeakKeyDictionary()


def with_identity(view: View, index: pd.Index) -> pd.Index:
    """The index of a view, with the identity that other indexes of the same rows and labels have."""
    if _unequal_to_itself(view):
        rows, labels = _rows_and_labels(view)
        identity = _known.setdefault(rows, {}).setdefault(labels, object())
        index._id = identity  # type: ignore[attr-defined]
    return index


def remember_identity(view: View, index: pd.Index) -> None:
    """Give later indexes of a view that scans data in memory the identity of the index in memory."""
    if _unequal_to_itself(view):
        rows, labels = _rows_and_labels(view)
        _known.setdefault(rows, {})[labels] = index._id  # type: ignore[attr-defined]


def _unequal_to_itself(view: View) -> bool:
    return any(isinstance(value.dtype, pd.ArrowDtype) and value.dtype.kind == "f" for value in view.index.values)


def _rows_and_labels(view: View) -> tuple[Node, tuple[Expr, ...]]:
    rows, labels = source_rows(view)
    return (rows.source if isinstance(rows, Scan) and rows.predicate is None else rows), labels
