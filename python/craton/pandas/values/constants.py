"""Constant columns, made from the only element of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from craton.pandas.core.array_conversion import from_array
from craton.pandas.core.dtypes import DtypeObj
from craton.pandas.core.view import Value
from craton.plan.expr import Literal


def constant_of(array: Any, dtype: DtypeObj) -> Value:
    """The only element of an array as a constant column of a dtype.

    Raises
    ------
    Unsupported
        If plans cannot represent the dtype.
    """
    column, nulls, nans = from_array("x", array)
    if nans:
        column = column.fill_nan(None)
        nulls = bool(column.null_count())
    return Value(literal_of(column), dtype, nulls=nulls)


def literal_of(column: pl.Series) -> Literal:
    """The only element of a column as a literal."""
    kind = column.dtype
    if not isinstance(kind, (pl.Datetime, pl.Duration)) or column.null_count():
        return Literal(column.item(), kind)
    ticks = column.to_physical().item()
    # Not `column.item()`, which is of Python's datetime and ends with the year 9999.
    if isinstance(kind, pl.Duration):
        return Literal(pd.Timedelta(ticks, unit=kind.time_unit).as_unit(kind.time_unit), kind)
    value = pd.Timestamp(np.datetime64(ticks, kind.time_unit))
    if kind.time_zone is not None:
        value = value.tz_localize("UTC").tz_convert(kind.time_zone)
    return Literal(value, kind)
