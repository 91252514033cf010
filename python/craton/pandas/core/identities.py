"""What an object holds, told by the content of its plan: whether a column was taken from a frame, and whether a frame is as it was."""

from __future__ import annotations

from typing import Any

import pandas as pd

from craton.pandas.core.view import ObjectColumn, Value, View
from craton.records import dataclass

__all__ = ["Identity", "identity"]


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """The content of a view, without its plan, which is let go of once it has run.

    Parameters
    ----------
    base
        The digest of the base.
    columns, dtypes
        The digests of the columns' expressions over it, and their dtypes; no dtype where it depends on the data.
    rows
        The same of the row labels: two tables with equal ones have equal labels, row by row.
    labels
        The column labels; of a Series, its name.
    index
        The rest of what tells row labels apart: their kind, names and frequency, and when that is left.
    """

    base: bytes
    columns: tuple[bytes, ...]
    dtypes: tuple[Any, ...]
    rows: tuple[Any, ...]
    labels: pd.Index
    index: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        mine, theirs = ((one.base, one.columns, one.dtypes, one.rows, one.index) for one in (self, other))
        return mine == theirs and self.labels.identical(other.labels)

    __hash__ = None  # type: ignore[assignment]

    def has_column(self, position: int, other: Identity) -> bool:
        """Whether one of the columns is the other's first, cell by cell."""
        known = self.dtypes[position] is not None and other.dtypes[0] is not None
        return (
            self.base == other.base
            and self.columns[position] == other.columns[0]
            and (not known or self.dtypes[position] == other.dtypes[0])
        )


def _digest(value: Value) -> bytes:
    return (value.expr.column if isinstance(value.expr, ObjectColumn) else value.expr).digest


def identity(held: View) -> Identity:
    """Return the identity of a view."""
    index = held.index
    return Identity(
        held.base.digest,
        tuple(map(_digest, held.values)),
        tuple(value.dtype if value.definite else None for value in held.values),
        tuple((_digest(value), value.dtype) for value in index.values),
        held.labels.view(),  # whose names do not change where those of the user's object do
        (index.kind, index.names, index.freq, index.consecutive_only),
    )
