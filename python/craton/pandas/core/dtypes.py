"""pandas dtypes, and the physical (Polars) dtypes that represent them in a plan.

A pandas dtype belongs to a *family*, which determines how missing values behave: ``numpy`` (NaN/NaT, no missing integers),
``str`` (pandas 3 strings, NaN), ``masked`` and ``arrow`` (NA), ``category`` (codes in the plan), ``object``
(passed through a plan, which computes nothing from it: Python objects, complex numbers, periods, intervals and sparse arrays).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from craton.errors import Unsupported
from craton.refusals import Refusal

DtypeObj: TypeAlias = np.dtype[Any] | pd.api.extensions.ExtensionDtype

_NUMPY: dict[str, pl.DataType] = {
    "bool": pl.Boolean(),
    "int8": pl.Int8(),
    "int16": pl.Int16(),
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "uint8": pl.UInt8(),
    "uint16": pl.UInt16(),
    "uint32": pl.UInt32(),
    "uint64": pl.UInt64(),
    "float32": pl.Float32(),
    "float64": pl.Float64(),
}

STR = pd.StringDtype("pyarrow", na_value=np.nan)
BOOL = np.dtype("bool")
INT64 = np.dtype("int64")
FLOAT64 = np.dtype("float64")
OBJECT = np.dtype("object")


@lru_cache(maxsize=512)
def physical(dtype: DtypeObj) -> pl.DataType:
    """The physical dtype that represents a pandas dtype.

    Raises
    ------
    Unsupported
        If no physical dtype represents it exactly.
    """
    if isinstance(dtype, np.dtype):
        if dtype.name in _NUMPY and dtype.isnative:
            return _NUMPY[dtype.name]
        if dtype.kind in "mM" and dtype.isnative:
            unit = np.datetime_data(dtype)[0]
            if unit in ("s", "ms", "us", "ns"):
                kind = pl.Datetime if dtype.kind == "M" else pl.Duration
                return kind("ms" if unit == "s" else unit)  # type: ignore[arg-type]
        raise Unsupported(Refusal.DTYPE_WITHOUT_PHYSICAL_FORM, dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = getattr(dtype.tz, "key", None) or getattr(dtype.tz, "zone", None)
        if zone is None and str(dtype.tz) == "UTC":
            zone = "UTC"
        if zone is None:
            raise Unsupported(Refusal.ZONE_WITHOUT_NAME, repr(dtype.tz))
        return pl.Datetime("ms" if dtype.unit == "s" else dtype.unit, zone)  # type: ignore[arg-type]
    if isinstance(dtype, pd.StringDtype):
        return pl.String()
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories is None:
            raise Unsupported(Refusal.CATEGORIES_MISSING)
        return pl.Int32()
    if isinstance(dtype, pd.ArrowDtype):
        return _from_arrow(dtype.pyarrow_dtype)
    masked = getattr(dtype, "numpy_dtype", None)
    if isinstance(masked, np.dtype) and masked.name in _NUMPY:
        return _NUMPY[masked.name]
    raise Unsupported(Refusal.DTYPE_WITHOUT_PHYSICAL_FORM, dtype)


def _from_arrow(kind: pa.DataType) -> pl.DataType:
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_time64(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    ):
        if pa.types.is_timestamp(kind) and kind.tz is not None and kind.tz[:1] in "+-":
            raise Unsupported(Refusal.ZONE_WITHOUT_NAME, repr(kind.tz))
        try:
            series = pl.from_arrow(pa.array([], type=kind))
        except pl.exceptions.ComputeError as error:  # an unknown time zone, which Arrow detects at the first lookup
            raise Unsupported(Refusal.ZONE_WITHOUT_NAME, repr(kind.tz)) from error
        assert isinstance(series, pl.Series)
        return series.dtype
    raise Unsupported(Refusal.DTYPE_WITHOUT_PHYSICAL_FORM, kind)


def is_carried(dtype: DtypeObj) -> bool:
    """Whether a plan carries a column of this dtype in memory by the positions of its values, because no physical dtype represents it."""
    if isinstance(dtype, np.dtype):
        return dtype == OBJECT or (dtype.kind == "c" and dtype.isnative)
    return isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype, pd.SparseDtype))


@lru_cache(maxsize=512)
def family(dtype: DtypeObj) -> str:
    """``numpy``, ``str``, ``masked``, ``arrow``, ``category`` or ``object``."""
    if is_carried(dtype):
        return "object"
    if isinstance(dtype, np.dtype):
        return "numpy"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "numpy"
    if isinstance(dtype, pd.StringDtype):
        return "str" if dtype.na_value is np.nan else "masked"
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if isinstance(dtype, pd.ArrowDtype):
        return "arrow"
    return "masked"


def kind_of(dtype: DtypeObj) -> str:
    """NumPy's kind letter for the values of a dtype: ``b i u f M m``, ``T`` for strings, else ``O``."""
    if isinstance(dtype, np.dtype):
        return dtype.kind
    if isinstance(dtype, pd.StringDtype):
        return "T"
    if isinstance(dtype, (pd.CategoricalDtype, pd.SparseDtype)):
        return "O"
    if isinstance(dtype, pd.ArrowDtype) and (
        pa.types.is_string(dtype.pyarrow_dtype)
        or pa.types.is_large_string(dtype.pyarrow_dtype)
        or pa.types.is_string_view(dtype.pyarrow_dtype)
    ):
        return "T"
    return str(dtype.kind)


def distinguishes_signed_zeros(dtype: DtypeObj) -> bool:
    """Whether -0.0 and 0.0 are distinct values to pandas: true for Arrow's floats."""
    return family(dtype) == "arrow" and kind_of(dtype) == "f"


def distinguishes_nan(dtype: DtypeObj) -> bool:
    """Whether pandas distinguishes NaN from a missing value: true for Arrow's floats."""
    return family(dtype) == "arrow" and kind_of(dtype) == "f"


def with_missing(dtype: DtypeObj) -> DtypeObj:
    """The dtype of a column of this dtype after a missing value is inserted: NumPy's integers become float64, bool becomes object."""
    if isinstance(dtype, np.dtype):
        if dtype.kind in "iu":
            return FLOAT64
        if dtype.kind == "b":
            return OBJECT
    return dtype


def can_hold_missing(dtype: DtypeObj) -> bool:
    """Whether a column of this dtype can hold missing values without changing its dtype."""
    return with_missing(dtype) is dtype or with_missing(dtype) == dtype


def is_float(dtype: DtypeObj) -> bool:
    """Whether missing values are NaN in the array itself (NumPy floats)."""
    return isinstance(dtype, np.dtype) and dtype.kind == "f"


def same_dtype(one: DtypeObj, other: DtypeObj) -> bool:
    """Whether values of two dtypes have the same physical form and meaning.

    pandas takes unordered categories in any order for the same dtype, but their codes differ.
    """
    if isinstance(one, pd.CategoricalDtype) and isinstance(other, pd.CategoricalDtype) and one == other:
        mine, theirs = one.categories, other.categories
        return mine is theirs or (
            mine is not None and theirs is not None and mine.dtype == theirs.dtype and mine.equals(theirs)
        )
    return bool(one == other)


def numeric_dtype(dtype: DtypeObj) -> np.dtype[Any]:
    """The NumPy dtype of the values of a numeric or boolean column of any family.

    Raises
    ------
    Unsupported
        If the column is neither numeric nor boolean.
    """
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biuf":
            return dtype
    elif isinstance(dtype, pd.ArrowDtype):
        if dtype.kind in "biuf" and dtype.numpy_dtype.kind in "biuf":
            return dtype.numpy_dtype
    else:
        inner = getattr(dtype, "numpy_dtype", None)
        if isinstance(inner, np.dtype) and inner.kind in "biuf":
            return inner
    raise Unsupported(Refusal.DTYPE_WITHOUT_NUMBERS, dtype)
