"""The levels of integers that are found without a sort are those of NumPy and pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from craton.pandas.core.array_conversion import distinct_integers, positions_of_integers


def _given(dtype: str) -> list[np.ndarray]:
    draw, limits = np.random.default_rng(0), np.iinfo(dtype)
    ranges = [
        (limits.min, limits.max, 300),
        (0, 5, 10),
        (limits.max - 10, limits.max, 9),
        (limits.min, limits.min + 7, 30),
        (3, 3, 1),
        (0, 0, 0),
    ]
    return [draw.integers(low, high, rows, dtype=dtype, endpoint=True) for low, high, rows in ranges]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_distinct_integers_and_their_positions(dtype: str) -> None:
    found = 0
    for array in _given(dtype):
        expected = np.unique(array)
        distinct = distinct_integers(array)
        if distinct is not None:
            found += 1
            assert distinct.dtype == expected.dtype
            assert (distinct == expected).all()
        for level in (pd.Index(expected), pd.Index(expected[::2]), pd.Index(expected[1:])):
            places = positions_of_integers(level, array)
            if places is not None:
                assert places.dtype == np.intp
                assert (places == level.get_indexer(array)).all()
    assert found >= 3


def test_other_arrays() -> None:
    assert distinct_integers(np.array([1.0, 2.0])) is None
    assert distinct_integers(np.array([1, 1 << 40])) is None
    assert positions_of_integers(pd.Index([1, 2]), np.array([1.0])) is None
    assert positions_of_integers(pd.Index([2, 1]), np.array([1, 2])) is None
