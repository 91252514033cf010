"""``map_values`` of integers: a table where the keys lie close together, and otherwise the kernel's mapping, with the same results."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from craton.lower.expressions import lower_expr
from craton.plan.expr import Call, Column, Values
from craton.plan.functions import elementwise

INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
RESULTS = (
    pl.Series([1.5, None, -0.0, float("nan"), 7.0]),
    pl.Series(["a", "", None, "long " * 9, "b"]),
    pl.Series([3, 1, 4, 1, 5], dtype=pl.Int8),
    pl.Series([True, False, None, True, False]),
)


def _mapped(column: pl.Series, keys: pl.Series, values: pl.Series) -> pl.Series:
    call = Call("map_values", (Column("n", column.dtype), Values.of(keys), Values.of(values)), values.dtype)
    return pl.DataFrame({"n": column}).select(lower_expr(call)).to_series()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("values", RESULTS, ids=lambda series: str(series.dtype))
def test_tables_give_what_the_mapping_gives(
    dtype: pl.DataType, values: pl.Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    least, most = dtype.min(), dtype.max()
    low, high = (int(pl.select(end).item()) for end in (least, most))
    chance = np.random.default_rng(7)
    for start in (low, -2, 0, 5, high - 40, (1 << 62) - 3, -(1 << 62) - 3):
        if not low <= start <= high - 40:
            continue
        keys = pl.Series([start + int(n) for n in chance.choice(41, 5, replace=False)], dtype=dtype)
        near = [start + int(n) for n in chance.integers(0, 41, 50)]
        column = pl.Series([*near, None, low, high, low + 1, high - 1, 0, *keys.to_list()], dtype=dtype)
        for rows in (column, column[:0], column[:1], pl.Series([None], dtype=dtype)):
            found = _mapped(rows, keys, values)
            with monkeypatch.context() as patched:
                patched.setattr(elementwise, "_lookup_table", lambda spec: None)
                expected = _mapped(rows, keys, values)
            assert found.equals(expected, check_dtypes=True)


def test_keys_that_lie_apart_have_no_table() -> None:
    keys = pl.Series([1, 1 << 40, 3])
    assert _mapped(pl.Series([3, 1 << 40, 2, None]), keys, pl.Series(["a", "b", "c"])).to_list() == [
        "c",
        "b",
        None,
        None,
    ]
