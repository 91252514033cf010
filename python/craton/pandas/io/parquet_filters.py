"""Translates the ``filters`` of ``read_parquet`` to expressions of a plan.

In pandas, pyarrow applies the filters, by its rules for comparable types, casts, NaN and errors. A plan has the filters in which
the column and the operand are of one kind, so that the kernel selects the same rows. All other filters are refused, so that
pandas applies them, or raises the error, during the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.types as kinds

from craton.errors import Unsupported
from craton.plan.expr import Call, Column, Expr, Literal, Values, conjunction
from craton.plan.operators import Scan
from craton.records import dataclass
from craton.refusals import Refusal

_OPERATORS = {"=": "eq", "==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}
_LISTS = (list, tuple, set, frozenset, np.ndarray, pd.Series, pd.Index)
#: The smallest positive normal 32-bit float, and the largest one.
_FLOAT32_RANGE = float(np.finfo("float32").tiny), float(np.finfo("float32").max)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class FilterTarget:
    """The files to which filters are applied.

    Parameters
    ----------
    base
        The scan of the files.
    schema
        The columns as Arrow types.
    files
        The paths of local files; empty for others.
    """

    base: Scan
    schema: pa.Schema
    files: tuple[str, ...]


def filter_expr(table: FilterTarget, filters: Any) -> Expr:
    """A boolean expression for filters in disjunctive normal form. Null never matches.

    Raises
    ------
    Unsupported
        If pyarrow rejects the filters, or may apply them differently.
    """
    if not isinstance(filters, list) or not filters:
        raise Unsupported(Refusal.PARAMETER, "filters")
    groups = [filters] if isinstance(filters[0], tuple) else filters
    anyof: Expr | None = None
    for group in groups:
        if not isinstance(group, list) or not group or not all(map(_is_condition, group)):
            raise Unsupported(Refusal.PARAMETER, "filters")
        every = conjunction([_condition(table, *entry) for entry in group])
        anyof = every if anyof is None else Call("or", (anyof, every), pl.Boolean())
    assert anyof is not None
    return anyof


def _is_condition(entry: Any) -> bool:
    return isinstance(entry, tuple) and len(entry) == 3 and isinstance(entry[0], str) and isinstance(entry[1], str)


def _condition(table: FilterTarget, name: str, symbol: str, operand: Any) -> Expr:
    if table.schema.names.count(name) != 1:
        raise Unsupported(Refusal.FILTER_COLUMN, repr(name))
    kind = table.schema.field(name).type
    dtype = dict(table.base.source.columns).get(name)
    if dtype is None or dtype != _kernel_dtype(kind):
        raise Unsupported(Refusal.FILTER_KIND, kind)
    column = Column(name, dtype)
    # pyarrow compares these as signed integers, or raises an error, depending on a file's statistics.
    if dtype == pl.UInt64():
        raise Unsupported(Refusal.FILTER_KIND, kind)
    if symbol == "not in":
        raise Unsupported(Refusal.FILTER_NOT_IN)
    if symbol == "in":
        return Call("is_in", (column, Values.of(_members(operand, dtype))), pl.Boolean())
    if symbol not in _OPERATORS:
        raise Unsupported(Refusal.FILTER_OPERATOR, repr(symbol))
    constant = _constant(operand, dtype)
    if dtype.is_float() and symbol == "!=":
        _check_not_equal(table.files, name, constant.value)
    compared: Expr = column if constant.dtype == dtype else Call("cast", (column,), constant.dtype)
    test: Expr = Call(_OPERATORS[symbol], (compared, constant), pl.Boolean())
    if dtype.is_float() and symbol in (">", ">="):
        test = conjunction([test, Call("is_not_nan", (column,), pl.Boolean())])
    return test


def _kernel_dtype(kind: pa.DataType) -> pl.DataType | None:
    """The kernel's dtype for an Arrow type that native filters support; None for the other types."""
    if kinds.is_dictionary(kind):  # a partition
        kind = kind.value_type
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return pl.String()
    if kinds.is_timestamp(kind) and kind.unit != "s":
        return pl.Datetime(kind.unit, kind.tz)
    return _KINDS.get(kind)


_KINDS: dict[pa.DataType, pl.DataType] = {
    pa.bool_(): pl.Boolean(),
    pa.int8(): pl.Int8(),
    pa.int16(): pl.Int16(),
    pa.int32(): pl.Int32(),
    pa.int64(): pl.Int64(),
    pa.uint8(): pl.UInt8(),
    pa.uint16(): pl.UInt16(),
    pa.uint32(): pl.UInt32(),
    pa.uint64(): pl.UInt64(),
    pa.float32(): pl.Float32(),
    pa.float64(): pl.Float64(),
    pa.date32(): pl.Date(),
}


# ---- one operand ----


def _constant(operand: Any, dtype: pl.DataType) -> Literal:
    """An operand as a constant of the column's dtype, or of 64 bits if a 32-bit column cannot represent it.

    Raises
    ------
    Unsupported
        If pyarrow converts the operand to another kind of value, to null or to NaN.
    """
    try:
        scalar = pa.scalar(operand)
        value = scalar.value if kinds.is_timestamp(scalar.type) else scalar.as_py()
    except Exception as error:
        raise Unsupported(Refusal.FILTER_OPERAND, repr(operand)) from error
    if value is not None and _same_kind_of_value(scalar.type, dtype):
        if isinstance(dtype, pl.Datetime):
            ticks = _convert_ticks(np.array([value], dtype=object), scalar.type.unit, dtype.time_unit)
            if ticks is not None:
                return Literal(pd.Timestamp(ticks[0], unit=dtype.time_unit, tz=dtype.time_zone), dtype)
        elif dtype.is_float():
            if _fits_float(value, dtype):
                wide = dtype == pl.Float32() and float(np.float32(value)) != value
                return Literal(float(value), pl.Float64() if wide else dtype)
        elif not dtype.is_integer() or _fits_integer(value, value, dtype):
            return Literal(value, dtype)
    raise Unsupported(Refusal.FILTER_OPERAND, repr(operand))


def _same_kind_of_value(kind: pa.DataType, dtype: pl.DataType) -> bool:
    """Whether pyarrow compares values of a type with a column without a lossy cast of either."""
    if dtype.is_integer():
        return kinds.is_integer(kind)
    if dtype.is_float():
        return kinds.is_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)
    if isinstance(dtype, pl.Datetime):
        return kinds.is_timestamp(kind) and kind.tz == dtype.time_zone
    return _kernel_dtype(kind) == dtype and not kinds.is_dictionary(kind)


def _fits_integer(least: int, most: int, dtype: pl.DataType) -> bool:
    bounds = np.iinfo(str(dtype).lower())
    return bool(bounds.min <= least and most <= bounds.max)


def _fits_float(value: Any, dtype: pl.DataType) -> bool:
    """Whether a number is not NaN, and pyarrow casts it to the column's float dtype."""
    if isinstance(value, int):
        return abs(value) <= _largest_exact(dtype)
    return value == value and (
        dtype == pl.Float64() or abs(value) in (0, np.inf) or _FLOAT32_RANGE[0] <= abs(value) <= _FLOAT32_RANGE[1]
    )


def _largest_exact(dtype: pl.DataType) -> int:
    """The largest integer up to which a float dtype represents all integers."""
    return 1 << 24 if dtype == pl.Float32() else 1 << 53


def _convert_ticks(ticks: Any, given: str, unit: str) -> Any:
    """Convert ticks to another time unit; None if one is not representable there."""
    there, here = _UNITS[unit], _UNITS[given]
    moved = ticks * (there // here) if there >= here else ticks // (here // there)
    back = moved if there >= here else moved * (here // there)
    bounds = np.iinfo("int64")
    if (there < here and any(back != ticks)) or any(moved > bounds.max) or any(moved <= bounds.min):
        return None
    return [int(value) for value in moved]


def _check_not_equal(files: Sequence[str], name: str, value: float) -> None:
    """Refuse ``!=`` if pyarrow would drop NaN.

    pyarrow skips a row group if its minimum and maximum equal the operand, although these statistics ignore NaN.
    """
    import pyarrow.parquet as pq

    if not files:
        raise Unsupported(Refusal.FILTER_NAN)
    for path in files:
        metadata = pq.read_metadata(path)
        places = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for found in (group.column(place).statistics for place in places):
                if found is not None and found.has_min_max and found.min == value == found.max:
                    raise Unsupported(Refusal.FILTER_NAN)


# ---- lists of operands ----


def _members(operand: Any, dtype: pl.DataType) -> pl.Series:
    """The operands of ``in``, in the column's dtype.

    Raises
    ------
    Unsupported
        If pyarrow converts them to another kind of value, or if there are nulls, NaN or float zeros, whose signs it distinguishes.
    """
    if not isinstance(operand, _LISTS):
        raise Unsupported(Refusal.FILTER_OPERAND, repr(operand))
    try:
        found = pa.array(operand)
    except Exception as error:
        raise Unsupported(Refusal.FILTER_OPERAND, repr(operand)) from error
    if len(found) and not found.null_count and _same_kind_of_value(found.type, dtype):
        members = _cast_members(found, dtype)
        if members is not None:
            return members
    raise Unsupported(Refusal.FILTER_OPERAND, repr(operand))


def _cast_members(found: Any, dtype: pl.DataType) -> pl.Series | None:
    if isinstance(dtype, pl.Datetime):
        given = np.array(found.cast(pa.int64()).to_pylist(), dtype=object)
        ticks = _convert_ticks(given, found.type.unit, dtype.time_unit)
        return None if ticks is None else pl.Series(ticks, dtype=pl.Int64()).cast(dtype)
    series = pl.Series(found.to_pylist() if kinds.is_string(found.type) else pl.from_arrow(found))
    if dtype.is_integer():
        return series.cast(dtype) if _fits_integer(series.min(), series.max(), dtype) else None  # type: ignore[arg-type]
    if dtype.is_float():
        if series.dtype.is_integer() and not _all_exact_in_floats(series, dtype):
            return None
        if series.dtype.is_float() and series.is_nan().any():
            return None
        cast = series.cast(dtype)
        return None if (cast.cast(pl.Float64()) != series.cast(pl.Float64())).any() or (cast == 0).any() else cast
    return series.cast(dtype)


def _all_exact_in_floats(series: pl.Series, dtype: pl.DataType) -> bool:
    least, most = int(series.min()), int(series.max())  # type: ignore[arg-type]
    return -_largest_exact(dtype) <= least and most <= _largest_exact(dtype)
