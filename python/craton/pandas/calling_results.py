"""Results that are themselves pandas objects, many of one shape: as few arrays instead of an object for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from craton.remote.values import Values, values_of

__all__ = ["Stacked", "stacked"]


@dataclass(frozen=True, slots=True)
class Stacked:
    """Series of the same labels and dtype, a row each; a sequence of them.

    Parameters
    ----------
    values
        Their values.
    labels
        Their index.
    names
        Their names.
    """

    values: np.ndarray[Any, Any]
    labels: pd.Index
    names: Values

    def like(self, other: Stacked) -> bool:
        """Whether both can be one."""
        return self.values.dtype == other.values.dtype and _same(self.labels, other.labels)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        for row, name in zip(self.values, self.names.to_list(), strict=True):
            yield pd.Series(row, index=self.labels, name=name, copy=False)


def stacked(results: list[Any]) -> Stacked | None:
    """Results as a :class:`Stacked`; None if they are not all Series of the same unique labels and plain dtype."""
    if not results or not isinstance(results[0], pd.Series):
        return None
    labels, dtype = results[0].index, results[0].dtype
    # Of labels of other classes pandas makes a union, which may be of another class.
    if (
        type(labels) is not pd.Index
        or not labels.is_unique
        or not isinstance(dtype, np.dtype)
        or dtype.kind not in "fiubO"
    ):
        return None
    for one in results:
        if not isinstance(one, pd.Series) or one.dtype != dtype or one.attrs or not _same(one.index, labels):
            return None
    values = np.empty((len(results), len(labels)), dtype)
    for row, one in zip(values, results, strict=True):
        row[:] = one._values
    return Stacked(values, labels, values_of([one.name for one in results]))


def _same(one: pd.Index, other: pd.Index) -> bool:
    if one is other:
        return True
    return type(one) is pd.Index and one.dtype == other.dtype and one.name == other.name and one.equals(other)
