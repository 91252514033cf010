"""Identities of row labels of Arrow floating dtypes, in which NaN does not equal NaN.

pandas aligns two objects without a lookup of labels if their indexes are equal. An Index with such a NaN equals only itself and its
views, which share its identity (``Index.is_``). So two objects whose plans give them the same labels get Index objects with the same
identity. Indexes of other dtypes are equal if their labels are equal, and need no identity.
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
