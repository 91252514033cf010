"""Filters by integers that wrap around, over files with statistics of the minimum and maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from support import check

DTYPES = ["uint8", "uint64", "int8", "int64", "int16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_filters(tmp_path: Any, dtype: str) -> None:
    bounds = np.iinfo(dtype)
    values = np.array([bounds.min, bounds.min + 1, 5, 7, bounds.max - 1, bounds.max], dtype=dtype)
    path = tmp_path / "a.parquet"
    pandas.DataFrame({"w": values, "x": np.arange(6.0)}).to_parquet(path, row_group_size=3)
    programs = [
        lambda w: w - 2,
        lambda w: w + 3,
        lambda w: w * 3,
        lambda w: -w,
        lambda w: abs(w),
        lambda w: 9 - w,
        lambda w: (w + 1) * 2 - w,
        lambda w: w.astype("int8"),
        lambda w: w.astype("uint16") + 1,
        lambda w: w // 2,
        lambda w: w % 7,
    ]
    for make in programs:
        for wanted in make(pandas.Series(values)).tolist():

            def program(pd: Any, make: Any = make, wanted: Any = wanted) -> Any:
                df = pd.read_parquet(path)
                made = make(df["w"])
                return df[made == wanted]["x"].sum(), df[made > wanted]["x"].tolist(), len(df[made.isin([wanted])])

            check(program, native=None)
