"""The row labels of groups by keys and intervals of time, with the levels that pandas gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from craton.pandas.core.dtypes import STR, DtypeObj
from craton.pandas.core.routing import plain_pandas
from craton.pandas.groupby.key_origins import TimeBins
from craton.pandas.groupby.keys import Grouped

__all__ = ["group_labels", "has_known_labels", "level_of"]


def has_known_labels(state: Grouped) -> bool:
    """Whether the groups are those that have rows, and have labels of whole numbers, texts and intervals of time.

    A row in which a key is missing is in no group, but adds the labels of its other keys to the levels.
    """
    plain = [key for key in state.keys if not isinstance(key.origin, TimeBins)]
    if not plain or len(plain) == len(state.keys) or not state.options.sort:
        return False
    if any(key.origin.missing for key in state.keys if isinstance(key.origin, TimeBins)):
        return False
    if any(key.value.clean.nulls for key in plain) and (len(plain) > 1 or not state.options.dropna):
        return False
    return all(key.origin is None and _is_plain(key.value.dtype) for key in plain)


def _is_plain(dtype: DtypeObj) -> bool:
    return dtype == STR or (isinstance(dtype, np.dtype) and dtype.kind in "iub")


def group_labels(state: Grouped, keys: Sequence[Any]) -> pd.MultiIndex:
    """The labels of groups, if :func:`has_known_labels`.

    Parameters
    ----------
    state
        The group-by.
    keys
        For each key its values in the groups, which are in order; for times, the number of the interval.
    """
    levels, codes = [], []
    for key, array in zip(state.keys, keys, strict=True):
        if isinstance(key.origin, TimeBins):
            level, numbers = key.origin.labels, np.asarray(array)
        else:
            level, numbers = level_of(array)
        levels.append(level)
        codes.append(numbers)
    with plain_pandas():
        return pd.MultiIndex(levels, codes, names=[key.name for key in state.keys], verify_integrity=False)


def level_of(array: Any) -> tuple[pd.Index, Any]:
    """The distinct values of an array without missing ones, in order, and the position of each value among them."""
    with plain_pandas():
        codes, distinct = pd.factorize(array, sort=True)
        return pd.Index(distinct, copy=False), codes
