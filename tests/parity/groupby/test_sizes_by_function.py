"""``agg(len)``: pandas casts the sizes of groups to the dtype of the column, unless they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import craton
import craton.pandas as cpd

DTYPES = [
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint64",
    "float32",
    "float64",
    "bool",
    "Int8",
    "UInt8",
    "Float32",
    "boolean",
]
DTYPES += ["int8[pyarrow]", "double[pyarrow]", "bool[pyarrow]", "category", "str", "datetime64[us]"]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "series": lambda pd, d: d.groupby("k")["v"].agg(len),
    "frame": lambda pd, d: d.groupby("k").agg(len),
    "several": lambda pd, d: d.groupby("k")["v"].agg([len, "max"]),
    "named": lambda pd, d: d.groupby("k", as_index=False).agg(n=("v", len), m=("v", "min")),
    "pivot_table": lambda pd, d: d.pivot_table(index="k", values="v", aggfunc=len),
    "crosstab": lambda pd, d: pd.crosstab(d["k"], d["k"], d["v"], aggfunc=len),
    "lambda": lambda pd, d: d.groupby("k")["v"].agg(lambda values: len(values)),
    "transform": lambda pd, d: d.groupby("k")["v"].transform(len),
    "then a sum": lambda pd, d: d.groupby("k")["v"].agg(len).to_frame().sum(),
}


@pytest.mark.parametrize("rows", [1, 127, 128, 256, 33_000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes(dtype: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(craton.options, "small_rows", 0)
    values = pd.Series(np.arange(rows + 1) % 2)
    values = values.astype(str).astype(dtype) if dtype in ("category", "str") else values.astype(dtype)
    frame = pd.DataFrame({"k": [0] * rows + [1], "v": values})
    for call in CALLS.values():
        try:
            expected = call(pd, frame)
        except TypeError as error:
            with pytest.raises(type(error)):
                call(cpd, cpd.DataFrame(frame))
            continue
        made = call(cpd, cpd.DataFrame(frame))
        if isinstance(expected, pd.DataFrame):
            assert_frame_equal(pd.DataFrame(made), expected)
        else:
            assert_series_equal(pd.Series(made), expected)
