"""Row-wise functions of dates and durations that are arithmetic of their integers, computed without pandas.

A date of NumPy's dtypes is a number of units since 1970, which pandas and the kernel store alike. Columns for which pandas would
raise an error, or whose result would be the number that pandas takes for a missing value, are left to pandas.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from pandas.tseries.frequencies import to_offset

from craton.pandas.core.dtypes import DtypeObj, family, kind_of, physical

#: Nanoseconds of each unit of the kernel, and of each component of pandas: its own size and that of the next larger one.
_UNITS = {"ms": 10**6, "us": 10**3, "ns": 1}
_DAY, _SECOND, _MICROSECOND = 86_400 * 10**9, 10**9, 10**3
_PARTS = {
    "dt.days": (_DAY, None),
    "dt.seconds": (_SECOND, _DAY),
    "dt.microseconds": (_MICROSECOND, _SECOND),
    "dt.microsecond": (_MICROSECOND, _SECOND),
    "dt.nanoseconds": (1, _MICROSECOND),
    "dt.nanosecond": (1, _MICROSECOND),
}
_MISSING = np.iinfo(np.int64).min
#: Integers up to this are exact as floats.
_EXACT = 1 << 53


def computed(name: str, dtypes: Sequence[DtypeObj], result: DtypeObj, operands: Sequence[Any]) -> pl.Series | None:
    """The result of a member of ``Series.dt`` or of an operator; None if pandas must compute it.

    Parameters
    ----------
    name
        The member, such as ``dt.floor``, or the function of :mod:`operator`.
    dtypes
        The pandas dtypes of the columns among the operands.
    result
        The dtype of the result.
    operands
        All positional arguments: columns as series, and scalars.
    """
    if not all(map(_has_kernel_unit, dtypes)):
        return None
    if name in ("add", "sub"):
        return _added(name, physical(result), operands) if len(operands) == 2 else None
    column, *args = operands
    if not isinstance(column, pl.Series) or any(isinstance(arg, pl.Series) for arg in args):
        return None
    values, unit, zone, target = column.to_physical(), _unit(column.dtype), _zone(column.dtype), physical(result)
    if name in ("dt.tz_convert", "dt.tz_localize") and len(args) == 1:
        moved = name == "dt.tz_localize" and (zone, _zone(target)) not in ((None, "UTC"), ("UTC", None))
        return None if moved or _unit(target) != unit else values.cast(target)
    if unit is None or zone not in (None, "UTC"):
        return None
    if name == "dt.total_seconds" and not args:
        return _seconds(values, _SECOND // _UNITS[unit])
    if name in _PARTS and not args:
        return _part(values, *_PARTS[name], _UNITS[unit]).cast(target)
    if target == column.dtype:
        if name == "dt.normalize" and not args:
            return _floored(values, _DAY // _UNITS[unit], target)
        if name == "dt.floor" and len(args) == 1 and isinstance(args[0], str):
            step, rest = divmod(_nanoseconds(args[0]), _UNITS[unit])
            return _floored(values, step, target) if step > 1 and not rest else None
    return None


def _has_kernel_unit(dtype: DtypeObj) -> bool:
    """Whether a dtype is one of NumPy's dates or durations, in a unit that the kernel has."""
    if isinstance(dtype, pd.DatetimeTZDtype):
        return dtype.unit in _UNITS
    return family(dtype) == "numpy" and kind_of(dtype) in ("M", "m") and np.datetime_data(dtype)[0] in _UNITS


def _unit(dtype: pl.DataType) -> str | None:
    return dtype.time_unit if isinstance(dtype, (pl.Datetime, pl.Duration)) else None


def _zone(dtype: pl.DataType) -> str | None:
    return dtype.time_zone if isinstance(dtype, pl.Datetime) else None


def _added(name: str, target: pl.DataType, operands: Sequence[Any]) -> pl.Series | None:
    """The sum or difference, if all operands and the result have one unit."""
    unit = _unit(target)
    numbers: list[Any] = []
    for operand in operands:
        if isinstance(operand, pl.Series) and _unit(operand.dtype) == unit:
            numbers.append(operand.to_physical())
        elif isinstance(operand, (pd.Timestamp, pd.Timedelta)) and operand.unit == unit:
            numbers.append(operand.asm8.astype(np.int64).item())
        else:
            return None
    left, right = numbers
    total = left + right if name == "add" else left - right
    # A sum overflows if both numbers have the other sign than it; a difference if the first number and the negated second have.
    overflow = (left ^ total) & ((right ^ total) if name == "add" else (left ^ right))
    if _least(overflow) < 0 or _least(total) == _MISSING:
        return None
    return total.cast(target)


def _least(values: pl.Series) -> int:
    least = values.min()
    return 0 if least is None else int(least)  # type: ignore[call-overload, arg-type, no-any-return]


def _seconds(values: pl.Series, size: int) -> pl.Series | None:
    """Numbers of which ``size`` are a second, as seconds: the sum of the whole ones and the rest, as pandas adds them."""
    if _least(values) < -_EXACT or _least(-values) < -_EXACT:
        return None
    known = values.fill_null(0)
    # The kernel would multiply by the reciprocal.
    seconds = pl.Series((known // size).to_numpy() + (known % size).to_numpy() / size)
    if not values.null_count():
        return seconds
    return seconds.to_frame("seconds").select(pl.when(values.is_not_null()).then(pl.col("seconds"))).to_series()


def _part(values: pl.Series, size: int, next_size: int | None, unit: int) -> pl.Series:
    """A component, in ``size`` nanoseconds, of numbers of ``unit`` nanoseconds; what exceeds ``next_size`` is left out."""
    if next_size is not None:
        if next_size <= unit:
            return values - values
        values = values % (next_size // unit)
    return values // (size // unit) if size >= unit else values * (unit // size)


def _floored(values: pl.Series, step: int, target: pl.DataType) -> pl.Series | None:
    floored = values - values % step
    return None if (floored > values).any() or _least(floored) == _MISSING else floored.cast(target)


@functools.lru_cache(maxsize=256)
def _nanoseconds(frequency: str) -> int:
    """The nanoseconds of a frequency; zero if it has no fixed length."""
    try:
        return int(to_offset(frequency).nanos)  # type: ignore[union-attr]
    except (ValueError, AttributeError):
        return 0
