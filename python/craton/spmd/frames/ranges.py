"""The ranges of a sort key that rows belong to, found by comparison with the bounds between the ranges, without sorting the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["in_ranges"]

_Array = np.ndarray[Any, Any]


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
    if keys.shape[1] != 1:
        return None
    numbers, limits = (_numbers(frame.iloc[:, 0]) for frame in (keys, bounds))
    if numbers is None or limits is None:
        return None
    (values, missing), (limits_of, missing_limits) = numbers, limits
    ranges = np.zeros(len(values), np.uint16)
    for limit, no_limit, owner in zip(limits_of, missing_limits, owners, strict=True):
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


def _numbers(column: pd.Series) -> tuple[_Array, _Array] | None:
    """The values of a column of numbers or times, which are in order as the keys, and which are missing; None for other dtypes."""
    dtype = column.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iufbmM":
        return None
    values = column.to_numpy()
    missing = np.isnan(values) if dtype.kind == "f" else np.isnat(values) if dtype.kind in "mM" else None
    if dtype.kind in "mM":
        values = values.view(np.int64)
    return values, np.zeros(len(values), bool) if missing is None else missing
