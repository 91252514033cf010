"""Mappings to large integers: one missing result turns all results into floats, in whichever batch it occurs."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from support import check

LARGE = [2**63 - 1, 2**53 + 1, -(2**63), 3]


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float64", "Int64", "object", "str"])
@pytest.mark.parametrize("key", ["as it is", "float", "str"])
def test_a_key_without_a_result(number: int, dtype: str, key: str) -> None:
    series = pandas.Series([0, 5, 1, 9, 0]).astype(dtype)
    cast = {"as it is": lambda one: one, "float": float, "str": str}[key]
    table = {cast(one): result for one, result in {0: number, 1: 3}.items()}
    for mapper in (table, pandas.Series(table), {**table, cast(5): 7, cast(9): 8}):
        check(lambda _, s, mapper=mapper: s.map(mapper), series, native=None)
        check(lambda _, s, mapper=mapper: s.map(mapper).sum(), series, native=None)
        check(lambda _, s, mapper=mapper: s[s.map(mapper).notna()].map(mapper), series, native=None)


def test_in_many_rows() -> None:
    series = pandas.Series(np.arange(120_000) % 7)
    check(lambda _, s: s.map({0.0: 2**63 - 1, 1.0: 5}), series, native=None)
    check(lambda _, s: s.map({float(one): 2**62 + one for one in range(7)}), series, native=None)
