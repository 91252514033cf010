"""Results of a batch in another time unit than the plan's: a coarser unit is converted exactly, a finer one is refused."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from craton.pandas.values.batches import Batch


def test_a_coarser_unit_becomes_the_plans():
    batch = Batch("function", "to_datetime", (), np.dtype("datetime64[us]"))
    column = pl.Series([datetime(2020, 1, 1, 12), None], dtype=pl.Datetime("ms"))
    result = batch._physical(column)
    assert result.dtype == pl.Datetime("us")
    assert result.to_list() == [datetime(2020, 1, 1, 12), None]


def test_a_finer_unit_is_refused():
    batch = Batch("function", "to_datetime", (), np.dtype("datetime64[us]"))
    with pytest.raises(TypeError, match="a batch returned"):
        batch._physical(pl.Series([datetime(2020, 1, 1)], dtype=pl.Datetime("ns")))
