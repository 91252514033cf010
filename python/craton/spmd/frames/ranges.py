"""The ranges of a sort key that rows belong to, found by comparison with the bounds between the ranges, without sorting the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["have_ranges", "in_ranges"]

_Array = np.ndarray[Any, Any]


def have_ranges(keys: pd.DataFrame) -> bool:
    """Whether :func:`in_ranges` knows such keys: one column of numbers or times."""
    return keys.shape[1] == 1 and isinstance(keys.dtypes.iloc[0], np.dtype) and keys.dtypes.iloc[0].kind in "iufbmM"


def in_ranges(
    keys: pd.DataFrame, bounds: pd.DataFrame, owners: _Array, rank: int, up: bool, missing_last: bool
) -> tuple[_Array, _Array] | None:
    """Return the places of rows by range, those of a range in their order, and where each range begins; None for keys it does not know.

    Parameters
    ----------
    keys
        The key of each row.
    bounds
        The keys of the bounds, in order.
    owners
        The rank that each bound is of. A row that is equal to a bound comes before it on ranks up to that one.
    rank
        The rank of the rows.
    up
        Whether smaller keys come first.
    missing_last
        Whether missing keys come last.
    """
    if not have_ranges(keys):
        return None
    (values, missing), (limits, missing_limits) = (_numbers(frame.iloc[:, 0].to_numpy()) for frame in (keys, bounds))
    ranges = np.zeros(len(values), np.uint16)
    for limit, no_limit, owner in zip(limits, missing_limits, owners, strict=True):
        ties = owner < rank  # the row comes after the bound if the two are equal
        if no_limit:
            after = (missing & ties) if missing_last else (~missing | ties)
        else:
            if up:
                after = values >= limit if ties else values > limit
            else:
                after = values <= limit if ties else values < limit
            after = after | missing if missing_last else after & ~missing
        ranges += after
    order = np.argsort(ranges, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ranges, minlength=len(owners) + 1))])
    return order, starts


def _numbers(values: _Array) -> tuple[_Array, _Array]:
    """Numbers that are in order as the values, and which of these are missing."""
    kind = values.dtype.kind
    missing = np.isnan(values) if kind == "f" else np.isnat(values) if kind in "mM" else np.zeros(len(values), bool)
    return values.view(np.int64) if kind in "mM" else values, missing
